/* Which bins a record reaches, and the lists of the bins. */
#include "../src/ellipse_math.h"
#include "device.cuh"

/* Bins [begin, end) of one row of bins.  Counting and emission must agree to the last
 * bit, so both call this one copy. */
static __device__ __noinline__ uint2 row_span(const gsc__gpu_record &record, const gsc__ellipse &e,
                                              const gsc__gpu_grid &grid, int32_t row) {
    const int32_t x0 = (int32_t)(record.columns & 0xffff), x1 = (int32_t)(record.columns >> 16);
    const int32_t y0 = (int32_t)(record.rows & 0xffff), y1 = (int32_t)(record.rows >> 16);
    const int32_t top = max(row << grid.shift_y, y0);
    const int32_t bottom = min(((row + 1) << grid.shift_y) - 1, y1);
    int32_t first, last;
    gsc__ellipse_slab(&e, (float)top, (float)bottom, (float)x0, (float)x1, &first, &last);
    if (last < first) return make_uint2(0, 0);
    return make_uint2((uint32_t)(first >> grid.shift_x), (uint32_t)(last >> grid.shift_x) + 1);
}

static __device__ __forceinline__ gsc__ellipse ellipse_of(const gsc__gpu_record &record) {
    return gsc__ellipse_of(record.mean, record.r00, record.r01, record.r11,
                           record.log2_opacity + GSC__LOG2_255);
}

static __device__ __forceinline__ gsc__gpu_record load_record(const gsc__gpu_record *from) {
    gsc__gpu_record record;
    for (int k = 0; k < 3; ++k) ((float4 *)&record)[k] = ((const float4 *)from)[k];
    return record;
}

/* The rows of bins of 32 records, dealt out to the warp's lanes one by one: records differ
 * in their rows by orders of magnitude. */
typedef struct row_deal {
    gsc__gpu_record records[32];
    gsc__ellipse ellipses[32];
    int32_t first_rows[32];
    uint32_t ends[32]; /* of the records' rows, counted through */
} row_deal;

/* Lane i deals `rows` rows of its record from first_row on.  Returns how many all deal. */
static __device__ uint32_t deal_rows(row_deal *deal, const gsc__gpu_record &record,
                                     int32_t first_row, int32_t rows) {
    const uint32_t end = gsc__warp_scan((uint32_t)rows);
    deal->ends[gsc__lane()] = end;
    deal->first_rows[gsc__lane()] = first_row;
    if (rows > 0) {
        deal->records[gsc__lane()] = record;
        deal->ellipses[gsc__lane()] = ellipse_of(record);
    }
    __syncwarp();
    return __shfl_sync(GSC__ALL_LANES, end, 31);
}

/* Whose row number i is, and which. */
static __device__ uint32_t dealt_to(const row_deal *deal, uint32_t i, int32_t *row) {
    uint32_t owner = 0;
#pragma unroll
    for (uint32_t step = 16; step; step /= 2)
        if (deal->ends[owner + step - 1] <= i) owner += step;
    const uint32_t begin = owner ? deal->ends[owner - 1] : 0;
    *row = deal->first_rows[owner] + (int32_t)(i - begin);
    return owner;
}

/* Two marks share a word, each of 16 bits: a block's are fewer than 2^15. */
static __device__ __forceinline__ void add_mark(int32_t *marks, int64_t k, int32_t value) {
    atomicAdd(marks + (k >> 1), k & 1 ? value * 65536 : value);
}

static __device__ void mark_span(const gsc_k_count_bins &args, int32_t row, uint2 span, bool shared,
                                 int32_t *marks) {
    const int64_t line = (int64_t)row * (args.grid.bins_x + 1);
    if (shared) {
        add_mark(marks, line + span.x, 1);
        add_mark(marks, line + span.y, -1);
    } else {
        atomicAdd(args.differences + line + span.x, 1);
        atomicSub(args.differences + line + span.y, 1);
    }
}

