/* Comparison of arrays by relative L2 norm, with room for single pixels that fall on
 * the other side of a threshold. */
#ifndef TESTS_COMPARE_H
#define TESTS_COMPARE_H

#include "scene.h"

typedef struct comparison {
    double relative; /* L2 of the difference over L2 of what was wanted, flips left out */
    double largest;  /* difference of any two values */
    int flips;       /* pixels left out */
    bool good;
} comparison;

/* Largest number of flipped pixels of one image set, and how far they may be off,
 * relative to its largest value: a splat at alpha = 1/255, or one that a pixel at its
 * last 1e-4 of transmittance just takes or not. */
#define COMPARE_MAX_FLIPS 3
#define COMPARE_FLIP_SIZE 0.02

/* Good if relative <= tolerance and nothing is NaN.  Where both norms are zero
 * relative is zero. */
comparison compare_reals(const double *got, const double *wanted, size_t count, double tolerance);
/* The same for [images, channels, area] or, pixel_last, [images, area, channels], less up
 * to COMPARE_MAX_FLIPS pixels. */
comparison compare_images(const double *got, const double *wanted, size_t images, size_t channels,
                          size_t area, bool pixel_last, double tolerance);
/* Counts of pixels: at most `off` rows differ, each by a pixel or two. */
comparison compare_counts(const int32_t *got, const int32_t *wanted, size_t count, int off);
/* Number of integers that differ. */
size_t compare_ints(const int32_t *got, const int32_t *wanted, size_t count);

/* True if the environment asks for tables. */
bool compare_verbose(void);

/* Compares what both frames hold and names on stderr what is off (and, verbose, every
 * error on stdout).  Returns the number of outputs that are wrong.  flips_allowed:
 * images may have flipped pixels and counts be off by as many; radii must be equal. */
int compare_frames(const char *title, const scene *s, const frame *got, const frame *wanted,
                   double tolerance, bool flips_allowed);
/* Compares what both hold. */
int compare_gradients(const char *title, const scene *s, const gradients *got,
                      const gradients *wanted, double tolerance);
/* One line of a table. */
int compare_report(const char *title, const char *what, comparison c);

#endif
