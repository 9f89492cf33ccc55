/* How a warp copies the SH coefficients of its Gaussians to shared memory, a row per lane. */
#ifndef GSC_SH_ROWS_CUH
#define GSC_SH_ROWS_CUH

#include "device.cuh"

/* A row has the coefficients of degrees up to 3, in 16-byte vectors, and one vector more, so that
 * rows of neighbours are in different banks. */
#define GSC__SH_ROW_COEFFICIENTS 16
#define GSC__SH_ROW_VECTORS (3 * GSC__SH_ROW_COEFFICIENTS / 4 + 1)

typedef struct gsc__sh_rows {
    const float *sh;       /* [N, coefficients, 3] */
    const float *sh_dc;    /* [N, 3] of the first coefficient, or NULL: sh has it too */
    uint32_t coefficients; /* of sh */
    uint32_t end; /* floats of a row that are read, those of the first coefficient included */
} gsc__sh_rows;

static __device__ __forceinline__ bool gsc__sh_rows_are_wide(const gsc__sh_rows &rows) {
    return !rows.sh_dc && rows.coefficients % 4 == 0 && ((uint64_t)rows.sh & 15) == 0;
}

/* Starts to copy the rows of the lanes in `mine` to shared memory at `to`; index: each lane's
 * Gaussian.  Lanes copy each other's rows: if each copied its own, a load would touch as many
 * cache lines as there are lanes.  Rows must be wide. */
static __device__ __forceinline__ void
gsc__stage_wide_rows(const gsc__sh_rows &rows, uint32_t index, uint32_t mine, uint32_t to) {
    uint32_t row = gsc__lane() / 12, part = gsc__lane() % 12;
#pragma unroll 4
    for (int k = 0; k < 12; ++k) {
        const int64_t from = __shfl_sync(GSC__ALL_LANES, index, row);
        if (mine >> row & 1 && 4 * part < rows.end)
            gsc__copy16(to + 16 * (row * GSC__SH_ROW_VECTORS + part),
                        rows.sh + from * (3 * rows.coefficients) + 4 * part);
        row += part >= 4 ? 3 : 2;
        part = part >= 4 ? part - 4 : part + 8;
    }
    gsc__copy_commit();
}

#endif
