/* Compares the library's gradients with central differences of its own images and with the
 * reference.  For the float64 build. */
#ifndef TESTS_FINITE_DIFFERENCE_H
#define TESTS_FINITE_DIFFERENCE_H

#include "raster_scene.h"

/* Checks every gradient in g, computed from its upstream gradients: to 1e-9 against the reference
 * and to 1e-6 against differences (relative L2 of the tensor, and of each element that is not far
 * below the largest).  Large tensors are tested along random directions, view matrices with a
 * projection along rigid motions.  Returns the number of wrong tensors, after naming them on
 * stderr; s stays unchanged. */
int differences_check(const char *title, gsc_context *context, scene *s,
                      const raster_scene_options *options, gradients *g);

/* Derivative at t = 0 of the upstream gradients' loss with respect to t, for values + t direction,
 * where values is an array of s.  Steps are shortened until no splat gains or loses a pixel. */
double difference_along(gsc_context *context, scene *s, const gradients *upstream, double *values,
                        const double *direction, size_t count, double step);

#endif
