/* Backward and blend on a randomly damaged state: they may fail or return any numbers, but touch
 * nothing outside the buffers. */
#include "state_fixture.h"

#include <math.h>

#define TRIALS 1500 /* of each kind of random damage */

/* Senseless numbers may cause senseless gradients, and nothing else. */
static void senseless_numbers(void **unused) {
    (void)unused;
    state_fixture v;
    fixture_open(&v);
    const float values[] = {NAN, INFINITY, -INFINITY, 0, -0.0f, 3e38f, -3e38f, 1e-45f};
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
        for (int field = 0; field < 11; field++) {
            for (int64_t i = 0; i < v.frame.header->visible; i += 7) {
                gsc__record *record = &v.frame.records[v.frame.order[i]];
                memcpy((char *)record + sizeof(float) * (size_t)field, &values[k], sizeof(float));
            }
            (void)damaged_backward(&v);
        }
        for (int64_t i = 0; i < v.layout.pixels; i++) v.frame.final_t[i] = values[k];
        (void)damaged_backward(&v);
    }
    expect_ok(damaged_backward(&v));
    fixture_close(&v);
}

static size_t random_below(uint64_t *random, size_t bound) {
    return (size_t)raster_random(random, 0, (double)bound);
}

/* Offsets in state. */
static size_t pixels_at(const state_fixture *v) {
    return (size_t)((char *)v->frame.final_t - (char *)v->frame.header);
}
static size_t records_at(const state_fixture *v) {
    return (size_t)((char *)v->frame.records - (char *)v->frame.header);
}

/* Random bytes anywhere, more often before the pixels, where the indices are. */
static void random_bytes(void **unused) {
    (void)unused;
    state_fixture v;
    uint64_t random = 1;
    int found = 0;
    fixture_open(&v);
    unsigned char *state = (unsigned char *)v.call.buffers.state->data;
    const size_t ends[] = {v.layout.bytes, pixels_at(&v), records_at(&v)};
    for (int trial = 0; trial < TRIALS; trial++) {
        size_t count = 1 + random_below(&random, 8), end = ends[trial % 3];
        for (size_t i = 0; i < count; i++) {
            state[random_below(&random, end)] = (unsigned char)random_below(&random, 256);
        }
        found += damaged_backward(&v) == GSC_ERROR_STATE;
    }
    assert_true(found > TRIALS / 3);
    fixture_close(&v);
}

/* Single bits of integers, where they do the most harm. */
static void random_bits(void **unused) {
    (void)unused;
    state_fixture v;
    uint64_t random = 2;
    int found = 0;
    fixture_open(&v);
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
        found += damaged_backward(&v) == GSC_ERROR_STATE;
    }
    assert_true(found > TRIALS / 2);
    fixture_close(&v);
}

/* A range overwritten with noise, or with another range. */
static void random_ranges(void **unused) {
    (void)unused;
    state_fixture v;
    uint64_t random = 3;
    fixture_open(&v);
    unsigned char *state = (unsigned char *)v.call.buffers.state->data;
    for (int trial = 0; trial < TRIALS / 3; trial++) {
        size_t begin = random_below(&random, pixels_at(&v));
        size_t length = 1 + random_below(&random, pixels_at(&v) - begin);
        size_t from = random_below(&random, v.layout.bytes - length);
        if (trial % 2) {
            memcpy(state + begin, (const char *)v.kept + from, length);
        } else {
            for (size_t i = 0; i < length; i++) {
                state[begin + i] = (unsigned char)random_below(&random, 256);
            }
        }
        (void)damaged_backward(&v);
    }
    fixture_close(&v);
}

/* Between project and blend, with statistics, which use the same lists. */
static void damage_before_blend(void **unused) {
    (void)unused;
    state_fixture v;
    uint64_t random = 4;
    fixture_open(&v);
    raster_call *call = &v.call;
    const gsc__frame f = v.frame;
    int32_t wish = 0;
    const int64_t shape[] = {plain.cameras, plain.gaussians};
    call->outputs.touched = tensors_output_ints(&call->set, &wish, 2, shape);
    for (int trial = 0; trial < TRIALS / 3; trial++) {
        size_t count = 1 + random_below(&random, 6);
        for (size_t i = 0; i < count && trial > 0; i++) {
            ((unsigned char *)call->buffers.state->data)[random_below(&random, pixels_at(&v))] ^=
                (unsigned char)(1 + random_below(&random, 255));
        }
        if (trial == 0) {
            add_unreachable(&f, 1u << 31);
        }
        gsc_status status = gsc_raster_blend(context, &call->args, &call->buffers, &call->outputs,
                                             &call->info, NULL, NULL);
        assert_true(status == GSC_OK || status == GSC_ERROR_STATE ||
                    status == GSC_ERROR_BUFFER_TOO_SMALL);
        if (trial == 0) assert_int_equal(status, GSC_ERROR_STATE);
        assert_true(tensors_guarded(&call->set));
        fixture_restore(&v);
    }
    fixture_close(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(senseless_numbers),   cmocka_unit_test(random_bytes),
        cmocka_unit_test(random_bits),         cmocka_unit_test(random_ranges),
        cmocka_unit_test(damage_before_blend),
    };
    context = library_context(2);
    int failures = cmocka_run_group_tests_name("raster damage", tests, NULL, NULL);
    gsc_context_free(context);
    return failures;
}
