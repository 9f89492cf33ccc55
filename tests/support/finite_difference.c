#include "finite_difference.h"

#include "compare.h"
#include "library.h"
#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE 1e-6
#define ELEMENTS_MAX 256 /* tensors with more elements are tested along random directions */
#define DIRECTIONS 12
#define STEPS 8 /* step lengths, each a quarter of the one before */

/* What moves: values + t direction, or all cameras' rigid motion by a screw. */
typedef struct motion {
    double *values;
    const double *direction;
    size_t count;
    const raster_scene_options *options; /* not NULL: the screw direction [C, 6] */
} motion;

typedef struct probe {
    gsc_context *context;
    scene *s;
    const gradients *upstream;
    frame base;
} probe;

static void probe_frame(const probe *p, frame *f) {
    frame_alloc(f, p->s, 1);
    if (library_forward(p->context, p->s, NULL, f, NULL) == GSC_OK) return;
    fprintf(stderr, "forward failed: %s\n", gsc_last_error());
    exit(EXIT_FAILURE);
}

/* Weights that identify a pixel, so that their sum identifies a set of pixels. */
static void probe_open(probe *p, gsc_context *context, scene *s, const gradients *upstream) {
    uint64_t random = 99;
    *p = (probe){.context = context, .s = s, .upstream = upstream};
    s->pixel_weights = reals_alloc(scene_pixels(s));
    for (size_t i = 0; i < scene_pixels(s); i++) {
        s->pixel_weights[i] = raster_random(&random, 1, 2);
    }
    probe_frame(p, &p->base);
}

static void probe_close(probe *p) {
    free(p->s->pixel_weights);
    p->s->pixel_weights = NULL;
    frame_free(&p->base);
}

static void move(const probe *p, const motion *m, double t, const double *origin) {
    scene *s = p->s;
    if (!m->options) {
        for (size_t i = 0; i < m->count; i++) m->values[i] = origin[i] + t * m->direction[i];
        return;
    }
    for (int c = 0; c < s->cameras; c++) {
        double screw[6];
        for (int k = 0; k < 6; k++) screw[k] = t * m->direction[6 * c + k];
        raster_scene_move_view(s, screw, origin + 16 * c, s->view + 16 * c);
    }
    raster_scene_project(s, m->options);
}

static double weighted(const double *weights, const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; weights && i < count; i++) sum += weights[i] * (a[i] - b[i]);
    return sum;
}

/* Loss at t minus loss at -t; false if a splat covers different pixels there. */
static bool loss_change(const probe *p, const motion *m, double t, const double *origin,
                        double *change) {
    const gradients *up = p->upstream;
    size_t pixels = scene_pixels(p->s), splats = scene_splats(p->s);
    frame plus, minus;
    move(p, m, t, origin);
    probe_frame(p, &plus);
    move(p, m, -t, origin);
    probe_frame(p, &minus);
    *change = weighted(up->grad_color, plus.color, minus.color, pixels * (size_t)p->s->channels) +
              weighted(up->grad_alpha, plus.alpha, minus.alpha, pixels) +
              weighted(up->grad_depth, plus.depth, minus.depth, pixels) +
              weighted(up->grad_inv_depth, plus.inv_depth, minus.inv_depth, pixels);
    bool same = true;
    for (size_t i = 0; i < splats; i++) {
        same = same && plus.weight_sum[i] == p->base.weight_sum[i] &&
               minus.weight_sum[i] == p->base.weight_sum[i];
    }
    frame_free(&plus);
    frame_free(&minus);
    return same;
}

/* The derivative at t = 0 by a fourth-order rule.  A step is shortened while it crosses a
 * threshold, which changes the pixels covered, or a kink (a clamp), which makes the result differ
 * from expected (NaN: unknown). */
