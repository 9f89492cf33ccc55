/* Backward's trust in the buffers it is handed: moved, foreign, unfinished, damaged.  To be
 * run under AddressSanitizer as well: reading out of bounds is what must not happen. */
#define GSC_ISA baseline /* the layout is that of every instruction set */

#include "cpu/raster_state.h"

#include "library.h"
#include "raster_call.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TRIALS 1500 /* of each kind of random damage */

static gsc_context *context;

static const raster_scene_options plain = {.seed = 5,
                                           .gaussians = 60,
                                           .width = 70,
                                           .height = 50,
                                           .cameras = 2,
                                           .sh_coefficients = 4,
                                           .sh_degree = 1,
                                           .spread = 1.8};

/* A rendered call, a copy of its state, and where what lies in it. */
typedef struct victim {
    raster_call call;
    gsc__state_layout layout;
    gsc__frame frame; /* of camera 0, inside the call's state */
    void *kept;
} victim;

static void victim_open(victim *v) {
    gsc__raster raster = {.width = plain.width,
                          .height = plain.height,
                          .channels = 3,
                          .cameras = plain.cameras,
                          .gaussians = plain.gaussians,
                          .sh_degree = 1};
    raster_call_open(&v->call, context, &plain, NULL);
    raster.sh = v->call.args.sh->data;
    gsc__state_plan(&raster, &v->layout);
    assert_int_equal(v->layout.bytes, v->call.info.state_bytes);
    assert_true(v->layout.hash == v->call.info.layout);
    v->kept = malloc(v->layout.bytes);
    assert_non_null(v->kept);
    memcpy(v->kept, v->call.buffers.state->data, v->layout.bytes);
    gsc__frame_open(&v->layout, v->call.buffers.state->data, 0, &v->frame);
    v->frame.layout = &v->layout;
}

static void victim_heal(const victim *v) {
    memcpy(v->call.buffers.state->data, v->kept, v->layout.bytes);
}

static void victim_close(victim *v) {
    free(v->kept);
    raster_call_close(&v->call);
}

/* Runs backward on the damaged state, then heals it. */
static gsc_status attack(victim *v) {
    gsc_status status = raster_call_backward(&v->call);
    assert_true(status == GSC_OK || status == GSC_ERROR_STATE);
    assert_true(tensors_guarded(&v->call.set));
    victim_heal(v);
    return status;
}

/* --------------------------------------------------------------- other state */

static void moved_state(void **unused) {
    (void)unused;
    victim v;
    victim_open(&v);
    raster_call *call = &v.call;
    assert_int_equal(raster_call_backward(call), GSC_OK);
    const uint64_t first = raster_call_hash(&call->grads);
    const DLTensor *state = tensors_bytes(&call->set, call->info.state_bytes);
    const DLTensor *lists = tensors_bytes(&call->set, call->info.intersections_bytes);
    memcpy(state->data, v.kept, call->info.state_bytes);
    memcpy(lists->data, call->buffers.intersections->data, call->info.intersections_bytes);
    memset(call->buffers.state->data, 0, call->info.state_bytes);
    memset(call->buffers.intersections->data, 0, call->info.intersections_bytes);
    call->buffers.state = state;
    call->buffers.intersections = lists;
    assert_int_equal(raster_call_backward(call), GSC_OK);
    assert_true(raster_call_hash(&call->grads) == first);
    victim_close(&v);
}

static void foreign_state(void **unused) {
    (void)unused;
    victim v;
    raster_call other;
    raster_scene_options o = plain;
    o.gaussians = 61;
    victim_open(&v);
    raster_call_open(&other, context, &o, NULL);
    gsc_raster_info info = v.call.info;
    v.call.info = other.info;
    assert_int_equal(raster_call_backward(&v.call), GSC_ERROR_STATE);
    v.call.info = info;
    v.call.buffers.state = other.buffers.state;
    assert_int_equal(raster_call_backward(&v.call), GSC_ERROR_STATE);
    raster_call_close(&other);
    victim_close(&v);
    /* Of the same layout but another scene: wrong, which nothing can tell, but harmless. */
    victim_open(&v);
    o = plain;
    o.seed++;
    raster_call_open(&other, context, &o, NULL);
    v.call.buffers.state = other.buffers.state;
    gsc_status status = raster_call_backward(&v.call);
    assert_true(status == GSC_OK || status == GSC_ERROR_STATE ||
                status == GSC_ERROR_BUFFER_TOO_SMALL);
    assert_true(tensors_guarded(&v.call.set));
    raster_call_close(&other);
    victim_close(&v);
}

static void foreign_args(void **unused) {
    (void)unused;
    victim v;
    victim_open(&v);
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
    assert_int_equal(gsc_raster_forward(context, &args, &v.call.outputs, &saved, NULL), GSC_OK);
    assert_int_equal(gsc_raster_backward_saved(context, &args, saved, &v.call.grads, NULL), GSC_OK);
    v.call.args.flags ^= GSC_RASTER_ANTIALIAS;
    assert_int_equal(gsc_raster_backward_saved(context, &v.call.args, saved, &v.call.grads, NULL),
                     GSC_ERROR_STATE);
    gsc_raster_saved_free(saved, NULL);
    victim_close(&v);
}

