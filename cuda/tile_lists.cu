/* Offsets and bands of tiles, and the intersections in their lists.  Compiled without contraction,
 * see project.cuh. */
#include "bands.cuh"
#include "spans.cuh"

static __device__ __forceinline__ gsc__gpu_record load_record(const gsc__gpu_record *from) {
    gsc__gpu_record record;
    for (int k = 0; k < 3; ++k) ((float4 *)&record)[k] = ((const float4 *)from)[k];
    return record;
}

/* Two marks of 16 bits share a word: a block makes fewer than 2^15 of each. */
static __device__ __forceinline__ void add_mark(int32_t *marks, int64_t k, int32_t value) {
    atomicAdd(marks + (k >> 1), k & 1 ? value * 65536 : value);
}

static __device__ void mark_span(const gsc_k_count_tiles &args, int32_t row, uint2 span,
                                 bool shared, int32_t *marks) {
    const int64_t line = (int64_t)row * (args.grid.tiles_x + 1);
    if (shared) {
        add_mark(marks, line + span.x, 1);
        add_mark(marks, line + span.y, -1);
    } else {
        atomicAdd(args.differences + line + span.x, 1);
        atomicSub(args.differences + line + span.y, 1);
    }
}

/* Marks the tiles of up to 32 records, from first on. */
static __device__ void count_records(const gsc_k_count_tiles &args, uint32_t first, uint32_t end,
                                     row_work *work, bool shared, int32_t *marks) {
    const uint32_t i = first + gsc__lane();
    gsc__gpu_record record;
    int32_t row = 0, rows = 0;
    if (i < end) {
        record = load_record(args.frame.records + i);
        row = (int32_t)(record.rows & 0xffff) >> args.grid.shift_y;
        const int32_t last = (int32_t)(record.rows >> 16) >> args.grid.shift_y;
        rows = max(min(last, args.grid.tiles_y - 1) - row + 1, 0);
    }
    const uint32_t total = distribute_rows(work, record, row, rows);
    for (uint32_t k = gsc__lane(); k < total; k += 32) {
        uint2 span = row_span(work, row_owner(work, k, &row), args.grid, row);
        span.y = min(span.y, (uint32_t)args.grid.tiles_x);
        if (span.x < span.y) mark_span(args, row, span, shared, marks);
    }
    __syncwarp();
}

extern "C" __global__ void __launch_bounds__(GSC__COUNT_BLOCK)
    gsc_count_tiles(const __grid_constant__ gsc_k_count_tiles args) {
    gsc__begin_kernel();
    __shared__ int32_t marks[GSC__COUNT_SHARED / 2];
    __shared__ row_work all_work[GSC__COUNT_BLOCK / 32];
    const uint32_t visible = gsc__record_count(args.frame), warp = threadIdx.x >> 5;
    const uint32_t first = blockIdx.x * GSC__COUNT_CHUNK;
    const int64_t length = (int64_t)args.grid.tiles_y * (args.grid.tiles_x + 1);
    if (first >= visible) return;
    const bool shared = length <= GSC__COUNT_SHARED;
    for (int64_t k = threadIdx.x; shared && 2 * k < length; k += GSC__COUNT_BLOCK) marks[k] = 0;
    __syncthreads();
    const uint32_t end = min(first + GSC__COUNT_CHUNK, visible);
    for (uint32_t i = first + warp * 32; i < end; i += GSC__COUNT_BLOCK)
        count_records(args, i, end, all_work + warp, shared, marks);
    __syncthreads();
    for (int64_t k = threadIdx.x; shared && 2 * k < length; k += GSC__COUNT_BLOCK) {
        const int32_t both = marks[k], low = (short)both, high = (both - low) >> 16;
        if (low) atomicAdd(args.differences + 2 * k, low);
        if (high) atomicAdd(args.differences + 2 * k + 1, high);
    }
}

/* The share of `length` values that a thread of sum_tiles takes: neighbours, so that one scan is
 * enough. */
