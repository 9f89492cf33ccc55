/* The Hilbert order: steps of one cell on a full lattice, clusters smaller than a cell,
 * duplicates, non-finite points, any number of threads. */
#if defined(__aarch64__)
#define GSC_ISA neon
#else
#define GSC_ISA baseline
#endif
#include "../src/cpu/hilbert.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define SIDE 16
#define LATTICE (SIDE * SIDE * SIDE)

static uint64_t random_state = 1;
static uint64_t next_random(void) { /* xorshift64* (Vigna 2016) */
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(2685821657736338717);
}

static void *allocate(int64_t count, size_t size) {
    void *data = malloc((size_t)(count > 0 ? count : 1) * size);
    assert_non_null(data);
    return data;
}

/* The order of points [count, 3] and the number of finite ones; to be freed. */
static uint32_t *order_of(int threads, const gsc_real *points, int64_t count, int64_t *finite) {
    gsc__pool *pool = gsc__pool_create(threads);
    void *scratch = aligned_alloc(64, gsc__sort_scratch_bytes(threads));
    uint64_t *keys = allocate(2 * count, sizeof *keys);
    uint32_t *values = allocate(2 * count, sizeof *values);
    gsc__pairs64 order = {keys, keys + count, values, values + count};
    *finite = gsc__hilbert_order(pool, points, count, &order, scratch);
    uint32_t *result = allocate(count, sizeof *result);
    memcpy(result, order.values, (size_t)count * sizeof *result);
    free(values);
    free(keys);
    free(scratch);
    gsc__pool_destroy(pool);
    return result;
}

/* Points of a full lattice in random order, around place. */
static gsc_real *lattice(gsc_real place, gsc_real spacing) {
    gsc_real *points = allocate(LATTICE, 3 * sizeof *points);
    uint32_t numbers[LATTICE];
    for (uint32_t i = 0; i < LATTICE; ++i) {
        uint32_t j = (uint32_t)(next_random() % (i + 1));
        numbers[i] = numbers[j];
        numbers[j] = i;
    }
    for (int i = 0; i < LATTICE; ++i) {
        uint32_t number = numbers[i];
        for (int axis = 0; axis < 3; ++axis, number /= SIDE)
            points[3 * i + axis] = place + spacing * (gsc_real)(number % SIDE);
    }
    return points;
}

/* The curve goes from cell to cell through a face. */
static void check_steps(const gsc_real *points, const uint32_t *order, gsc_real spacing) {
    bool *seen = calloc(LATTICE, sizeof *seen);
    for (int i = 0; i < LATTICE; ++i) {
        assert_true(order[i] < LATTICE && !seen[order[i]]);
        seen[order[i]] = true;
        if (i == 0) continue;
        const gsc_real *p = points + 3 * order[i - 1], *q = points + 3 * order[i];
        gsc_real step = 0;
        for (int axis = 0; axis < 3; ++axis) step += q[axis] > p[axis] ? q[axis] - p[axis]
                                                                       : p[axis] - q[axis];
        assert_true(step == spacing);
    }
    free(seen);
}

static void steps_are_short(void **state) {
    (void)state;
    int64_t finite;
    gsc_real *points = lattice(-3, GSC_REAL(0.5));
    uint32_t *order = order_of(2, points, LATTICE, &finite);
    assert_int_equal(finite, LATTICE);
    check_steps(points, order, GSC_REAL(0.5));
    free(order);
    free(points);
}

/* A point at 10^9 makes the whole lattice fit in one cell. */
static void clusters_are_ordered_within(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 7};
    for (int t = 0; t < 3; ++t) {
        int64_t finite;
        gsc_real *cluster = lattice(0, GSC_REAL(0.25));
        gsc_real *points = allocate(LATTICE + 1, 3 * sizeof *points);
        memcpy(points, cluster, LATTICE * 3 * sizeof *points);
        for (int axis = 0; axis < 3; ++axis) points[3 * LATTICE + axis] = GSC_REAL(1e9);
        uint32_t *order = order_of(threads[t], points, LATTICE + 1, &finite);
        assert_int_equal(finite, LATTICE + 1);
        bool outlier_first = order[0] == LATTICE;
        check_steps(points, order + outlier_first, GSC_REAL(0.25));
        free(order);
        free(points);
        free(cluster);
    }
}

static void duplicates_keep_index_order(void **state) {
    (void)state;
    const int64_t count = 30000;
    gsc_real *points = allocate(count, 3 * sizeof *points);
    for (int64_t i = 0; i < count; ++i) {
        points[3 * i] = (gsc_real)(next_random() % 50);
        points[3 * i + 1] = points[3 * i + 2] = GSC_REAL(0.1);
    }
    int64_t finite;
    uint32_t *order = order_of(2, points, count, &finite);
    int changes = 0;
    for (int64_t i = 1; i < count; ++i) {
        if (points[3 * order[i - 1]] == points[3 * order[i]])
            assert_true(order[i - 1] < order[i]);
        else
            ++changes;
    }
    assert_int_equal(changes, 49);
    free(order);
    free(points);
}

static void not_finite_goes_last(void **state) {
    (void)state;
    const int64_t count = 10000;
    gsc_real *points = allocate(count, 3 * sizeof *points);
    int64_t expected = 0;
    for (int64_t i = 0; i < count; ++i) {
        for (int axis = 0; axis < 3; ++axis)
            points[3 * i + axis] = (gsc_real)(next_random() % 1000);
        if (i % 3 == 0)
            points[3 * i + i % 2] = i % 4 ? (gsc_real)NAN : -(gsc_real)INFINITY;
        else
            ++expected;
    }
    int64_t finite;
    uint32_t *order = order_of(2, points, count, &finite);
    assert_int_equal(finite, expected);
    for (int64_t i = 0; i < count; ++i) {
        assert_int_equal(order[i] % 3 == 0, i >= finite);
        if (i > finite) assert_true(order[i - 1] < order[i]);
    }
    free(order);
    free(points);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_short),
        cmocka_unit_test(clusters_are_ordered_within),
        cmocka_unit_test(duplicates_keep_index_order),
        cmocka_unit_test(not_finite_goes_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
