/* The pair sorts: order, stability, every length around a threshold, any number of
 * threads. */
#include "cpu/sort.h"
#include "expect.h"
#include "os/system.h"
#include "random.h"

#include <stdlib.h>

static uint64_t random_state = 1;

static void *allocate(size_t count, size_t size) {
    void *data = calloc(count + 1, size);
    assert_non_null(data);
    return data;
}

/* Sorts n random keys of `bits` bits, of which those in clear are zeroed, and checks every
 * pair of neighbours: keys ascend, equal keys keep their order, values still fit keys. */
static void check64(int threads, int64_t n, int bits, uint64_t clear) {
    size_t count = (size_t)n;
    uint64_t *original = allocate(count, 8), *keys[2] = {allocate(count, 8), allocate(count, 8)};
    uint32_t *values[2] = {allocate(count, 4), allocate(count, 4)};
    for (int64_t i = 0; i < n; ++i) {
        original[i] = keys[0][i] = xorshift64(&random_state) >> (64 - bits) & ~clear;
        values[0][i] = (uint32_t)i;
    }
    gsc__pool *pool = gsc__pool_create(threads);
    void *scratch = gsc__aligned_alloc(gsc__sort_scratch_bytes(threads), 64);
    gsc__pairs64 pairs = {keys[0], keys[1], values[0], values[1]};
    gsc__sort_pairs64(pool, &pairs, n, bits, scratch);
    assert_true(pairs.keys == keys[0] || pairs.keys == keys[1]);
    for (int64_t i = 0; i < n; ++i) {
        assert_true((int64_t)pairs.values[i] < n);
        assert_true(pairs.keys[i] == original[pairs.values[i]]);
        if (i == 0) continue;
        assert_true(pairs.keys[i - 1] <= pairs.keys[i]);
        if (pairs.keys[i - 1] == pairs.keys[i]) assert_true(pairs.values[i - 1] < pairs.values[i]);
    }
    gsc__aligned_free(scratch);
    gsc__pool_destroy(pool);
    for (int side = 0; side < 2; ++side) free(keys[side]), free(values[side]);
    free(original);
}

static void check32(int threads, int64_t n, int bits, uint32_t clear) {
    size_t count = (size_t)n;
    uint32_t *original = allocate(count, 4), *keys[2] = {allocate(count, 4), allocate(count, 4)};
    uint32_t *values[2] = {allocate(count, 4), allocate(count, 4)};
    for (int64_t i = 0; i < n; ++i) {
        original[i] = keys[0][i] = (uint32_t)(xorshift64(&random_state) >> (64 - bits)) & ~clear;
        values[0][i] = (uint32_t)i;
    }
    gsc__pool *pool = gsc__pool_create(threads);
    void *scratch = gsc__aligned_alloc(gsc__sort_scratch_bytes(threads), 64);
    gsc__pairs32 pairs = {keys[0], keys[1], values[0], values[1]};
    gsc__sort_pairs32(pool, &pairs, n, bits, scratch);
    for (int64_t i = 0; i < n; ++i) {
        assert_true((int64_t)pairs.values[i] < n);
        assert_true(pairs.keys[i] == original[pairs.values[i]]);
        if (i == 0) continue;
        assert_true(pairs.keys[i - 1] <= pairs.keys[i]);
        if (pairs.keys[i - 1] == pairs.keys[i]) assert_true(pairs.values[i - 1] < pairs.values[i]);
    }
    gsc__aligned_free(scratch);
    gsc__pool_destroy(pool);
    for (int side = 0; side < 2; ++side) free(keys[side]), free(values[side]);
    free(original);
}

static const int thread_counts[] = {1, 2, 7};
static const int64_t lengths[] = {0,
                                  1,
                                  2,
                                  15,
                                  16,
                                  17,
                                  100,
                                  1000,
                                  GSC__SORT_PARALLEL - 1,
                                  GSC__SORT_PARALLEL,
                                  GSC__SORT_PARALLEL + 1,
                                  20011};

static void sorts_every_length(void **state) {
    (void)state;
    for (size_t t = 0; t < sizeof thread_counts / sizeof *thread_counts; ++t) {
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; ++l) {
            check64(thread_counts[t], lengths[l], 63, 0);
            check32(thread_counts[t], lengths[l], 32, 0);
        }
    }
}

static void equal_keys_stay_in_order(void **state) {
    (void)state;
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; ++l) {
        check64(2, lengths[l], 3, 0);
        check32(2, lengths[l], 3, 0);
    }
}

static void sorts_keys_of_any_width(void **state) {
    (void)state;
    for (int bits = 1; bits <= 64; ++bits) check64(2, 9000, bits, 0);
    for (int bits = 1; bits <= 32; ++bits) check32(2, 9000, bits, 0);
}

static void leaves_out_constant_digits(void **state) {
    (void)state;
    check64(2, 9000, 64, UINT64_C(0xff00ffff0000ff00));
    check64(2, 9000, 64, ~UINT64_C(0));
    check64(2, 9000, 64, ~(UINT64_C(1) << 63));
    check32(2, 9000, 32, UINT32_C(0x00ff00f0));
    check32(2, 9000, 32, ~UINT32_C(0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorts_every_length),
        cmocka_unit_test(equal_keys_stay_in_order),
        cmocka_unit_test(sorts_keys_of_any_width),
        cmocka_unit_test(leaves_out_constant_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