static __device__ __forceinline__ void share_of(int64_t length, int64_t *begin, int64_t *end) {
    const int64_t share = (length + GSC__SUM_BLOCK - 1) / GSC__SUM_BLOCK;
    *begin = min(share * threadIdx.x, length);
    *end = min(*begin + share, length);
}

/* A running sum of the marks is the number of a tile's intersections.  The marks of a row of tiles,
 * with the one behind its last tile, sum to zero, so one running sum over all rows restarts by
 * itself. */
extern "C" __global__ void __launch_bounds__(GSC__SUM_BLOCK)
    gsc_sum_tiles(const __grid_constant__ gsc_k_count_tiles args) {
    gsc__begin_kernel();
    __shared__ uint32_t warps[33];
    __shared__ uint64_t wide_warps[33];
    const int32_t *marks = args.differences;
    const int64_t tiles_x = args.grid.tiles_x, stride = tiles_x + 1;
    int64_t begin, end;
    share_of(args.grid.tiles_y * stride, &begin, &end);
    uint32_t sum = 0, unused;
    for (int64_t i = begin; i < end; ++i) sum += (uint32_t)marks[i];
    const uint32_t before = gsc__block_scan(sum, warps, &unused);
    uint64_t intersections = 0, total;
    uint32_t count = before;
    for (int64_t i = begin; i < end; ++i) {
        count += (uint32_t)marks[i];
        intersections += count;
    }
    uint64_t offset = gsc__block_scan(intersections, wide_warps, &total);
    count = before;
    for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / stride, column = i - row * stride;
        if (column < tiles_x) args.frame.offsets[row * tiles_x + column] = offset;
        count += (uint32_t)marks[i];
        offset += count;
    }
    if (threadIdx.x == 0) args.frame.offsets[args.grid.tiles] = total;
}

extern "C" __global__ void gsc_plan_bands(const __grid_constant__ gsc_k_plan_bands args) {
    gsc__begin_kernel();
    gsc__plan_bands(args);
}

static __device__ __forceinline__ void write_key(const gsc_k_emit &args, uint32_t at,
                                                 uint32_t key) {
    if (args.narrow)
        ((uint16_t *)args.keys)[at] = (uint16_t)key;
    else
        ((uint32_t *)args.keys)[at] = key;
}

/* Writes one lane's span of intersections; the whole warp writes long ones. */
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
            write_key(args, its_to + k, its_first + k);
            args.values[its_to + k] = its_record;
        }
    }
    for (uint32_t k = 0; k < count && count <= 8; ++k) {
        write_key(args, to + k, first + k);
        args.values[to + k] = record;
    }
}

/* Writes the warp's spans one after the other; returns where the next ones go.  Never beyond the
 * band, even with a damaged state. */
static __device__ uint32_t write_spans(const gsc_k_emit &args, const gsc__gpu_band &band,
                                       uint32_t base, uint32_t first, uint32_t count,
                                       uint32_t record) {
    const uint32_t end = gsc__warp_scan(count);
    const uint32_t next = base + __shfl_sync(GSC__ALL_LANES, end, 31);
    if (next <= band.intersections) write_entries(args, base + end - count, first, count, record);
    return next;
}

/* The span within the band of row number `at` of the warp: its first tile, counted from the band's
 * first one, the lane whose record it belongs to, and its number of tiles. */
static __device__ uint32_t intersections_of(const gsc_k_emit &args, const gsc__gpu_band &band,
                                            const row_work *work, uint32_t at, uint32_t total,
                                            uint32_t *first, uint32_t *owner) {
    int32_t row;
    *first = *owner = 0;
    if (at >= total) return 0;
    *owner = row_owner(work, at, &row);
    const uint2 span = row_span(work, *owner, args.grid, row);
    const uint32_t line = (uint32_t)row * args.grid.tiles_x;
    const uint32_t begin = max(line + span.x, band.begin), end = min(line + span.y, band.end);
    *first = begin - band.begin;
    return span.x < span.y && begin < end ? end - begin : 0;
}

