/* Valid arguments of the rasterizer, for tests to break. */
#ifndef GSC_TESTS_RASTER_ARGS_FIXTURE_H
#define GSC_TESTS_RASTER_ARGS_FIXTURE_H

#include "views.h"

#include "check/args.h"
#include "core/context.h"

enum { CAMERAS = 2, GAUSSIANS = 5, WIDTH = 7, HEIGHT = 4 };

static const gsc__backend any_backend = {.max_side = GSC__MAX_SIDE};
static gsc_context any_context = {.backend = &any_backend, .device = {kDLCPU, 0}};
static const gsc__call cpu = {.function = "rasterize", .context = &any_context};

/* Every tensor of the arguments; use() sets it. */
enum {
    VIEW_,
    PROJECTION,
    INTRINSICS,
    POSITION,
    BACKGROUND,
    WEIGHTS,
    MEANS,
    OPACITIES,
    SCALES,
    ROTATIONS,
    COVARIANCES,
    COLORS,
    SH,
    SH_DC,
    FIELDS
};
static const struct {
    const char *name;
    size_t offset;
    int32_t ndim;
    int64_t shape[3];
    const char *expected; /* in messages */
} fields[FIELDS] = {
    {"view", offsetof(gsc_raster_args, view), 3, {2, 4, 4}, "[C, 4, 4] or [4, 4]"},
    {"projection", offsetof(gsc_raster_args, projection), 3, {2, 4, 4}, "[2, 4, 4]"},
    {"intrinsics", offsetof(gsc_raster_args, intrinsics), 2, {2, 4}, "[2, 4]"},
    {"position", offsetof(gsc_raster_args, position), 2, {2, 3}, "[2, 3]"},
    {"background", offsetof(gsc_raster_args, background), 2, {2, 3}, "[3] or [2, 3]"},
    {"pixel_weights", offsetof(gsc_raster_args, pixel_weights), 3, {2, 4, 7}, "[2, 4, 7]"},
    {"means", offsetof(gsc_raster_args, means), 2, {5, 3}, "[N, 3]"},
    {"opacities", offsetof(gsc_raster_args, opacities), 2, {5, 1}, "[5] or [5, 1]"},
    {"scales", offsetof(gsc_raster_args, scales), 2, {5, 3}, "[5, 3]"},
    {"rotations", offsetof(gsc_raster_args, rotations), 2, {5, 4}, "[5, 4]"},
    {"covariances", offsetof(gsc_raster_args, covariances), 2, {5, 6}, "[5, 6]"},
    {"colors", offsetof(gsc_raster_args, colors), 3, {2, 5, 3}, "[5, D] or [2, 5, D]"},
    {"sh", offsetof(gsc_raster_args, sh), 3, {5, 15, 3}, "[5, K, 3]"},
    {"sh_dc", offsetof(gsc_raster_args, sh_dc), 3, {5, 1, 3}, "[5, 1, 3]"},
};

static gsc_raster_args args;
static view views[FIELDS];
static gsc__raster out;

static inline void use(int field) {
    const DLTensor *tensor = &views[field].tensor;
    memcpy((char *)&args + fields[field].offset, &tensor, sizeof tensor);
}

static inline void drop(int field) {
    const DLTensor *none = NULL;
    memcpy((char *)&args + fields[field].offset, &none, sizeof none);
}

/* Valid arguments: intrinsics, scales and rotations, colors, and everything optional. */
static inline int reset(void **state) {
    (void)state;
    memset(&args, 0, sizeof args);
    args.struct_size = sizeof args;
    args.width = WIDTH;
    args.height = HEIGHT;
    for (int i = 0; i < FIELDS; ++i) view_init(&views[i], fields[i].ndim, fields[i].shape);
    static const int given[] = {VIEW_, INTRINSICS, POSITION, BACKGROUND, WEIGHTS,
                                MEANS, OPACITIES,  SCALES,   ROTATIONS,  COLORS};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; ++i) use(given[i]);
    return 0;
}

/* Sets a field and clears those that it excludes. */
static inline void switch_to(int field) {
    use(field);
    if (field == PROJECTION) {
        drop(INTRINSICS);
        args.tan_fovx = args.tan_fovy = 0.5f;
    }
    if (field == COVARIANCES) {
        drop(SCALES);
        drop(ROTATIONS);
    }
    if (field == SH || field == SH_DC) {
        use(SH);
        use(SH_DC);
        drop(COLORS);
        args.sh_degree = 3;
    }
}

static inline gsc_status check(void) {
    return gsc__raster_args(&cpu, &args, &out);
}

static inline void expect(gsc_status status, const char *message) {
    expect_failure(check(), status, message);
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

#endif