static void unfinished_state(void **unused) {
    (void)unused;
    victim v;
    victim_open(&v);
    memset(v.call.buffers.state->data, 0, v.layout.bytes);
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    memset(v.call.buffers.state->data, 0xFF, v.layout.bytes);
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    gsc_raster_outputs none = {.struct_size = sizeof none};
    assert_int_equal(
        gsc_raster_project(context, &v.call.args, &v.call.buffers, &none, &v.call.info, NULL),
        GSC_OK);
    assert_int_equal(raster_call_backward(&v.call), GSC_ERROR_STATE);
    assert_non_null(strstr(gsc_last_error(), "not rendered"));
    victim_heal(&v);
    int64_t shape;
    DLTensor cut = raster_call_cut(v.call.buffers.state, v.layout.bytes - 1, &shape);
    v.call.buffers.state = &cut;
    assert_int_not_equal(raster_call_backward(&v.call), GSC_OK);
    victim_close(&v);
}

/* ------------------------------------------------------------- damaged state */

/* Lies that hang together: each must be found out. */
static void told_lies(void **unused) {
    (void)unused;
    victim v;
    victim_open(&v);
    const gsc__frame f = v.frame;
    const int64_t visible = f.header->visible, tiles = v.layout.tiles;
    assert_true(visible > 10);
    gsc__record *first = &f.records[f.order[0]], *last = &f.records[f.order[visible - 1]];
    assert_int_equal(attack(&v), GSC_OK);
    first->tiles ^= 1u << 31, last->tiles ^= 1u << 31; /* 2^32 in all */
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    first->tiles += 1, last->tiles -= 1;
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    first->tiles -= 1, last->tiles += 1;
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    f.order[3] = f.order[4];
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    f.order[3] = (uint32_t)plain.gaussians;
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    f.header->visible -= 1;
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    f.header->visible = plain.gaussians + 1;
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    f.header->visible = -1;
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    f.header->intersections += 1;
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    f.header->intersections += 1, f.offsets[tiles] += 1;
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    f.offsets[tiles / 2] += 1;
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    f.offsets[0] = 1;
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    f.offsets[1] = UINT64_MAX;
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    f.walked[0] = UINT32_MAX;
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    first->x1 = (uint16_t)(v.layout.tiles_x + 1);
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    first->y0 = first->y1;
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    first->gaussian = last->gaussian;
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    assert_int_equal(attack(&v), GSC_OK);
    victim_close(&v);
}

/* Two splats that claim 2^31 tiles each but reach none, around all the others: sums of 32
 * bits come out right. */
static void make_ghosts(const gsc__frame *f) {
    uint32_t ghosts[2], count = 0;
    const int64_t visible = f->header->visible;
    for (uint32_t i = 0; i < (uint32_t)plain.gaussians && count < 2; i++) {
        bool listed = false;
        for (int64_t k = 0; k < visible; k++) listed = listed || f->order[k] == i;
        if (listed) continue;
        f->records[i] = (gsc__record){.mean = {1e6f, 1e6f},
                                      .r00 = 1,
                                      .r11 = 1,
                                      .log2_alpha = 1,
                                      .opacity = 1,
                                      .depth = 1,
                                      .x1 = 2,
                                      .y1 = 2,
                                      .tiles = 1u << 31,
                                      .gaussian = i};
        ghosts[count++] = i;
    }
    assert_int_equal(count, 2);
    memmove(f->order + 1, f->order, (size_t)visible * sizeof *f->order);
    f->order[0] = ghosts[0];
    f->order[visible + 1] = ghosts[1];
    f->header->visible += 2;
}

static void ghosts(void **unused) {
    (void)unused;
    victim v;
    victim_open(&v);
    make_ghosts(&v.frame);
    assert_int_equal(attack(&v), GSC_ERROR_STATE);
    victim_close(&v);
}

/* Numbers without sense may only make gradients without sense. */
static void senseless_numbers(void **unused) {
    (void)unused;
    victim v;
    victim_open(&v);
    const float values[] = {NAN, INFINITY, -INFINITY, 0, -0.0f, 3e38f, -3e38f, 1e-45f};
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
        for (int field = 0; field < 11; field++) {
            for (int64_t i = 0; i < v.frame.header->visible; i += 7) {
                gsc__record *record = &v.frame.records[v.frame.order[i]];
                memcpy((char *)record + sizeof(float) * (size_t)field, &values[k], sizeof(float));
            }
            (void)attack(&v);
        }
        for (int64_t i = 0; i < v.layout.pixels; i++) v.frame.final_t[i] = values[k];
        (void)attack(&v);
    }
    assert_int_equal(attack(&v), GSC_OK);
    victim_close(&v);
}

static size_t random_below(uint64_t *random, size_t bound) {
    return (size_t)raster_random(random, 0, (double)bound);
}