/* Adds the rows within the band of record number i in depth order. */
static __device__ uint32_t distribute_record(const gsc_k_emit &args, const gsc__gpu_band &band,
                                             uint32_t i, uint32_t visible, row_work *work,
                                             uint32_t *at) {
    gsc__gpu_record record;
    int32_t row = 0, rows = 0;
    *at = 0;
    if (i < visible) {
        *at = min(args.frame.order[i], args.frame.record_capacity - 1);
        record = load_record(args.frame.records + *at);
        row = max((int32_t)(record.rows & 0xffff) >> args.grid.shift_y,
                  (int32_t)(band.begin / args.grid.tiles_x));
        rows = max(min((int32_t)(record.rows >> 16) >> args.grid.shift_y,
                       (int32_t)((band.end - 1) / args.grid.tiles_x)) -
                       row + 1,
                   0);
    }
    return distribute_rows(work, record, row, rows);
}

/* The intersections of neighbours in depth order follow each other without a gap, record by record
 * and row by row, in the order of the shared rows.  Spans are found twice, to count and to write;
 * the first few of a warp are kept. */
#define EMIT_WARPS (GSC__EMIT_BLOCK / 32)
#define EMIT_KEPT 2 /* times 32 spans */
extern "C" __global__ void __launch_bounds__(GSC__EMIT_BLOCK)
    gsc_emit(const __grid_constant__ gsc_k_emit args) {
    gsc__begin_kernel();
    __shared__ row_work all_work[EMIT_WARPS];
    __shared__ uint32_t records[GSC__EMIT_BLOCK], sums[EMIT_WARPS], block;
    __shared__ uint64_t before;
    const gsc__gpu_band band = *args.band;
    const uint32_t visible = gsc__record_count(args.frame);
    if (threadIdx.x == 0) block = atomicAdd(args.next, 1u);
    __syncthreads();
    if (band.begin >= band.end || block * GSC__EMIT_BLOCK >= visible) return;
    const uint32_t warp = threadIdx.x >> 5;
    row_work *work = all_work + warp;
    uint32_t at;
    const uint32_t total =
        distribute_record(args, band, block * GSC__EMIT_BLOCK + threadIdx.x, visible, work, &at);
    records[threadIdx.x] = at;
    uint32_t first[EMIT_KEPT], count[EMIT_KEPT], owner[EMIT_KEPT], sum = 0;
#pragma unroll
    for (uint32_t k = 0; k < EMIT_KEPT; ++k) {
        count[k] =
            intersections_of(args, band, work, 32 * k + gsc__lane(), total, &first[k], &owner[k]);
        sum += count[k];
    }
    for (uint32_t k = EMIT_KEPT; 32 * k < total; ++k) {
        uint32_t unused[2];
        sum +=
            intersections_of(args, band, work, 32 * k + gsc__lane(), total, &unused[0], &unused[1]);
    }
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(GSC__ALL_LANES, sum, step);
    if (gsc__lane() == 0) sums[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        uint32_t own = 0;
        for (int w = 0; w < EMIT_WARPS; ++w) own += sums[w];
        const uint64_t found = gsc__look_back(args.blocks, block, own);
        if (gsc__lane() == 0) before = found;
    }
    __syncthreads();
    uint32_t base = (uint32_t)before;
    for (uint32_t w = 0; w < warp; ++w) base += sums[w];
#pragma unroll
    for (uint32_t k = 0; k < EMIT_KEPT; ++k) {
        if (32 * k >= total) break;
        base = write_spans(args, band, base, first[k], count[k], records[warp * 32 + owner[k]]);
    }
    for (uint32_t k = EMIT_KEPT; 32 * k < total; ++k) {
        count[0] =
            intersections_of(args, band, work, 32 * k + gsc__lane(), total, &first[0], &owner[0]);
        base = write_spans(args, band, base, first[0], count[0], records[warp * 32 + owner[0]]);
    }
}
