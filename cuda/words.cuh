/* Words through which the blocks of one launch exchange their progress.  A word that is the whole
 * message needs no fence; everything else is written before a release and read after an
 * acquire. */
#ifndef GSC_WORDS_CUH
#define GSC_WORDS_CUH

#include "device.cuh"

static __device__ __forceinline__ uint32_t load_word(const uint32_t *from) {
    uint32_t x;
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
    return x;
}
static __device__ __forceinline__ void store_word(uint32_t *to, uint32_t x) {
    asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}

/* Makes visible with x what this thread wrote, and its block before a barrier. */
static __device__ __forceinline__ void release_word(uint32_t *to, uint32_t x) {
    __threadfence();
    store_word(to, x);
}
static __device__ __forceinline__ uint32_t release_add(uint32_t *to, uint32_t x) {
    __threadfence();
    return atomicAdd(to, x);
}

/* Waits until a word is at least `minimum`.  A barrier passes what was acquired on to the block. */
static __device__ __forceinline__ uint32_t wait_for(const uint32_t *word, uint32_t minimum) {
    for (;;) {
        uint32_t x;
        asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(x) : "l"(word) : "memory");
        if (x >= minimum) return x;
        __nanosleep(20);
    }
}

#endif
