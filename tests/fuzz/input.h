/* Turns the bytes of a fuzzer into choices.  After the last byte every choice is 0, the plain and
 * valid one: a short input is a valid call. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_input {
    const uint8_t *data;
    size_t left;
} fuzz_input;

uint8_t fuzz_byte(fuzz_input *input);
uint32_t fuzz_word(fuzz_input *input);
/* In [low, high]; at most 65536 apart. */
int32_t fuzz_range(fuzz_input *input, int32_t low, int32_t high);
/* True for `odds` in 256. */
bool fuzz_chance(fuzz_input *input, int odds);
/* Mostly 0; otherwise a value near 1, an extreme, or any bits. */
float fuzz_float(fuzz_input *input);
/* The extremes: NaN, infinities, the largest, denormals, signed zero, powers of ten. */
float fuzz_extreme(uint32_t choice);

/* A cheap separate sequence for the elements of tensors: xorshift, never 0. */
typedef struct fuzz_random {
    uint32_t state;
} fuzz_random;
fuzz_random fuzz_seed(fuzz_input *input);
uint32_t fuzz_next(fuzz_random *random);

#endif
