#include "input.h"

#include <float.h>
#include <math.h>
#include <string.h>

uint8_t fuzz_byte(fuzz_input *input) {
    if (input->left == 0) return 0;
    input->left--;
    return *input->data++;
}

uint32_t fuzz_word(fuzz_input *input) {
    uint32_t word = 0;
    for (int i = 0; i < 4; i++) word |= (uint32_t)fuzz_byte(input) << 8 * i;
    return word;
}

int32_t fuzz_range(fuzz_input *input, int32_t low, int32_t high) {
    uint32_t span = (uint32_t)(high - low) + 1, value = fuzz_byte(input);
    if (span > 256) value |= (uint32_t)fuzz_byte(input) << 8;
    return low + (int32_t)(value % span);
}

bool fuzz_chance(fuzz_input *input, int odds) {
    return fuzz_byte(input) >= 256 - odds;
}

float fuzz_extreme(uint32_t choice) {
    const float extremes[] = {NAN,   INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, FLT_MIN, 1e-45f,
                              -0.0f, 0.0f,     1e-30f,    1e-10f,  1e10f,    -1e10f,  1e30f};
    return extremes[choice % (sizeof extremes / sizeof *extremes)];
}

float fuzz_float(fuzz_input *input) {
    uint8_t kind = fuzz_byte(input);
    if (kind < 160) return 0;
    if (kind < 220) return (float)fuzz_range(input, -64, 191) / 64;
    if (kind < 240) return fuzz_extreme(fuzz_byte(input));
    uint32_t bits = fuzz_word(input);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

fuzz_random fuzz_seed(fuzz_input *input) {
    uint32_t seed = (uint32_t)fuzz_range(input, 0, 65535);
    return (fuzz_random){seed * UINT32_C(2654435761) | 1};
}

uint32_t fuzz_next(fuzz_random *random) {
    uint32_t x = random->state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return random->state = x;
}
