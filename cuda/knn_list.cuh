/* The best candidates of a query, which is a lane. */
#ifndef GSC_KNN_LIST_CUH
#define GSC_KNN_LIST_CUH

#include "device.cuh"
#include "knn_kernels.h"

/* A candidate is one number, the bits of its squared distance above its index: it orders by
 * distance and then by index, because non-negative floats order as their bits do. */
static __device__ __forceinline__ uint64_t gsc__pack(float distance2, uint32_t index) {
    return (uint64_t)__float_as_uint(distance2) << 32 | index;
}
static __device__ __forceinline__ float gsc__distance2_of(uint64_t key) {
    return __uint_as_float((uint32_t)(key >> 32));
}

/* What a list is filled with: after every real candidate, even one at infinity. */
static __device__ __forceinline__ uint64_t gsc__missing() {
    return gsc__pack(GSC__KNN_INFINITY, GSC__KNN_NONE);
}

/* The k best in registers, sorted; k < size leaves the first places at 0 for good. */
template <int count> struct gsc__short_list {
    static constexpr int size = count, unroll = count <= 3 ? 8 : 2; /* of a leaf's points */
    static constexpr int few_queries = 4;                           /* that take turns in a leaf */
    uint64_t keys[size];

    __device__ __forceinline__ void clear(int k) {
#pragma unroll
        for (int i = 0; i < size; ++i) keys[i] = i < size - k ? 0 : gsc__missing();
    }
    __device__ __forceinline__ uint64_t last() const {
        return keys[size - 1];
    }
    /* key is below the last. */
    __device__ __forceinline__ void insert(uint64_t key, int) {
        keys[size - 1] = key;
#pragma unroll
        for (int i = size - 1; i > 0; --i) {
            const uint64_t a = keys[i - 1], b = keys[i];
            keys[i - 1] = a < b ? a : b;
            keys[i] = a < b ? b : a;
        }
    }
    __device__ __forceinline__ void sort(int) {}
    __device__ __forceinline__ uint64_t at(int i) const {
        return keys[i];
    }
};

/* The k best in memory as a heap, the last of them on top; lanes side by side. */
struct gsc__long_list {
    static constexpr int size = 0 /* k */, unroll = 2;
    static constexpr int few_queries = 1; /* one lane alone is slow at this */
    uint64_t *keys;                       /* [k, 32], this lane's */
    uint64_t top;

    __device__ __forceinline__ uint64_t &at(int i) const {
        return keys[i * 32];
    }
    __device__ void clear(int k) {
        for (int i = 0; i < k; ++i) at(i) = gsc__missing();
        top = gsc__missing();
    }
    __device__ __forceinline__ uint64_t last() const {
        return top;
    }
    /* Puts key where the top was in a heap of `size`. */
    __device__ void sift(uint64_t key, int size) {
        int i = 0;
        for (int child = 1; child < size; child = 2 * i + 1) {
            uint64_t larger = at(child);
            if (child + 1 < size) {
                const uint64_t other = at(child + 1);
                if (other > larger) larger = other, ++child;
            }
            if (larger <= key) break;
            at(i) = larger;
            i = child;
        }
        at(i) = key;
    }
    __device__ void insert(uint64_t key, int k) {
        sift(key, k);
        top = at(0);
    }
    __device__ void sort(int k) {
        for (int size = k - 1; size > 0; --size) {
            const uint64_t largest = at(0), key = at(size);
            sift(key, size);
            at(size) = largest;
        }
    }
};

#endif
