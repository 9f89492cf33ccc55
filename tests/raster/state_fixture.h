/* A rasterized call whose saved state tests damage.  Run these tests under AddressSanitizer too:
 * no damage may make the library read or write out of bounds. */
#ifndef TESTS_STATE_FIXTURE_H
#define TESTS_STATE_FIXTURE_H

#include "cpu/raster_state.h"
#include "expect.h"

#include "library.h"
#include "raster_call.h"

#include <stdlib.h>
#include <string.h>

static gsc_context *context;

static const raster_scene_options plain = {.seed = 5,
                                           .gaussians = 60,
                                           .width = 70,
                                           .height = 50,
                                           .cameras = 2,
                                           .sh_coefficients = 4,
                                           .sh_degree = 1,
                                           .spread = 1.8};

/* A rasterized call, a copy of its state, and the layout of the state. */
typedef struct state_fixture {
    raster_call call;
    gsc__raster raster;
    gsc__state_layout layout;
    gsc__frame frame; /* of camera 0, inside the call's state */
    void *kept;
} state_fixture;

static void fixture_open(state_fixture *v) {
    v->raster = (gsc__raster){.width = plain.width,
                              .height = plain.height,
                              .channels = 3,
                              .cameras = plain.cameras,
                              .gaussians = plain.gaussians,
                              .sh_degree = 1};
    raster_call_open(&v->call, context, &plain, NULL);
    v->raster.sh = v->call.args.sh->data;
    gsc__state_plan(&v->raster, &v->layout);
    assert_int_equal(v->layout.bytes, v->call.info.state_bytes);
    assert_true(v->layout.hash == v->call.info.layout);
    v->kept = malloc(v->layout.bytes);
    assert_non_null(v->kept);
    memcpy(v->kept, v->call.buffers.state->data, v->layout.bytes);
    v->frame = gsc__frame_open(&v->raster, &v->layout, v->call.buffers.state->data, 0);
}

static void fixture_restore(const state_fixture *v) {
    memcpy(v->call.buffers.state->data, v->kept, v->layout.bytes);
}

static void fixture_close(state_fixture *v) {
    free(v->kept);
    raster_call_close(&v->call);
}

/* Runs backward on the damaged state, then restores the state. */
static gsc_status damaged_backward(state_fixture *v) {
    gsc_status status = raster_call_backward(&v->call);
    assert_true(status == GSC_OK || status == GSC_ERROR_STATE);
    assert_true(tensors_guarded(&v->call.set));
    fixture_restore(v);
    return status;
}

/* Adds two splats, before and after all others, that claim this many tiles but reach none. */
static void add_unreachable(const gsc__frame *f, uint32_t tiles) {
    uint32_t added[2], count = 0;
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
                                      .tiles = tiles,
                                      .gaussian = i};
        added[count++] = i;
    }
    assert_int_equal(count, 2);
    memmove(f->order + 1, f->order, (size_t)visible * sizeof *f->order);
    f->order[0] = added[0];
    f->order[visible + 1] = added[1];
    f->header->visible += 2;
}

#endif
