/* Runs the library on a scene: doubles become tensors of the library's type, outputs are poisoned
 * before the call, and the memory behind each output is checked after it. */
#ifndef TESTS_LIBRARY_H
#define TESTS_LIBRARY_H

#include "scene.h"
#include "tensors.h"

#ifdef GSC_DOUBLE
#define LIBRARY_EPSILON 1e-9 /* agreement with the reference, relative L2 */
#else
#define LIBRARY_EPSILON 2e-5
#endif

typedef struct library_options {
    bool drop_camera;     /* leave out the dimension C where it is 1 */
    bool two_steps;       /* project and blend with our own buffers */
    size_t intersections; /* with two_steps: bytes of that buffer; 0: the whole frame's */
} library_options;

/* A CPU context; ends the program if there is none.  threads 0: the default. */
gsc_context *library_context(int threads);

/* Forward into every array of f.  With two_steps, fills in info, which may be NULL.  On failure f
 * stays unchanged. */
gsc_status library_forward(gsc_context *context, const scene *s, const library_options *options,
                           frame *f, gsc_raster_info *info);
/* Forward, then backward into every array of g, from its upstream gradients. */
gsc_status library_backward(gsc_context *context, const scene *s, const library_options *options,
                            gradients *g);

/* The same with allocated outputs, and upstream gradients that random_upstream makes from seed 1.
 * They fail the test unless the call succeeds. */
void library_expect_frame(gsc_context *context, const scene *s, frame *f);
void library_expect_gradients(gsc_context *context, const scene *s, gradients *g);

/* Tensors and descriptors of one call, for tests that call the library themselves: outputs and
 * gradients are poisoned, upstream gradients copied. */
void library_args(const scene *s, const library_options *options, tensors *set,
                  gsc_raster_args *args);
void library_outputs(const scene *s, const library_options *options, tensors *set, const frame *f,
                     gsc_raster_outputs *out);
void library_grads(const scene *s, const library_options *options, tensors *set, const gradients *g,
                   gsc_raster_grads *grads);

/* Zeroes the upstream gradients of pixels where a threshold falls differently in the library's
 * rounding than in the reference's, since their gradients differ legitimately.  Returns their
 * number. */
int library_mute_flips(gsc_context *context, const scene *s, gradients *g);

/* Rounds every value of the scene to the library's type, so that the reference sees the same
 * numbers. */
void library_round(scene *s);

#endif