static double derivative(const probe *p, const motion *m, double step, double expected,
                         double scale) {
    size_t count = m->options ? 16 * (size_t)p->s->cameras : m->count;
    double *values = m->options ? p->s->view : m->values;
    double *origin = reals_alloc(count), result = (double)NAN;
    memcpy(origin, values, count * sizeof *origin);
    for (int i = 0; i < STEPS; i++, step /= 4) {
        double near_change, far_change;
        if (!loss_change(p, m, step, origin, &near_change)) continue;
        if (!loss_change(p, m, 2 * step, origin, &far_change)) continue;
        double before = result, margin = TOLERANCE / 10 * (fabs(expected) + scale / 100);
        result = (8 * near_change - far_change) / (12 * step);
        if (isnan(expected) || fabs(result - expected) <= margin) break;
        if (fabs(result - before) <= margin) break; /* converged to another value */
    }
    memcpy(values, origin, count * sizeof *origin);
    if (m->options) raster_scene_project(p->s, m->options);
    free(origin);
    return result;
}

typedef struct parameter {
    const char *name;
    double *values;
    const double *gradient;
    size_t count;
    double step;
} parameter;

/* Analytic and numeric derivative along many directions. */
typedef struct trial {
    double *got, *wanted;
    size_t count;
} trial;

static double largest(const double *values, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++) most = fmax(most, fabs(values[i]));
    return most;
}

static bool is_zero_quaternion(const scene *s, const parameter *q, size_t i) {
    if (s->flags & GSC_RASTER_COMPAT_3DGS) return false;
    return q->values == s->rotations && largest(s->rotations + i / 4 * 4, 4) == 0;
}

static void try_elements(const probe *p, const parameter *q, trial *t) {
    double scale = largest(q->gradient, q->count), one = 1;
    for (size_t i = 0; i < q->count; i++) {
        t->got[i] = q->gradient[i];
        if (is_zero_quaternion(p->s, q, i)) continue; /* no derivative: expect zero */
        const motion m = {.values = q->values + i, .direction = &one, .count = 1};
        t->wanted[i] = derivative(p, &m, q->step, q->gradient[i], scale);
    }
    t->count = q->count;
}

static void try_directions(const probe *p, const parameter *q, trial *t) {
    double *direction = reals_alloc(q->count);
    uint64_t random = 7;
    for (size_t i = 0; i < DIRECTIONS; i++) {
        double length = 0;
        for (size_t k = 0; k < q->count; k++) {
            direction[k] = raster_random(&random, -1, 1);
            length += direction[k] * direction[k];
        }
        t->got[i] = 0;
        for (size_t k = 0; k < q->count; k++) {
            direction[k] /= sqrt(length);
            t->got[i] += direction[k] * q->gradient[k];
        }
        const motion m = {.values = q->values, .direction = direction, .count = q->count};
        t->wanted[i] = derivative(p, &m, q->step, t->got[i], fabs(t->got[i]));
    }
    t->count = DIRECTIONS;
    free(direction);
}

/* With a projection, the view moves rigidly and moves the projection too. */
static void try_screws(const probe *p, const parameter *q, const raster_scene_options *options,
                       trial *t) {
    size_t cameras = (size_t)p->s->cameras;
    double *direction = reals_alloc(6 * cameras), *slope = reals_alloc(16);
    for (size_t i = 0; i < 6 * cameras; i++) {
        double screw[6] = {0};
        screw[i % 6] = 1;
        raster_scene_view_slope(p->s, screw, p->s->view + 16 * (i / 6), slope);
        t->got[i] = 0;
        for (size_t k = 0; k < 16; k++) t->got[i] += slope[k] * q->gradient[16 * (i / 6) + k];
        direction[i] = 1;
        const motion m = {.direction = direction, .options = options};
        t->wanted[i] = derivative(p, &m, q->step, t->got[i], largest(t->got, i + 1));
        direction[i] = 0;
    }
    t->count = 6 * cameras;
    free(direction);
    free(slope);
}

