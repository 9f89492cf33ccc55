/* xorshift64* (Vigna 2016). */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdint.h>

/* 64 random bits, the same sequence from the same state, which is not 0. */
static inline uint64_t xorshift64(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

#endif
