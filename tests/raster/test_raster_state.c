/* Backward on buffers that were moved, belong to another call, or are unfinished or
 * inconsistent. */
#include "state_fixture.h"

/* --------------------------------------------------------------- other state */

static void moved_state(void **unused) {
    (void)unused;
    state_fixture v;
    fixture_open(&v);
    raster_call *call = &v.call;
    expect_ok(raster_call_backward(call));
    const uint64_t first = raster_call_hash(&call->grads);
    const DLTensor *state = tensors_bytes(&call->set, call->info.state_bytes);
    const DLTensor *lists = tensors_bytes(&call->set, call->info.intersections_bytes);
    memcpy(state->data, v.kept, call->info.state_bytes);
    memcpy(lists->data, call->buffers.intersections->data, call->info.intersections_bytes);
    memset(call->buffers.state->data, 0, call->info.state_bytes);
    memset(call->buffers.intersections->data, 0, call->info.intersections_bytes);
    call->buffers.state = state;
    call->buffers.intersections = lists;
    expect_ok(raster_call_backward(call));
    assert_true(raster_call_hash(&call->grads) == first);
    fixture_close(&v);
}

static void foreign_state(void **unused) {
    (void)unused;
    state_fixture v;
    raster_call other;
    raster_scene_options o = plain;
    o.gaussians = 61;
    fixture_open(&v);
    raster_call_open(&other, context, &o, NULL);
    gsc_raster_info info = v.call.info;
    v.call.info = other.info;
    assert_int_equal(raster_call_backward(&v.call), GSC_ERROR_STATE);
    v.call.info = info;
    v.call.buffers.state = other.buffers.state;
    assert_int_equal(raster_call_backward(&v.call), GSC_ERROR_STATE);
    raster_call_close(&other);
    fixture_close(&v);
    /* The state of another scene with the same layout cannot be detected, but does no harm. */
    fixture_open(&v);
    o = plain;
    o.seed++;
    raster_call_open(&other, context, &o, NULL);
    v.call.buffers.state = other.buffers.state;
    gsc_status status = raster_call_backward(&v.call);
    assert_true(status == GSC_OK || status == GSC_ERROR_STATE ||
                status == GSC_ERROR_BUFFER_TOO_SMALL);
    assert_true(tensors_guarded(&v.call.set));
    raster_call_close(&other);
    fixture_close(&v);
}

static void foreign_args(void **unused) {
    (void)unused;
    state_fixture v;
    fixture_open(&v);
    const gsc_raster_args args = v.call.args;
    v.call.args.flags ^= GSC_RASTER_COMPAT_3DGS;
    assert_int_equal(raster_call_backward(&v.call), GSC_ERROR_STATE);
    v.call.args = args;
    v.call.args.flags ^= GSC_RASTER_ANTIALIAS;
    assert_int_equal(raster_call_backward(&v.call), GSC_ERROR_STATE);
    v.call.args = args;
    v.call.args.sh_degree = 0;
    assert_int_equal(raster_call_backward(&v.call), GSC_ERROR_STATE);
    v.call.args = args;
    gsc_raster_saved *saved = NULL;
    expect_ok(gsc_rasterize(context, &args, &v.call.outputs, &saved, NULL));
    expect_ok(gsc_rasterize_backward(context, &args, saved, &v.call.grads, NULL));
    v.call.args.flags ^= GSC_RASTER_ANTIALIAS;
    assert_int_equal(gsc_rasterize_backward(context, &v.call.args, saved, &v.call.grads, NULL),
                     GSC_ERROR_STATE);
    gsc_raster_saved_free(saved, NULL);
    fixture_close(&v);
}

static void unfinished_state(void **unused) {
    (void)unused;
    state_fixture v;
    fixture_open(&v);
    memset(v.call.buffers.state->data, 0, v.layout.bytes);
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    memset(v.call.buffers.state->data, 0xFF, v.layout.bytes);
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    gsc_raster_outputs none = {.struct_size = sizeof none};
    expect_ok(
        gsc_raster_project(context, &v.call.args, &v.call.buffers, &none, &v.call.info, NULL));
    assert_int_equal(raster_call_backward(&v.call), GSC_ERROR_STATE);
    assert_non_null(strstr(gsc_last_error(), "not blended"));
    fixture_restore(&v);
    int64_t shape;
    DLTensor cut = raster_call_cut(v.call.buffers.state, v.layout.bytes - 1, &shape);
    v.call.buffers.state = &cut;
    assert_int_not_equal(raster_call_backward(&v.call), GSC_OK);
    fixture_close(&v);
}

