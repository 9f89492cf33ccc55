/* A rendered call whose state tests damage.  To be run under AddressSanitizer as well:
 * reading out of bounds is what must not happen. */
#ifndef TESTS_RASTER_VICTIM_H
#define TESTS_RASTER_VICTIM_H

/* The layout is that of every instruction set of the build. */
#if defined(__aarch64__)
#define GSC_ISA neon
#else
#define GSC_ISA baseline
#endif

#include "cpu/raster_state.h"

#include "library.h"
#include "raster_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

/* Two splats around all the others that claim so many tiles each but reach none. */
static void make_ghosts(const gsc__frame *f, uint32_t tiles) {
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
                                      .tiles = tiles,
                                      .gaussian = i};
        ghosts[count++] = i;
    }
    assert_int_equal(count, 2);
    memmove(f->order + 1, f->order, (size_t)visible * sizeof *f->order);
    f->order[0] = ghosts[0];
    f->order[visible + 1] = ghosts[1];
    f->header->visible += 2;
}

#endif