/* Bytes anywhere, and more often where indices are: in front of the pixels. */
static void random_bytes(void **unused) {
    (void)unused;
    victim v;
    uint64_t random = 1;
    int found = 0;
    victim_open(&v);
    unsigned char *state = (unsigned char *)v.call.buffers.state->data;
    const size_t ends[] = {v.layout.bytes, v.layout.final_t, v.layout.records};
    for (int trial = 0; trial < TRIALS; trial++) {
        size_t count = 1 + random_below(&random, 8), end = ends[trial % 3];
        for (size_t i = 0; i < count; i++) {
            state[random_below(&random, end)] = (unsigned char)random_below(&random, 256);
        }
        found += attack(&v) == GSC_ERROR_STATE;
    }
    assert_true(found > TRIALS / 3);
    victim_close(&v);
}

/* Bits of integers in the right place, where they do the most harm. */
static void random_bits(void **unused) {
    (void)unused;
    victim v;
    uint64_t random = 2;
    int found = 0;
    victim_open(&v);
    const gsc__frame f = v.frame;
    for (int trial = 0; trial < TRIALS; trial++) {
        size_t count = 1 + random_below(&random, 3);
        for (size_t i = 0; i < count; i++) {
            size_t n = random_below(&random, (size_t)plain.gaussians);
            uint32_t bit = 1u << random_below(&random, 32);
            uint16_t half = (uint16_t)(1u << random_below(&random, 16));
            switch (random_below(&random, 9)) {
            case 0: f.records[n].tiles ^= bit; break;
            case 1: f.records[n].x0 ^= half; break;
            case 2: f.records[n].x1 ^= half; break;
            case 3: f.records[n].y0 ^= half; break;
            case 4: f.records[n].y1 ^= half; break;
            case 5: f.order[n] ^= bit; break;
            case 6: f.offsets[random_below(&random, (size_t)v.layout.tiles + 1)] ^= bit; break;
            case 7: f.walked[random_below(&random, (size_t)v.layout.pixels)] ^= bit; break;
            default: f.header->visible ^= (int64_t)bit; break;
            }
        }
        found += attack(&v) == GSC_ERROR_STATE;
    }
    assert_true(found > TRIALS / 2);
    victim_close(&v);
}

/* A stretch overwritten by noise, or by another stretch. */
static void random_stretches(void **unused) {
    (void)unused;
    victim v;
    uint64_t random = 3;
    victim_open(&v);
    unsigned char *state = (unsigned char *)v.call.buffers.state->data;
    for (int trial = 0; trial < TRIALS / 3; trial++) {
        size_t begin = random_below(&random, v.layout.final_t);
        size_t length = 1 + random_below(&random, v.layout.final_t - begin);
        size_t from = random_below(&random, v.layout.bytes - length);
        if (trial % 2) {
            memcpy(state + begin, (const char *)v.kept + from, length);
        } else {
            for (size_t i = 0; i < length; i++) {
                state[begin + i] = (unsigned char)random_below(&random, 256);
            }
        }
        (void)attack(&v);
    }
    victim_close(&v);
}

/* Between project and render, with statistics, which use the same lists. */
static void damage_before_render(void **unused) {
    (void)unused;
    victim v;
    uint64_t random = 4;
    victim_open(&v);
    raster_call *call = &v.call;
    const gsc__frame f = v.frame;
    int32_t wish = 0;
    const int64_t shape[] = {plain.cameras, plain.gaussians};
    call->outputs.touched = tensors_output_ints(&call->set, &wish, 2, shape);
    for (int trial = 0; trial < TRIALS / 3; trial++) {
        size_t count = 1 + random_below(&random, 6);
        for (size_t i = 0; i < count && trial > 0; i++) {
            ((unsigned char *)call->buffers.state->data)[random_below(&random, v.layout.final_t)] ^=
                (unsigned char)(1 + random_below(&random, 255));
        }
        if (trial == 0) {
            make_ghosts(&f);
        }
        gsc_status status = gsc_raster_render(context, &call->args, &call->buffers, &call->outputs,
                                              &call->info, NULL, NULL);
        assert_true(status == GSC_OK || status == GSC_ERROR_STATE ||
                    status == GSC_ERROR_BUFFER_TOO_SMALL);
        if (trial == 0) assert_int_equal(status, GSC_ERROR_STATE);
        assert_true(tensors_guarded(&call->set));
        victim_heal(&v);
    }
    victim_close(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moved_state),
        cmocka_unit_test(foreign_state),
        cmocka_unit_test(foreign_args),
        cmocka_unit_test(unfinished_state),
        cmocka_unit_test(told_lies),
        cmocka_unit_test(ghosts),
        cmocka_unit_test(senseless_numbers),
        cmocka_unit_test(random_bytes),
        cmocka_unit_test(random_bits),
        cmocka_unit_test(random_stretches),
        cmocka_unit_test(damage_before_render),
    };
    context = library_context(2);
    int failures = cmocka_run_group_tests_name("raster state", tests, NULL, NULL);
    gsc_context_free(context);
    return failures;
}
