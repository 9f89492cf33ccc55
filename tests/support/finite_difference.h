/* Gradients of the library against central differences of its own images, and against
 * the reference.  For the float64 build. */
#ifndef TESTS_FINITE_DIFFERENCE_H
#define TESTS_FINITE_DIFFERENCE_H

#include "raster_scene.h"

/* Every gradient that g holds, from its upstream ones: the reference's to 1e-9, and the
 * differences' to 1e-6 (relative L2 of the tensor, and of each element that is not far
 * below the largest).  Tensors with very many elements are tried along random directions,
 * view matrices beside a projection along rigid motions.  Returns the number of tensors
 * that are off, which are named on stderr; s is left as it was. */
int differences_check(const char *title, gsc_context *context, scene *s,
                      const raster_scene_options *options, gradients *g);

/* Derivative of the upstream gradients' loss as values + t direction moves, at t = 0.
 * values: an array of s.  Steps are shortened until no splat gains or loses a pixel. */
double difference_along(gsc_context *context, scene *s, const gradients *upstream, double *values,
                        const double *direction, size_t count, double step);

#endif