/* ------------------------------------------------------------- damaged state */

/* Changes that agree with one another: backward must detect each. */
static void consistent_lies(void **unused) {
    (void)unused;
    state_fixture v;
    fixture_open(&v);
    const gsc__frame f = v.frame;
    const int64_t visible = f.header->visible, tiles = v.layout.tiles;
    assert_true(visible > 10);
    gsc__record *first = &f.records[f.order[0]], *last = &f.records[f.order[visible - 1]];
    expect_ok(damaged_backward(&v));
    first->tiles ^= 1u << 31, last->tiles ^= 1u << 31; /* 2^32 in all */
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    first->tiles += 1, last->tiles -= 1;
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    first->tiles -= 1, last->tiles += 1;
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    f.order[3] = f.order[4];
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    f.order[3] = (uint32_t)plain.gaussians;
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    f.header->visible -= 1;
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    f.header->visible = plain.gaussians + 1;
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    f.header->visible = -1;
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    f.header->intersections += 1;
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    f.header->intersections += 1, f.offsets[tiles] += 1;
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    f.header->largest_tile += 1;
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    f.header->largest_tile = INT64_MIN;
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    f.offsets[tiles / 2] += 1;
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    f.offsets[0] = 1;
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    f.offsets[1] = UINT64_MAX;
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    f.walked[0] = UINT32_MAX;
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    first->x1 = (uint16_t)(v.layout.tiles_x + 1);
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    first->y0 = first->y1;
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    first->gaussian = last->gaussian;
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    expect_ok(damaged_backward(&v));
    fixture_close(&v);
}

/* 2^31 tiles each: their sum wraps to 0 in 32 bits. */
static void unreachable_splats_of_many_tiles(void **unused) {
    (void)unused;
    state_fixture v;
    fixture_open(&v);
    add_unreachable(&v.frame, 1u << 31);
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    fixture_close(&v);
}

/* A splat that is listed twice would be added twice. */
static void unreachable_splat_twice(void **unused) {
    (void)unused;
    state_fixture v;
    fixture_open(&v);
    add_unreachable(&v.frame, 0);
    v.frame.order[0] = v.frame.order[v.frame.header->visible - 1];
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    fixture_close(&v);
}

/* The last tile's list claims two intersections more than reach it: its end would be whatever the
 * buffer held, here a splat. */
static void unreachable_splats_in_a_list(void **unused) {
    (void)unused;
    state_fixture v;
    fixture_open(&v);
    const gsc__frame f = v.frame;
    const int64_t tiles = v.layout.tiles, last = v.layout.pixels - 1;
    const uint32_t splat = f.order[0];
    add_unreachable(&f, 1);
    f.offsets[tiles] += 2;
    f.header->intersections += 2;
    f.walked[last] = (uint32_t)(f.offsets[tiles] - f.offsets[tiles - 1]);
    const DLTensor *lists = tensors_bytes(&v.call.set, v.call.info.intersections_bytes + 64);
    for (size_t i = 0; i < raster_call_count(lists) / 4; i++) ((uint32_t *)lists->data)[i] = splat;
    v.call.buffers.intersections = lists;
    assert_int_equal(damaged_backward(&v), GSC_ERROR_STATE);
    fixture_close(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moved_state),
        cmocka_unit_test(foreign_state),
        cmocka_unit_test(foreign_args),
        cmocka_unit_test(unfinished_state),
        cmocka_unit_test(consistent_lies),
        cmocka_unit_test(unreachable_splats_of_many_tiles),
        cmocka_unit_test(unreachable_splat_twice),
        cmocka_unit_test(unreachable_splats_in_a_list),
    };
    context = library_context(2);
    int failures = cmocka_run_group_tests_name("raster state", tests, NULL, NULL);
    gsc_context_free(context);
    return failures;
}
