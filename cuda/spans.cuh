/* Which tiles a record reaches: the spans of its rows of tiles, found by a whole warp. */
#ifndef GSC_SPANS_CUH
#define GSC_SPANS_CUH

#include "../src/math/ellipse_math.h"
#include "device.cuh"

/* The rows of tiles that 32 records reach.  The warp's lanes share them evenly, since records
 * differ in their number of rows by orders of magnitude. */
typedef struct row_work {
    gsc__ellipse ellipses[32];
    uint32_t columns[32], rows[32]; /* of the records' boxes */
    int32_t first_rows[32];
    uint32_t ends[32]; /* running sums of the records' numbers of rows */
} row_work;

/* Each lane adds `rows` rows of its record, from first_row on.  Returns the number of all rows. */
static __device__ uint32_t distribute_rows(row_work *work, const gsc__gpu_record &record,
                                           int32_t first_row, int32_t rows) {
    const uint32_t end = gsc__warp_scan((uint32_t)rows);
    work->ends[gsc__lane()] = end;
    work->first_rows[gsc__lane()] = first_row;
    if (rows > 0) {
        work->ellipses[gsc__lane()] = gsc__ellipse_of(
            record.mean, record.r00, record.r01, record.r11, record.log2_opacity + GSC__LOG2_255);
        work->columns[gsc__lane()] = record.columns;
        work->rows[gsc__lane()] = record.rows;
    }
    __syncwarp();
    return __shfl_sync(GSC__ALL_LANES, end, 31);
}

/* The lane whose record row number i belongs to, and which row of tiles it is. */
static __device__ uint32_t row_owner(const row_work *work, uint32_t i, int32_t *row) {
    uint32_t owner = 0;
#pragma unroll
    for (uint32_t step = 16; step; step /= 2)
        if (work->ends[owner + step - 1] <= i) owner += step;
    const uint32_t begin = owner ? work->ends[owner - 1] : 0;
    *row = work->first_rows[owner] + (int32_t)(i - begin);
    return owner;
}

/* Tiles [begin, end) of a row of tiles that the owner reaches. */
static __device__ uint2 row_span(const row_work *work, uint32_t owner, const gsc__gpu_grid &grid,
                                 int32_t row) {
    const uint32_t columns = work->columns[owner], rows = work->rows[owner];
    const int32_t top = max(row << grid.shift_y, (int32_t)(rows & 0xffff));
    const int32_t bottom = min(((row + 1) << grid.shift_y) - 1, (int32_t)(rows >> 16));
    int32_t first, last;
    gsc__ellipse_slab(&work->ellipses[owner], (float)top, (float)bottom, (float)(columns & 0xffff),
                      (float)(columns >> 16), &first, &last);
    if (last < first) return make_uint2(0, 0);
    return make_uint2((uint32_t)(first >> grid.shift_x), (uint32_t)(last >> grid.shift_x) + 1);
}

#endif
