/* Warp and block helpers. */
#ifndef GSC_DEVICE_CUH
#define GSC_DEVICE_CUH

#include "kernels.h"

#define GSC__ALL_LANES 0xffffffffu

/* Every kernel's first statement.  Where the hardware sets a kernel up while the one before it
 * ends, see gsc__gpu_launch, this waits until that one is done with memory, and allows the next
 * kernel to be set up. */
static __device__ __forceinline__ void gsc__begin_kernel() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

static __device__ __forceinline__ uint32_t gsc__lane() {
    return threadIdx.x & 31;
}
static __device__ __forceinline__ uint32_t gsc__lanes_below() {
    return (1u << gsc__lane()) - 1u;
}

template <typename T> static __device__ __forceinline__ T gsc__warp_scan(T x) { /* inclusive */
    for (int step = 1; step < 32; step *= 2) {
        T below = __shfl_up_sync(GSC__ALL_LANES, x, step);
        if (gsc__lane() >= step) x += below;
    }
    return x;
}

/* Exclusive sum over a block of at most 1024 threads, a multiple of 32, and its total.
 * warps: 33 elements of shared memory, free again after the call's last barrier. */
template <typename T> static __device__ T gsc__block_scan(T x, T *warps, T *total) {
    const uint32_t warp = threadIdx.x >> 5, count = blockDim.x >> 5;
    T inclusive = gsc__warp_scan(x);
    if (gsc__lane() == 31) warps[warp] = inclusive;
    __syncthreads();
    if (warp == 0) {
        T sum = gsc__lane() < count ? warps[gsc__lane()] : 0;
        T scanned = gsc__warp_scan(sum);
        warps[gsc__lane()] = scanned - sum;
        if (gsc__lane() == 31) warps[32] = scanned;
    }
    __syncthreads();
    *total = warps[32];
    T result = warps[warp] + inclusive - x;
    __syncthreads();
    return result;
}

/* Returns the sum of what all blocks before `block` found, and adds `own`; for one warp.  states:
 * [blocks], zeroed: state << 62 | sum.  Blocks must be numbered in the order in which they start,
 * by a counter, so that every block that one waits for is running (Merrill & Garland 2016). */
static __device__ __forceinline__ uint64_t gsc__look_back(uint64_t *states, uint32_t block,
                                                          uint64_t own) {
    const uint64_t partial = 1ull << 62, complete = 2ull << 62, sums = partial - 1;
    volatile uint64_t *seen = states;
    if (block == 0) {
        if (gsc__lane() == 0) seen[0] = complete | own;
        return 0;
    }
    if (gsc__lane() == 0) seen[block] = partial | own;
    uint64_t before = 0;
    for (int64_t last = (int64_t)block - 1;; last -= 32) {
        const int64_t at = last - gsc__lane();
        uint64_t state;
        do state = at >= 0 ? seen[at] : complete;
        while (__any_sync(GSC__ALL_LANES, state >> 62 == 0));
        const uint32_t ended = __ballot_sync(GSC__ALL_LANES, state >> 62 == 2);
        const uint32_t stop = ended ? (uint32_t)__ffs((int)ended) - 1 : 31;
        uint64_t sum = gsc__lane() <= stop ? state & sums : 0;
        for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(GSC__ALL_LANES, sum, step);
        before += sum;
        if (ended) break;
    }
    if (gsc__lane() == 0) seen[block] = complete | (before + own);
    return before;
}

/* State or lists that were damaged between the calls may hold any value: kernels bound it where
 * it becomes an address. */
static __device__ __forceinline__ uint32_t gsc__record_of(const gsc__gpu_frame &frame,
                                                          uint32_t index) {
    return min(index, frame.record_capacity - 1); /* without records every list is empty */
}
static __device__ __forceinline__ uint32_t gsc__gaussian_of(const gsc__gpu_frame &frame,
                                                            uint32_t record) {
    return min(frame.records[record].gaussian, frame.gaussians - 1);
}

static __device__ __forceinline__ gsc__gpu_band gsc__band_of(const gsc__gpu_band *from,
                                                             const gsc__gpu_grid &grid,
                                                             uint32_t capacity) {
    gsc__gpu_band band = *from;
    band.end = min(band.end, (uint32_t)grid.tiles);
    band.begin = min(band.begin, band.end);
    band.intersections = min(band.intersections, capacity);
    return band;
}
static __device__ __forceinline__ uint32_t gsc__tile_of(const gsc__gpu_frame &frame,
                                                        const gsc__gpu_grid &grid,
                                                        uint32_t number) {
    return min(frame.tile_order[number], (uint32_t)grid.tiles - 1);
}

/* Where a tile's list begins among the band's, and how long it is. */
static __device__ __forceinline__ void gsc__list_range(const gsc__gpu_frame &frame,
                                                       const gsc__gpu_band &band, uint32_t tile,
                                                       uint64_t *begin, uint32_t *length) {
    const uint64_t base = frame.offsets[band.begin], intersections = band.intersections;
    *begin = min(frame.offsets[tile] - base, intersections);
    const uint64_t end = min(frame.offsets[tile + 1] - base, intersections);
    *length = end > *begin ? (uint32_t)(end - *begin) : 0;
}

/* A frame that does not fit has fewer records than visible Gaussians. */
static __device__ __forceinline__ uint32_t gsc__record_count(const gsc__gpu_frame &frame) {
    return min(frame.header->visible, frame.record_capacity);
}

/* A NaN in a record's rgb[2] marks one that must not be drawn. */
static __device__ __forceinline__ bool gsc__draws(float blue) {
    return blue == blue;
}

/* 2^x, 1 / x, sqrt(x) and 1 / sqrt(x) by the special function unit, with a relative error of about
 * 2^-22. */
#define GSC__APPROXIMATION(name, instruction)                          \
    static __device__ __forceinline__ float name(float x) {            \
        float y;                                                       \
        asm(instruction ".approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); \
        return y;                                                      \
    }
GSC__APPROXIMATION(gsc__exp2_fast, "ex2")
GSC__APPROXIMATION(gsc__rcp_fast, "rcp")
GSC__APPROXIMATION(gsc__sqrt_fast, "sqrt")
GSC__APPROXIMATION(gsc__rsqrt_fast, "rsqrt")

/* Shared memory by 32-bit addresses of its own, which take one register. */
static __device__ __forceinline__ uint32_t gsc__shared_address(const void *shared) {
    return (uint32_t)__cvta_generic_to_shared(shared);
}
static __device__ __forceinline__ float4 gsc__load_shared(uint32_t from) {
    float4 x;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(from));
    return x;
}
static __device__ __forceinline__ void gsc__store_shared(uint32_t to, float4 x) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(x.x), "f"(x.y), "f"(x.z),
                 "f"(x.w)
                 : "memory");
}

/* 16 bytes from global to shared memory, asynchronously where the hardware can. */
static __device__ __forceinline__ void gsc__copy16(uint32_t to, const void *from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
#else
    gsc__store_shared(to, *(const float4 *)from);
#endif
}
static __device__ __forceinline__ void gsc__copy4(uint32_t to, const void *from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
#else
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(*(const float *)from) : "memory");
#endif
}
static __device__ __forceinline__ void gsc__copy_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}
/* Waits until at most the newest `pending` groups are in flight. */
template <int pending> static __device__ __forceinline__ void gsc__copy_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}

#endif