static int try_parameter(const char *title, const probe *p, const parameter *q,
                         const raster_scene_options *options) {
    size_t room = q->count > DIRECTIONS ? q->count : DIRECTIONS;
    trial t = {reals_alloc(room), reals_alloc(room), 0};
    if (options->projection && strcmp(q->name, "view") == 0) {
        try_screws(p, q, options, &t);
    } else if (q->count <= ELEMENTS_MAX) {
        try_elements(p, q, &t);
    } else {
        try_directions(p, q, &t);
    }
    comparison c = compare_reals(t.got, t.wanted, t.count, TOLERANCE);
    double most = largest(t.wanted, t.count);
    for (size_t i = 0; i < t.count; i++) {
        double off = fabs(t.got[i] - t.wanted[i]);
        if (off <= TOLERANCE * fabs(t.wanted[i]) + TOLERANCE / 100 * most) continue;
        fprintf(stderr, "%s: %s[%zu] is %.12g, differences say %.12g\n", title, q->name, i,
                t.got[i], t.wanted[i]);
        c.good = false;
    }
    free(t.got);
    free(t.wanted);
    return compare_report(title, q->name, c);
}

static int try_parameters(const char *title, const probe *p, const raster_scene_options *options,
                          const gradients *g) {
    scene *s = p->s;
    size_t n = (size_t)s->gaussians, cameras = (size_t)s->cameras, channels = (size_t)s->channels;
    const parameter parameters[] = {
        {"means", s->means, g->means, 3 * n, 2e-4},
        {"opacities", s->opacities, g->opacities, n, 2e-4},
        {"scales", s->scales, g->scales, 3 * n, 2e-4},
        {"rotations", s->rotations, g->rotations, 4 * n, 1e-3},
        {"covariances", s->covariances, g->covariances, 6 * n, 1e-4},
        {"colors", s->colors, g->colors, (size_t)s->colors_rows * n * channels, 1e-3},
        {"sh", s->sh, g->sh, 3 * n * (size_t)s->sh_coefficients, 1e-4},
        {"view", s->view, g->view, 16 * cameras, 1e-4},
        {"position", s->position, g->position, 3 * cameras, 1e-4},
        {"background", s->background, g->background, (size_t)s->background_rows * channels, 1e-3},
    };
    int wrong = 0;
    for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++) {
        if (!parameters[i].values || !parameters[i].gradient) continue;
        wrong += try_parameter(title, p, &parameters[i], options);
    }
    return wrong;
}

int differences_check(const char *title, gsc_context *context, scene *s,
                      const raster_scene_options *options, gradients *g) {
    if (library_backward(context, s, NULL, g) != GSC_OK) {
        fprintf(stderr, "%s: backward failed: %s\n", title, gsc_last_error());
        return 1;
    }
    gradients wanted;
    gradients_alloc(&wanted, s);
    wanted.grad_color = g->grad_color;
    wanted.grad_alpha = g->grad_alpha;
    wanted.grad_depth = g->grad_depth;
    wanted.grad_inv_depth = g->grad_inv_depth;
    reference_backward(s, &wanted);
    /* In the reference the view's gradient also passes through clip space, with 1e-7 added to w. */
    bool grad_clip = (s->flags & GSC_RASTER_COMPAT_3DGS) != 0 && s->projection;
    int wrong = compare_gradients(title, s, g, &wanted, grad_clip ? 1e-7 : LIBRARY_EPSILON);
    wanted.grad_color = wanted.grad_alpha = wanted.grad_depth = wanted.grad_inv_depth = NULL;
    gradients_free(&wanted);
    probe p;
    probe_open(&p, context, s, g);
    wrong += try_parameters(title, &p, options, g);
    probe_close(&p);
    return wrong;
}

double difference_along(gsc_context *context, scene *s, const gradients *upstream, double *values,
                        const double *direction, size_t count, double step) {
    const motion m = {.values = values, .direction = direction, .count = count};
    probe p;
    probe_open(&p, context, s, upstream);
    double result = derivative(&p, &m, step, (double)NAN, 0);
    probe_close(&p);
    return result;
}