/* 32 records at a time from first on. */
static __device__ void count_records(const gsc_k_count_bins &args, uint32_t first, uint32_t end,
                                     row_deal *deal, uint32_t *counts, bool shared,
                                     int32_t *marks) {
    const uint32_t i = first + gsc__lane();
    gsc__gpu_record record;
    int32_t row = 0, rows = 0;
    if (i < end) {
        record = load_record(args.frame.records + i);
        row = (int32_t)(record.rows & 0xffff) >> args.grid.shift_y;
        rows = ((int32_t)(record.rows >> 16) >> args.grid.shift_y) - row + 1;
    }
    counts[gsc__lane()] = 0;
    const uint32_t total = deal_rows(deal, record, row, rows);
    for (uint32_t k = gsc__lane(); k < total; k += 32) {
        const uint32_t owner = dealt_to(deal, k, &row);
        uint2 span = row_span(deal->records[owner], deal->ellipses[owner], args.grid, row);
        if (span.x >= span.y) continue;
        mark_span(args, row, span, shared, marks);
        atomicAdd(counts + owner, span.y - span.x);
    }
    __syncwarp();
    if (i < end) args.frame.counts[i] = counts[gsc__lane()];
    __syncwarp();
}

extern "C" __global__ void __launch_bounds__(GSC__COUNT_BLOCK)
    gsc_count_bins(const __grid_constant__ gsc_k_count_bins args) {
    __shared__ int32_t marks[GSC__COUNT_SHARED / 2];
    __shared__ row_deal deals[GSC__COUNT_BLOCK / 32];
    __shared__ uint32_t counts[GSC__COUNT_BLOCK];
    const uint32_t visible = args.frame.header->visible, warp = threadIdx.x >> 5;
    const uint32_t first = blockIdx.x * GSC__COUNT_PIECE;
    const int64_t length = (int64_t)args.grid.bins_y * (args.grid.bins_x + 1);
    if (first >= visible) return;
    const bool shared = length <= GSC__COUNT_SHARED;
    for (int64_t k = threadIdx.x; shared && 2 * k < length; k += GSC__COUNT_BLOCK) marks[k] = 0;
    __syncthreads();
    const uint32_t end = min(first + GSC__COUNT_PIECE, visible);
    for (uint32_t i = first + warp * 32; i < end; i += GSC__COUNT_BLOCK)
        count_records(args, i, end, deals + warp, counts + warp * 32, shared, marks);
    __syncthreads();
    for (int64_t k = threadIdx.x; shared && 2 * k < length; k += GSC__COUNT_BLOCK) {
        const int32_t both = marks[k], low = (short)both, high = (both - low) >> 16;
        if (low) atomicAdd(args.differences + 2 * k, low);
        if (high) atomicAdd(args.differences + 2 * k + 1, high);
    }
}

/* Runs along each row of bins, 1024 bins at a time; a row's sum may begin anywhere in a
 * block, so bins are numbered through and differences read with their gaps. */
extern "C" __global__ void __launch_bounds__(1024)
    gsc_sum_bins(const __grid_constant__ gsc_k_sum_bins args) {
    __shared__ uint32_t warps[33], largest;
    const int32_t bins_x = args.grid.bins_x, stride = bins_x + 1;
    uint64_t before = 0;
    uint32_t total, row_before = 0, own_largest = 0;
    if (threadIdx.x == 0) largest = 0;
    __syncthreads();
    /* The sum over a whole row of differences is zero, so one running sum over all rows,
     * gaps included, restarts by itself. */
    const int64_t length = (int64_t)args.grid.bins_y * stride;
    for (int64_t first = 0; first < length; first += 1024) {
        int64_t at = first + threadIdx.x;
        uint32_t x = at < length ? (uint32_t)args.differences[at] : 0;
        uint32_t count = row_before + gsc__block_scan(x, warps, &total) + x;
        row_before += total;
        int64_t row = at / stride, column = at - row * stride;
        bool bin = at < length && column < bins_x;
        uint32_t entries = bin ? count : 0;
        uint32_t scanned = gsc__block_scan(entries, warps, &total);
        if (bin) args.frame.offsets[row * bins_x + column] = before + scanned;
        own_largest = max(own_largest, entries);
        before += total;
    }
    atomicMax(&largest, own_largest);
    __syncthreads();
    if (threadIdx.x) return;
    args.frame.offsets[args.grid.bins] = before;
    args.frame.header->intersections = before;
    args.frame.header->largest_bin = largest;
}

