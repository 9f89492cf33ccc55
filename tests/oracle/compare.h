/* Compares arrays by relative L2 norm, and tolerates single pixels that fall on the other side of a
 * threshold. */
#ifndef TESTS_COMPARE_H
#define TESTS_COMPARE_H

#include "scene.h"

typedef struct comparison {
    double relative; /* L2 of the difference over L2 of the wanted values, without flips */
    double largest;  /* largest difference of two values */
    int flips;       /* ignored pixels */
    bool good;
} comparison;

/* How many pixels of one image set may flip, and by how much, relative to the largest value.  A
 * pixel flips when rounding decides about a splat at alpha = 1/255, or about one more splat at the
 * last 1e-4 of transmittance. */
#define COMPARE_MAX_FLIPS 3
#define COMPARE_FLIP_SIZE 0.02

/* Good if relative <= tolerance and nothing is NaN.  If both norms are zero, relative is zero. */
comparison compare_reals(const double *got, const double *wanted, size_t count, double tolerance);
/* The same for [images, channels, area] or, with pixel_last, [images, area, channels], ignoring up
 * to COMPARE_MAX_FLIPS pixels. */
comparison compare_images(const double *got, const double *wanted, size_t images, size_t channels,
                          size_t area, bool pixel_last, double tolerance);
/* For counts of pixels: at most `off` rows differ, each by one or two pixels. */
comparison compare_counts(const int32_t *got, const int32_t *wanted, size_t count, int off);
/* Number of integers that differ. */
size_t compare_ints(const int32_t *got, const int32_t *wanted, size_t count);

/* True if the environment asks for tables. */
bool compare_verbose(void);

/* Compares the arrays that both frames have.  Returns the number of wrong outputs, after naming
 * them on stderr (with tables, every error on stdout).  flips_allowed: images may have flipped
 * pixels, and counts may differ accordingly; radii must be equal. */
int compare_frames(const char *title, const scene *s, const frame *got, const frame *wanted,
                   double tolerance, bool flips_allowed);
/* Compares the arrays that both have. */
int compare_gradients(const char *title, const scene *s, const gradients *got,
                      const gradients *wanted, double tolerance);
/* One line of a table. */
int compare_report(const char *title, const char *what, comparison c);

#endif
