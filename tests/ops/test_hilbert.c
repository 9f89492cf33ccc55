/* The Hilbert order: steps of one cell on a full lattice, clusters smaller than a cell,
 * duplicates, non-finite points, any number of threads. */
#include "cpu/hilbert.h"
#include "expect.h"
#include "os/system.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>

#define SIDE 16
#define LATTICE (SIDE * SIDE * SIDE)

static uint64_t random_state = 1;

static void *allocate(int64_t count, size_t size) {
    void *data = malloc((size_t)(count > 0 ? count : 1) * size);
    assert_non_null(data);
    return data;
}

/* The order of points [count, 3] and the number of finite ones; to be freed. */
static uint32_t *order_of(int threads, const gsc_real *points, int64_t count, int64_t *finite) {
    gsc__pool *pool = gsc__pool_create(threads);
    void *scratch = gsc__aligned_alloc(gsc__sort_scratch_bytes(threads), 64);
    uint64_t *keys = allocate(2 * count, sizeof *keys);
    uint32_t *values = allocate(2 * count, sizeof *values);
    gsc__pairs64 order = {keys, keys + count, values, values + count};
    *finite = gsc__hilbert_order(pool, points, count, &order, scratch);
    uint32_t *result = allocate(count, sizeof *result);
    memcpy(result, order.values, (size_t)count * sizeof *result);
    free(values);
    free(keys);
    gsc__aligned_free(scratch);
    gsc__pool_destroy(pool);
    return result;
}

/* The side^3 points of a full lattice in random order; x starts at place. */
static void make_lattice(gsc_real *points, uint32_t side, gsc_real place, gsc_real spacing) {
    uint32_t numbers[LATTICE];
    const uint32_t count = side * side * side;
    for (uint32_t i = 0; i < count; ++i) {
        uint32_t j = (uint32_t)(xorshift64(&random_state) % (i + 1));
        numbers[i] = numbers[j];
        numbers[j] = i;
    }
    for (uint32_t i = 0; i < count; ++i) {
        uint32_t number = numbers[i];
        for (uint32_t axis = 0; axis < 3; ++axis, number /= side)
            points[3 * i + axis] = (axis == 0 ? place : 0) + spacing * (gsc_real)(number % side);
    }
}

/* The curve moves from cell to cell through a face: from the first of points first .. first + count
 * - 1 on, the order holds them all, each a neighbour of the one before. */
static void check_steps(const gsc_real *points, const uint32_t *order, uint32_t first,
                        uint32_t count, gsc_real spacing) {
    bool *seen = calloc(count, sizeof *seen);
    assert_non_null(seen);
    while (*order - first >= count) ++order;
    for (uint32_t i = 0; i < count; ++i) {
        uint32_t number = order[i] - first;
        assert_true(number < count && !seen[number]);
        seen[number] = true;
        if (i == 0) continue;
        const gsc_real *p = points + 3 * order[i - 1], *q = points + 3 * order[i];
        gsc_real step = 0;
        for (int axis = 0; axis < 3; ++axis)
            step += q[axis] > p[axis] ? q[axis] - p[axis] : p[axis] - q[axis];
        assert_true(step == spacing);
    }
    free(seen);
}

static void steps_are_short(void **state) {
    (void)state;
    int64_t finite;
    gsc_real *points = allocate(LATTICE, 3 * sizeof *points);
    make_lattice(points, SIDE, -3, GSC_REAL(0.5));
    uint32_t *order = order_of(2, points, LATTICE, &finite);
    assert_int_equal(finite, LATTICE);
    check_steps(points, order, 0, LATTICE, GSC_REAL(0.5));
    free(order);
    free(points);
}

/* Points at 10^9 make each of three lattices fit into one cell; all threads sort the large one
 * together. */
static void clusters_are_ordered_within(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 7};
    enum { SMALL = 8 * 8 * 8, TINY = 4 * 4 * 4, ALL = LATTICE + SMALL + TINY + 2 };
    for (int t = 0; t < 3; ++t) {
        int64_t finite;
        gsc_real *points = allocate(ALL, 3 * sizeof *points);
        make_lattice(points, SIDE, 0, GSC_REAL(0.25));
        make_lattice(points + 3 * LATTICE, 8, 2000, GSC_REAL(0.25));
        make_lattice(points + 3 * (LATTICE + SMALL), 4, -5000, GSC_REAL(0.001953125));
        for (int axis = 0; axis < 3; ++axis) {
            points[3 * (ALL - 2) + axis] = GSC_REAL(1e9);
            points[3 * (ALL - 1) + axis] = -GSC_REAL(1e9);
        }
        uint32_t *order = order_of(threads[t], points, ALL, &finite);
        assert_int_equal(finite, ALL);
        check_steps(points, order, 0, LATTICE, GSC_REAL(0.25));
        check_steps(points, order, LATTICE, SMALL, GSC_REAL(0.25));
        check_steps(points, order, LATTICE + SMALL, TINY, GSC_REAL(0.001953125));
        free(order);
        free(points);
    }
}

static void duplicates_keep_index_order(void **state) {
    (void)state;
    const int64_t count = 30000;
    gsc_real *points = allocate(count, 3 * sizeof *points);
    for (int64_t i = 0; i < count; ++i) {
        points[3 * i] = (gsc_real)(xorshift64(&random_state) % 50);
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
            points[3 * i + axis] = (gsc_real)(xorshift64(&random_state) % 1000);
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