extern "C" __global__ void gsc_plan_bands(const __grid_constant__ gsc_k_plan_bands args) {
    const uint64_t *offsets = args.frame.offsets;
    uint32_t begin = 0;
    uint64_t missing = 0;
    for (uint32_t round = 0; round < args.rounds; ++round) {
        gsc__gpu_band band = {begin, begin, 0, 0};
        uint32_t low = begin, high = (uint32_t)args.grid.bins;
        while (low < high) {
            uint32_t middle = low + (high - low + 1) / 2;
            if (offsets[middle] - offsets[begin] <= args.capacity)
                low = middle;
            else
                high = middle - 1;
        }
        band.end = low;
        band.entries = (uint32_t)(offsets[low] - offsets[begin]);
        band.too_small = low == begin && begin < (uint32_t)args.grid.bins;
        if (band.too_small) missing = 4ull * args.frame.header->largest_bin;
        args.bands[round] = band;
        begin = low;
    }
    if (args.overflow) *args.overflow = (int64_t)missing;
}

extern "C" __global__ void __launch_bounds__(256)
    gsc_band_counts(const __grid_constant__ gsc_k_band_counts args) {
    const uint32_t i = blockIdx.x * 256 + threadIdx.x;
    if (i >= args.frame.header->visible) return;
    const gsc__gpu_band band = *args.band;
    const uint32_t at = args.frame.order[i];
    if (band.begin == 0 && band.end == (uint32_t)args.grid.bins) {
        args.counts[i] = args.frame.counts[at];
        return;
    }
    uint32_t count = 0;
    if (band.begin < band.end) {
        const gsc__gpu_record record = load_record(args.frame.records + at);
        const gsc__ellipse e = ellipse_of(record);
        int32_t row = (int32_t)(record.rows & 0xffff) >> args.grid.shift_y;
        int32_t row_end = (int32_t)(record.rows >> 16) >> args.grid.shift_y;
        row = max(row, (int32_t)(band.begin / args.grid.bins_x));
        row_end = min(row_end, (int32_t)((band.end - 1) / args.grid.bins_x));
        for (; row <= row_end; ++row) {
            uint2 span = row_span(record, e, args.grid, row);
            uint32_t base = (uint32_t)row * args.grid.bins_x;
            uint32_t first = max(base + span.x, band.begin), last = min(base + span.y, band.end);
            if (first < last) count += last - first;
        }
    }
    args.counts[i] = count;
}

/* Writes one lane's entries; long ones are written by the whole warp. */
static __device__ void write_entries(const gsc_k_emit &args, uint32_t to, uint32_t first,
                                     uint32_t count, uint32_t record) {
    uint32_t longer = __ballot_sync(GSC__ALL_LANES, count > 8);
    while (longer) {
        int from = __ffs((int)longer) - 1;
        longer &= longer - 1;
        uint32_t its_first = __shfl_sync(GSC__ALL_LANES, first, from);
        uint32_t its_count = __shfl_sync(GSC__ALL_LANES, count, from);
        uint32_t its_to = __shfl_sync(GSC__ALL_LANES, to, from);
        uint32_t its_record = __shfl_sync(GSC__ALL_LANES, record, from);
        for (uint32_t k = gsc__lane(); k < its_count; k += 32) {
            args.keys[its_to + k] = its_first + k;
            args.values[its_to + k] = its_record;
        }
    }
    for (uint32_t k = 0; k < count && count <= 8; ++k) {
        args.keys[to + k] = first + k;
        args.values[to + k] = record;
    }
}

