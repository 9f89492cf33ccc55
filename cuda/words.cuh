/* Words by which the blocks of one launch tell each other how far they are.  A word that says
 * all by itself needs no fence; everything else is written before a release and read after an
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

/* What this thread and, before a barrier, its block wrote becomes visible with x. */
static __device__ __forceinline__ void release_word(uint32_t *to, uint32_t x) {
    __threadfence();
    store_word(to, x);
}
static __device__ __forceinline__ uint32_t release_add(uint32_t *to, uint32_t x) {
    __threadfence();
    return atomicAdd(to, x);
}

/* Until the word is at least x.  A barrier passes what was acquired on to the block. */
static __device__ __forceinline__ uint32_t wait_for(const uint32_t *word, uint32_t least) {
    for (;;) {
        uint32_t x;
        asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(x) : "l"(word) : "memory");
        if (x >= least) return x;
        __nanosleep(20);
    }
}

#endif
