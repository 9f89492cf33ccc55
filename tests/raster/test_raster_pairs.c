/* Frames with more intersections than 32 bits can count. */
#include "views.h"

#include "os/system.h"

#include <stdlib.h>

#include "gsplat_c.h"

#define WIDTH 3840
#define HEIGHT 2160
#define TILES INT64_C(32400) /* of 16x16 pixels */

typedef struct crowd {
    float *means, *scales, *rotations, *opacities, *colors;
    view views[7];
    gsc_raster_args args;
} crowd;

static float *fill(int64_t count, int64_t period, const float *values) {
    float *data = malloc((size_t)(count * period) * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < count * period; ++i) data[i] = values[i % period];
    return data;
}

/* n equal splats in front of the camera, each large enough to reach every tile. */
static void crowd_make(crowd *c, int64_t n) {
    static float view_matrix[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
    static float intrinsics[4] = {2000, 2000, WIDTH / 2.0f, HEIGHT / 2.0f};
    c->means = fill(n, 3, (const float[]){0, 0, 5});
    c->scales = fill(n, 3, (const float[]){40, 40, 40});
    c->rotations = fill(n, 4, (const float[]){1, 0, 0, 0});
    c->opacities = fill(n, 1, (const float[]){0.5f});
    c->colors = fill(n, 3, (const float[]){1, 0.5f, 0.25f});
    VIEW(&c->views[0], n, 3);
    VIEW(&c->views[1], n, 3);
    VIEW(&c->views[2], n, 4);
    VIEW(&c->views[3], n);
    VIEW(&c->views[4], n, 3);
    VIEW(&c->views[5], 4, 4);
    VIEW(&c->views[6], 4);
    float *data[7] = {c->means,  c->scales,   c->rotations, c->opacities,
                      c->colors, view_matrix, intrinsics};
    for (int i = 0; i < 7; ++i) c->views[i].tensor.data = data[i];
    GSC_INIT(gsc_raster_args, args);
    args.width = WIDTH;
    args.height = HEIGHT;
    args.means = &c->views[0].tensor;
    args.scales = &c->views[1].tensor;
    args.rotations = &c->views[2].tensor;
    args.opacities = &c->views[3].tensor;
    args.colors = &c->views[4].tensor;
    args.view = &c->views[5].tensor;
    args.intrinsics = &c->views[6].tensor;
    c->args = args;
}

static void crowd_free(crowd *c) {
    free(c->means);
    free(c->scales);
    free(c->rotations);
    free(c->opacities);
    free(c->colors);
}

static void bytes_view(view *v, void *data, size_t bytes) {
    VIEW(v, (int64_t)bytes);
    view_dtype(v, kDLUInt, 8);
    v->tensor.data = data;
}

static void assert_counts(gsc_context *context, int64_t n) {
    crowd c;
    view state_view;
    crowd_make(&c, n);
    GSC_INIT(gsc_raster_info, info);
    expect_ok(gsc_raster_sizes(context, &c.args, &info));
    void *state = gsc__aligned_alloc(info.state_bytes, 256);
    assert_non_null(state);
    bytes_view(&state_view, state, info.state_bytes);
    GSC_INIT(gsc_raster_buffers, buffers);
    buffers.state = &state_view.tensor;
    GSC_INIT(gsc_raster_outputs, outputs);
    expect_ok(gsc_raster_project(context, &c.args, &buffers, &outputs, &info, NULL));
    assert_true(info.intersections == n * TILES);
    assert_true(info.intersections_bytes == (size_t)(n * TILES) * 4);
    assert_true(info.intersections_min_bytes == (size_t)n * 4);
    gsc__aligned_free(state);
    crowd_free(&c);
}

static void pairs_are_counted_in_64_bits(void **state) {
    (void)state;
    GSC_INIT(gsc_context_desc, desc);
    desc.abi_version = GSC_ABI_VERSION;
    desc.device.device_type = kDLCPU;
    gsc_context *context;
    expect_ok(gsc_context_create(&desc, &context));
    assert_counts(context, 66280);  /* below 2^31 */
    assert_counts(context, 66281);  /* a little above 2^31 */
    assert_counts(context, 132561); /* a little above 2^32 */
    gsc_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs_are_counted_in_64_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