/* The entries of 32 neighbours in depth order follow each other without a gap, record by
 * record and row by row: the order in which the rows are dealt. */
extern "C" __global__ void __launch_bounds__(GSC__EMIT_BLOCK)
    gsc_emit(const __grid_constant__ gsc_k_emit args) {
    __shared__ row_deal deals[GSC__EMIT_BLOCK / 32];
    __shared__ uint32_t records[GSC__EMIT_BLOCK];
    const uint32_t i = blockIdx.x * GSC__EMIT_BLOCK + threadIdx.x, warp = threadIdx.x >> 5;
    const uint32_t visible = args.frame.header->visible;
    const gsc__gpu_band band = *args.band;
    if (band.begin >= band.end || blockIdx.x * GSC__EMIT_BLOCK + warp * 32 >= visible) return;
    row_deal *deal = deals + warp;
    gsc__gpu_record record;
    int32_t row = 0, rows = 0;
    uint32_t to = 0;
    if (i < visible) {
        const uint32_t at = args.frame.order[i];
        records[threadIdx.x] = at;
        to = args.offsets[i];
        record = load_record(args.frame.records + at);
        row = max((int32_t)(record.rows & 0xffff) >> args.grid.shift_y,
                  (int32_t)(band.begin / args.grid.bins_x));
        rows = max(min((int32_t)(record.rows >> 16) >> args.grid.shift_y,
                       (int32_t)((band.end - 1) / args.grid.bins_x)) -
                       row + 1,
                   0);
    }
    const uint32_t total = deal_rows(deal, record, row, rows);
    uint32_t base = __shfl_sync(GSC__ALL_LANES, to, 0);
    for (uint32_t first = 0; first < total; first += 32) {
        uint32_t begin = 0, count = 0, owner = 0;
        if (first + gsc__lane() < total) {
            owner = dealt_to(deal, first + gsc__lane(), &row);
            uint2 span = row_span(deal->records[owner], deal->ellipses[owner], args.grid, row);
            const uint32_t line = (uint32_t)row * args.grid.bins_x;
            begin = max(line + span.x, band.begin);
            const uint32_t end = min(line + span.y, band.end);
            count = begin < end ? end - begin : 0;
        }
        const uint32_t end = gsc__warp_scan(count);
        write_entries(args, base + end - count, begin - band.begin, count,
                      records[warp * 32 + owner]);
        base += __shfl_sync(GSC__ALL_LANES, end, 31);
    }
}

/* Quarters of an octave of the length, longest first. */
static __device__ __forceinline__ uint32_t length_class(const uint64_t *offsets, uint32_t bin) {
    float length = (float)(offsets[bin + 1] - offsets[bin]) + 1.0f;
    return 127u - min((__float_as_uint(length) >> 21) - 508u, 127u);
}

/* A counting sort by class.  Which of two lists of one class comes first may vary: it
 * moves work, never results. */
extern "C" __global__ void __launch_bounds__(1024)
    gsc_order_bins(const __grid_constant__ gsc_k_order_bins args) {
    __shared__ uint32_t classes[128], warps[33];
    const gsc__gpu_band band = *args.band;
    const uint64_t *offsets = args.frame.offsets;
    if (threadIdx.x < 128) classes[threadIdx.x] = 0;
    __syncthreads();
    for (uint32_t bin = band.begin + threadIdx.x; bin < band.end; bin += 1024) {
        atomicAdd(&classes[length_class(offsets, bin)], 1u);
    }
    __syncthreads();
    uint32_t total, x = threadIdx.x < 128 ? classes[threadIdx.x] : 0;
    uint32_t scanned = gsc__block_scan(x, warps, &total);
    if (threadIdx.x < 128) classes[threadIdx.x] = scanned;
    __syncthreads();
    for (uint32_t bin = band.begin + threadIdx.x; bin < band.end; bin += 1024) {
        uint32_t place = atomicAdd(&classes[length_class(offsets, bin)], 1u);
        args.bin_order[place] = bin;
    }
}
