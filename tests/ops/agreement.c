/* Whether builds agree: of other instruction sets, processors and systems.
 *
 *     agreement write FILE      computes and writes what came out
 *     agreement compare FILE    computes and compares with what another build wrote
 *     agreement isa FILE        writes by the narrowest instruction set of this build, then
 *                               compares the widest with it, or the one that GSC_CPU_ISA names;
 *                               FILE is removed
 *
 * Inputs are made of integers and rounded to 16 bits, so that they are the same everywhere;
 * that is checked too.  A sample whose alpha is 1/255, or that leaves a transmittance of 1e-4,
 * but for rounding, may be blended in one build alone.  The scenes have none: another seed is
 * the remedy where one appears, which shows as a pixel that is off by about 1/255.
 *
 * Ends with 77, skipped, where GSC_CPU_ISA names what the processor lacks. */
#define _DEFAULT_SOURCE /* setenv */
#include "agreement_file.h"
#include "cpu/cpu.h"
#include "environment.h"
#include "library.h"
#include "raster_scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77 };

static void must(gsc_status status) {
    if (status == GSC_OK) return;
    fprintf(stderr, "%s\n", gsc_last_error());
    exit(EXIT_FAILURE);
}

/* ------------------------------------------------------------------- rasterizer */

#define STORED (GSC_RASTER_LOG_SCALES | GSC_RASTER_LOGIT_OPACITIES)

static const struct {
    const char *name;
    raster_scene_options options;
} scenes[] = {
    {"SH 3", {.seed = 71, .gaussians = 500, .width = 120, .height = 90, SH(3)}},
    {"SH 4, dense",
     {.seed = 72,
      .gaussians = 4000,
      .width = 200,
      .height = 131,
      SH(4),
      .sh_split = true,
      .opacity_min = 0.02,
      .background_rows = 1}},
    {"antialias, covariances, 4 channels",
     {.seed = 73,
      .gaussians = 800,
      .width = 90,
      .height = 70,
      .channels = 4,
      .covariances = true,
      .size_min = 0.2,
      .size_max = 2,
      .background_rows = 1,
      .flags = GSC_RASTER_ANTIALIAS}},
    {"three cameras",
     {.seed = 74,
      .gaussians = 400,
      .cameras = 3,
      .width = 70,
      .height = 61,
      SH(2),
      .position = true,
      .off_centre = 0.1,
      .background_rows = 3,
      .flags = GSC_RASTER_VIEW_ROW_MAJOR | GSC_RASTER_PIXEL_LAST}},
    {"compat, 17 channels",
     {.seed = 75,
      .gaussians = 300,
      .width = 80,
      .height = 60,
      .channels = 17,
      .projection = true,
      .flags = GSC_RASTER_COMPAT_3DGS}},
    {"compat, stored values",
     {.seed = 76,
      .gaussians = 600,
      .width = 96,
      .height = 64,
      SH(1),
      .projection = true,
      .scale_modifier = 1.3f,
      .flags = GSC_RASTER_COMPAT_3DGS | GSC_RASTER_ANTIALIAS | STORED}},
};

static void snap(double *values, size_t count) {
    for (size_t i = 0; values && i < count; i++) {
        int exponent;
        double mantissa = frexp(values[i], &exponent);
        values[i] = ldexp(floor(mantissa * 65536 + 0.5), exponent - 16);
    }
}

typedef struct array {
    const char *name;
    double *values;
    size_t count;
} array;

static void snap_scene(agreement_file *file, scene *s) {
    const size_t n = (size_t)s->gaussians, cameras = (size_t)s->cameras;
    const size_t colors = (size_t)s->colors_rows * n * (size_t)s->channels;
    const array inputs[] = {
        {"in view", s->view, 16 * cameras},
        {"in projection", s->projection, 16 * cameras},
        {"in intrinsics", s->intrinsics, 4 * cameras},
        {"in position", s->position, 3 * cameras},
        {"in background", s->background, (size_t)(s->background_rows * s->channels)},
        {"in means", s->means, 3 * n},
        {"in opacities", s->opacities, n},
        {"in scales", s->scales, 3 * n},
        {"in rotations", s->rotations, 4 * n},
        {"in covariances", s->covariances, 6 * n},
        {"in colors", s->colors, colors},
        {"in sh", s->sh, 3 * n * (size_t)s->sh_coefficients},
    };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        snap(inputs[i].values, inputs[i].count);
        agreement_inputs(file, inputs[i].name, inputs[i].values, inputs[i].count);
    }
}

