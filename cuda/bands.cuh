/* How a frame is cut into bands. */
#ifndef GSC_BANDS_CUH
#define GSC_BANDS_CUH

#include "device.cuh"

static __device__ gsc__gpu_band gsc__next_band(const gsc_k_plan_bands &args, uint32_t begin) {
    const uint64_t *offsets = args.frame.offsets;
    gsc__gpu_band band = {begin, begin, 0, 0};
    uint32_t low = begin, high = (uint32_t)args.grid.tiles;
    while (low < high) {
        const uint32_t middle = low + (high - low + 1) / 2;
        if (offsets[middle] - offsets[begin] <= args.capacity)
            low = middle;
        else
            high = middle - 1;
    }
    band.end = low;
    band.intersections = (uint32_t)(offsets[low] - offsets[begin]);
    return band;
}

static __device__ void gsc__plan_bands(const gsc_k_plan_bands &args) {
    const gsc__gpu_header header = *args.frame.header;
    const uint32_t tiles = (uint32_t)args.grid.tiles;
    const bool fits = header.visible <= args.frame.record_capacity &&
                      (args.rounds > 1 || header.intersections <= args.capacity);
    uint32_t begin = 0;
    for (uint32_t round = 0; round < args.rounds; ++round) {
        gsc__gpu_band band = {begin, begin, 0, 0};
        if (fits && args.rounds == 1) {
            band.end = tiles;
            band.intersections = args.frame.record_capacity ? (uint32_t)header.intersections : 0;
        } else if (fits) {
            band = gsc__next_band(args, begin);
        }
        args.bands[round] = band;
        begin = band.end;
    }
    if (!args.overflow) return;
    const uint64_t more = header.visible > args.frame.record_capacity
                              ? header.visible - args.frame.record_capacity
                              : 0;
    const uint64_t list_bytes = (header.intersections * sizeof(uint32_t) + 255) / 256 * 256;
    const uint64_t needed = (uint64_t)args.record_bytes +
                            (uint64_t)args.cameras * more * GSC__RECORD_BYTES +
                            (uint64_t)args.list_slots * list_bytes;
    const int64_t own = begin < tiles ? (int64_t)needed : 0;
    *args.overflow = args.add ? max(*args.overflow, own) : own;
}

#endif
