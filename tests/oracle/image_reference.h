/* SSIM and its gradient in double precision, directly from the definition: each window is summed
 * separately in two dimensions, and variances are around the window's mean. */
#ifndef TESTS_IMAGE_REFERENCE_H
#define TESTS_IMAGE_REFERENCE_H

#include <stdbool.h>

typedef struct image_case {
    int planes, height, width; /* planes: B C */
    int window;                /* odd */
    double sigma, c1, c2;
    bool valid;
} image_case;

/* Rows and columns of the map. */
int image_map_height(const image_case *c);
int image_map_width(const image_case *c);

/* map: [planes, map height, map width].  Returns its mean. */
double reference_ssim(const image_case *c, const double *x, const double *y, double *map);
/* The gradient of sum(upstream * map) with respect to both images [planes, H, W]. */
void reference_ssim_backward(const image_case *c, const double *x, const double *y,
                             const double *upstream, double *grad_x, double *grad_y);

#endif