static void put_frame(agreement_file *file, const scene *s, const frame *f) {
    const size_t pixels = scene_pixels(s), splats = scene_splats(s);
    const array outputs[] = {
        {"color", f->color, pixels * (size_t)s->channels},
        {"alpha", f->alpha, pixels},
        {"depth", f->depth, pixels},
        {"inv_depth", f->inv_depth, pixels},
        {"median_depth", f->median_depth, pixels},
        {"means2d", f->means2d, 2 * splats},
        {"depths", f->depths, splats},
        {"conics", f->conics, 3 * splats},
        {"opacities", f->opacities, splats},
        {"weight_sum", f->weight_sum, splats},
        {"weight_blend", f->weight_blend, splats},
        {"weight_distance", f->weight_distance, splats},
    };
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        agreement_reals(file, outputs[i].name, outputs[i].values, outputs[i].count);
    agreement_ints(file, "radii", f->radii, splats * (size_t)f->radii_axes);
    agreement_ints(file, "touched", f->touched, splats);
    agreement_ints(file, "weight_count", f->weight_count, splats);
}

static void put_gradients(agreement_file *file, const scene *s, const gradients *g) {
    const size_t n = (size_t)s->gaussians, splats = scene_splats(s), cameras = (size_t)s->cameras;
    const array outputs[] = {
        {"d means", g->means, 3 * n},
        {"d opacities", g->opacities, n},
        {"d scales", g->scales, 3 * n},
        {"d rotations", g->rotations, 4 * n},
        {"d covariances", g->covariances, 6 * n},
        {"d colors", g->colors, (size_t)s->colors_rows * n * (size_t)s->channels},
        {"d sh", g->sh, 3 * n * (size_t)s->sh_coefficients},
        {"d means2d", g->means2d, 2 * splats},
        {"d means2d_abs", g->means2d_abs, 2 * splats},
        {"d view", g->view, 16 * cameras},
        {"d position", g->position, 3 * cameras},
        {"d background", g->background, (size_t)(s->background_rows * s->channels)},
    };
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        agreement_reals(file, outputs[i].name, outputs[i].values, outputs[i].count);
}

/* Forward with and without the outputs that need the complete loop, and backward. */
static void rasterize(agreement_file *file, gsc_context *context, int index) {
    scene s;
    frame f, plain = {0};
    gradients g;
    raster_scene_make(&s, &scenes[index].options);
    file->scene = scenes[index].name;
    snap_scene(file, &s);
    plain.color = reals_alloc(scene_pixels(&s) * (size_t)s.channels);
    must(library_forward(context, &s, NULL, &plain, NULL));
    agreement_reals(file, "color alone", plain.color, scene_pixels(&s) * (size_t)s.channels);
    s.pixel_weights = reals_alloc(scene_pixels(&s));
    for (size_t i = 0; i < scene_pixels(&s); i++) s.pixel_weights[i] = (double)(i % 7) / 4;
    frame_alloc(&f, &s, 2);
    must(library_forward(context, &s, NULL, &f, NULL));
    put_frame(file, &s, &f);
    gradients_alloc(&g, &s);
    raster_scene_upstream(&s, GRAD_ALL, 77, &g);
    must(library_backward(context, &s, NULL, &g));
    put_gradients(file, &s, &g);
    frame_free(&plain);
    frame_free(&f);
    gradients_free(&g);
    scene_free(&s);
}

/* -------------------------------------------------------------- everything else */

static void put_tensor(agreement_file *file, const char *what, const DLTensor *t) {
    size_t count = 1;
    for (int i = 0; i < t->ndim; i++) count *= (size_t)t->shape[i];
    double *values = reals_alloc(count);
    tensors_read(t, values);
    agreement_reals(file, what, values, count);
    free(values);
}

/* A different sequence for each tensor of a set. */
static const DLTensor *random_input(tensors *set, double low, double high, int ndim,
                                    const int64_t *shape) {
    uint64_t random = 1000 + (uint64_t)set->count;
    size_t count = 1;
    for (int i = 0; i < ndim; i++) count *= (size_t)shape[i];
    double *values = reals_alloc(count);
    for (size_t i = 0; i < count; i++) values[i] = raster_random(&random, low, high);
    const DLTensor *made = tensors_input(set, values, ndim, shape);
    free(values);
    return made;
}

static const DLTensor *output(tensors *set, int ndim, const int64_t *shape) {
    static const double wanted;
    return tensors_output(set, &wanted, ndim, shape);
}

static void neighbours(agreement_file *file, gsc_context *context) {
    enum { POINTS = 3000, K = 8 };
    const int64_t points[] = {POINTS, 3}, table[] = {POINTS, K};
    tensors set = {0};
    GSC_INIT(gsc_knn_args, args);
    file->scene = "nearest neighbours";
    args.k = K;
    args.points = random_input(&set, -3, 5, 2, points);
    args.distances2 = output(&set, 2, table);
    args.mean2 = output(&set, 1, table);
    int32_t *indices = ints_alloc(POINTS * K);
    args.indices = tensors_output_ints(&set, indices, 2, table);
    must(gsc_knn(context, &args, NULL));
    tensors_read_ints(args.indices, indices);
    agreement_ints(file, "indices", indices, POINTS * K);
    put_tensor(file, "distances2", args.distances2);
    put_tensor(file, "mean2", args.mean2);
    free(indices);
    tensors_free(&set);
}

static const int64_t image_shape[] = {1, 3, 75, 90}, one[] = {1}, three[] = {3};

