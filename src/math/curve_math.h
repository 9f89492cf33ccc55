/* Places of cells on a Hilbert curve in three dimensions, by Skilling, Programming the Hilbert
 * curve (AIP Conference Proceedings 707, 2004).  Runs of neighbours on this curve meet half as many
 * others as along Morton's, because it never jumps. */
#ifndef GSC_CURVE_MATH_H
#define GSC_CURVE_MATH_H

#include "splat_math.h"

#define GSC__CURVE_BITS 21 /* of each number of a cell, at most */

/* Spreads the low 21 bits, with two zeros between neighbours. */
GSC__PURE uint64_t gsc__spread(uint64_t x) {
    x = (x | x << 32) & 0x001f00000000ffffull;
    x = (x | x << 16) & 0x001f0000ff0000ffull;
    x = (x | x << 8) & 0x100f00f00f00f00full;
    x = (x | x << 4) & 0x10c30c30c30c30c3ull;
    x = (x | x << 2) & 0x1249249249249249ull;
    return x;
}

/* One step of Skilling's loop: `x` inverts or exchanges the low bits of x0. */
GSC__PURE void gsc__undo_rotation(uint32_t *x0, uint32_t *x, int bit) {
    const uint32_t low = (1u << bit) - 1;
    const uint32_t invert = low & (0 - (*x >> bit & 1));
    const uint32_t exchange = (*x0 ^ *x) & (low & ~invert);
    *x0 ^= invert | exchange;
    *x ^= exchange;
}

/* The place of a cell whose numbers went through all steps. */
GSC__PURE uint64_t gsc__curve_place(uint32_t x, uint32_t y, uint32_t z) {
    y ^= x;
    z ^= y;
    uint32_t parity = z >> 1; /* of the bits above each bit */
    parity ^= parity >> 1;
    parity ^= parity >> 2;
    parity ^= parity >> 4;
    parity ^= parity >> 8;
    parity ^= parity >> 16;
    return gsc__spread(x ^ parity) << 2 | gsc__spread(y ^ parity) << 1 | gsc__spread(z ^ parity);
}

#endif