static void ssim(agreement_file *file, gsc_context *context) {
    tensors set = {0};
    GSC_INIT(gsc_ssim_args, args);
    file->scene = "SSIM";
    args.image = random_input(&set, 0, 1, 4, image_shape);
    args.target = random_input(&set, 0, 1, 4, image_shape);
    args.map = output(&set, 4, image_shape);
    args.mean = output(&set, 1, one);
    args.grad_map = random_input(&set, -1, 1, 4, image_shape);
    args.grad_image = output(&set, 4, image_shape);
    args.grad_target = output(&set, 4, image_shape);
    must(gsc_ssim_forward(context, &args, NULL));
    must(gsc_ssim_backward(context, &args, NULL));
    put_tensor(file, "map", args.map);
    put_tensor(file, "mean", args.mean);
    put_tensor(file, "d image", args.grad_image);
    put_tensor(file, "d target", args.grad_target);
    tensors_free(&set);
}

static void image_loss(agreement_file *file, gsc_context *context) {
    tensors set = {0};
    GSC_INIT(gsc_image_loss_args, args);
    file->scene = "image loss";
    args.l1_weight = 0.7f;
    args.l2_weight = 0.1f;
    args.ssim_weight = 0.2f;
    args.image = random_input(&set, 0, 1, 4, image_shape);
    args.target = random_input(&set, 0, 1, 4, image_shape);
    args.mask = random_input(&set, 0, 1, 2, image_shape + 2);
    args.loss = output(&set, 1, one);
    args.parts = output(&set, 1, three);
    args.grad_image = output(&set, 4, image_shape);
    must(gsc_image_loss(context, &args, NULL));
    put_tensor(file, "loss", args.loss);
    put_tensor(file, "parts", args.parts);
    put_tensor(file, "d image", args.grad_image);
    tensors_free(&set);
}

static void adam(agreement_file *file, gsc_context *context) {
    const int64_t shape[] = {1000, 3};
    tensors set = {0};
    gsc_adam_group group = {.lr = 0.01f, .weight_decay = 0.02f};
    GSC_INIT(gsc_adam_args, args);
    file->scene = "Adam, 5 steps";
    group.parameter = random_input(&set, -1, 1, 2, shape);
    group.gradient = random_input(&set, -1, 1, 2, shape);
    group.moment1 = random_input(&set, -0.1, 0.1, 2, shape);
    group.moment2 = random_input(&set, 0, 0.1, 2, shape);
    args.groups = &group;
    args.group_count = 1;
    args.group_stride = sizeof group;
    for (group.step = 1; group.step <= 5; group.step++) must(gsc_adam_step(context, &args, NULL));
    put_tensor(file, "parameter", group.parameter);
    put_tensor(file, "moment1", group.moment1);
    put_tensor(file, "moment2", group.moment2);
    tensors_free(&set);
}

/* ---------------------------------------------------------------------- builds */

/* Does a context use the instruction set that the environment asks for? */
static bool isa_is_there(void) {
    const char *wanted = getenv("GSC_CPU_ISA");
    char report[1024], entry[64];
    size_t size = sizeof report;
    must(gsc_device_report_json((DLDevice){kDLCPU, 0}, report, &size));
    snprintf(entry, sizeof entry, "\"isa\":\"%s\"", wanted ? wanted : "");
    if (!wanted || strstr(report, entry)) return true;
    fprintf(stderr, "skipped: GSC_CPU_ISA is %s, and the processor has: %s\n", wanted, report);
    return false;
}

static bool compute(const char *path, bool writes) {
    agreement_file file;
    if (!agreement_open(&file, path, writes)) return false;
    gsc_context *context = library_context(0);
    for (int i = 0; i < (int)(sizeof scenes / sizeof *scenes); i++) rasterize(&file, context, i);
    neighbours(&file, context);
    ssim(&file, context);
    image_loss(&file, context);
    adam(&file, context);
    gsc_context_free(context);
    return agreement_close(&file);
}

/* Restores the environment afterwards. */
static bool write_narrowest(const char *path) {
    const char *given = getenv("GSC_CPU_ISA");
    char wanted[32];
    snprintf(wanted, sizeof wanted, "%s", given ? given : "widest");
    setenv("GSC_CPU_ISA", gsc__cpu_isa_name(0), 1);
    const bool written = compute(path, true);
    setenv("GSC_CPU_ISA", wanted, 1);
    return written;
}

int main(int argc, char **argv) {
    const char *what = argc == 3 ? argv[1] : "";
    const bool writes = strcmp(what, "write") == 0, isa = strcmp(what, "isa") == 0;
    if (!writes && !isa && strcmp(what, "compare") != 0) {
        fprintf(stderr, "usage: agreement write|compare|isa FILE\n");
        return EXIT_FAILURE;
    }
    if (!isa_is_there()) return SKIPPED;
    const char *path = argv[2];
    bool good = !isa || write_narrowest(path);
    good = good && compute(path, writes);
    if (isa) remove(path);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
