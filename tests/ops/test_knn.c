/* Nearest neighbours against brute force, on clouds that break other searches. */
#include "clouds.h"
#include "expect.h"
#include "gsplat_c.h"

#include "os/system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ the library */

static gsc_context *open_context(int threads) {
    gsc_context_desc desc;
    gsc_context_desc_init(&desc, (DLDevice){kDLCPU, 0});
    desc.cpu_threads = threads;
    gsc_context *context;
    if (gsc_context_create(&desc, &context)) fail_msg("%s", gsc_last_error());
    return context;
}

typedef struct answer {
    int64_t rows;
    int k;
    int64_t *indices;
    float *distances2, *mean2;
} answer;

static void free_answer(answer *a) {
    free(a->indices);
    free(a->distances2);
    free(a->mean2);
}

static DLTensor tensor(void *data, uint8_t code, uint8_t bits, int ndim, int64_t *shape) {
    DLTensor t = {.data = data, .device = {kDLCPU, 0}, .ndim = ndim, .shape = shape};
    t.dtype = (DLDataType){code, bits, 1};
    return t;
}

/* queries NULL: the points themselves. */
static answer find(gsc_context *context, float *points, int64_t n, float *queries, int64_t m, int k,
                   bool indices64) {
    answer a = {.rows = queries ? m : n, .k = k};
    a.indices = allocate(a.rows * k, sizeof *a.indices);
    a.distances2 = allocate(a.rows * k, sizeof *a.distances2);
    a.mean2 = allocate(a.rows, sizeof *a.mean2);
    int64_t points_shape[] = {n, 3}, queries_shape[] = {m, 3}, table_shape[] = {a.rows, k};
    DLTensor points_tensor = tensor(points, kDLFloat, 32, 2, points_shape);
    DLTensor queries_tensor = tensor(queries, kDLFloat, 32, 2, queries_shape);
    DLTensor indices = tensor(a.indices, kDLInt, indices64 ? 64 : 32, 2, table_shape);
    DLTensor distances2 = tensor(a.distances2, kDLFloat, 32, 2, table_shape);
    DLTensor mean2 = tensor(a.mean2, kDLFloat, 32, 1, &a.rows);
    GSC_INIT(gsc_knn_args, args);
    args.k = k;
    args.points = &points_tensor;
    args.queries = queries ? &queries_tensor : NULL;
    args.indices = &indices;
    args.distances2 = &distances2;
    args.mean2 = &mean2;
    if (gsc_knn(context, &args, NULL)) fail_msg("%s", gsc_last_error());
    if (!indices64) {
        int32_t *narrow = (int32_t *)a.indices;
        for (int64_t i = a.rows * k - 1; i >= 0; --i) {
            int64_t wide = narrow[i];
            a.indices[i] = wide;
        }
    }
    return a;
}

/* ------------------------------------------------------------------ brute force */

static bool finite3(const float *p) {
    return isfinite(p[0]) && isfinite(p[1]) && isfinite(p[2]);
}

static double distance2(const float *p, const float *q) {
    double sum = 0;
    for (int i = 0; i < 3; ++i) sum += ((double)p[i] - q[i]) * ((double)p[i] - q[i]);
    return sum;
}

/* The largest error of float32 for the exact squared distance x. */
static double lower_bound(double x) {
    return x > FLT_MAX ? FLT_MAX : x * (1 - 1e-6) - 1e-44;
}
static double upper_bound(double x) {
    return x > FLT_MAX * 0.9999 ? INFINITY : x * (1 + 1e-6) + 1e-44;
}

static void check_no_row(const answer *a, int64_t row) {
    for (int i = 0; i < a->k; ++i) {
        assert_int_equal(a->indices[row * a->k + i], -1);
        assert_true(a->distances2[row * a->k + i] == INFINITY);
    }
    assert_true(isnan(a->mean2[row]));
}

/* self: the index of the query among the points, or -1.  seen: [n], all false. */
static void check_row(const answer *a, int64_t row, const float *q, int64_t self,
                      const float *points, int64_t n, bool *seen) {
    const int64_t *indices = a->indices + row * a->k;
    const float *distances2 = a->distances2 + row * a->k;
    int found = 0;
    double sum = 0;
    while (found < a->k && indices[found] >= 0) {
        int64_t index = indices[found];
        assert_true(index < n && index != self && !seen[index]);
        seen[index] = true;
        double exact = distance2(points + 3 * index, q);
        assert_true(distances2[found] >= lower_bound(exact) &&
                    distances2[found] <= upper_bound(exact));
        if (found > 0) {
            assert_true(distances2[found] >= distances2[found - 1]);
            if (distances2[found] == distances2[found - 1]) assert_true(index > indices[found - 1]);
        }
        sum += (double)distances2[found++];
    }
    for (int i = found; i < a->k; ++i) {
        assert_int_equal(indices[i], -1);
        assert_true(distances2[i] == INFINITY);
    }
    float mean2 = found > 0 ? (float)(sum / found) : 0;
    assert_true(a->mean2[row] == mean2 || fabsf(a->mean2[row] - mean2) <= 1e-6f * mean2);
    for (int64_t i = 0; i < n; ++i) { /* nothing nearer was missed */
        if (!finite3(points + 3 * i)) {
            assert_false(seen[i]);
            continue;
        }
        if (seen[i] || i == self) continue;
        assert_int_equal(found, a->k);
        float last = distances2[found - 1];
        double exact = distance2(points + 3 * i, q);
        assert_true(upper_bound(exact) >= last);
        /* If float32 distances are certainly equal, the index decides. */
        bool both_infinite = last == INFINITY && exact > 1.01 * (double)FLT_MAX;
        bool small_integer = exact == floor(exact) && exact < 1e6 &&
                             (exact > 0 || memcmp(points + 3 * i, q, 3 * sizeof *q) == 0);
        if (both_infinite || (small_integer && exact == (double)last))
            assert_true(i > indices[found - 1]);
    }
    for (int i = 0; i < found; ++i) seen[indices[i]] = false;
}

static void check(gsc_context *context, float *points, int64_t n, float *queries, int64_t m, int k,
                  bool indices64) {
    answer a = find(context, points, n, queries, m, k, indices64);
    bool *seen = allocate(n, sizeof *seen);
    for (int64_t i = 0; i < n; ++i) seen[i] = false;
    int64_t step = a.rows * n > 1 << 17 ? a.rows * n >> 17 : 1;
    for (int64_t row = 0; row < a.rows; row += step) {
        const float *q = queries ? queries + 3 * row : points + 3 * row;
        if (finite3(q))
            check_row(&a, row, q, queries ? -1 : row, points, n, seen);
        else
            check_no_row(&a, row);
    }
    free(seen);
    free_answer(&a);
}

/* ------------------------------------------------------------------------ tests */

static const int64_t counts[] = {0, 1, 2, 3, 4, 15, 16, 17, 1023, 1024, 1025, 2049};
static const int ks[] = {1, 3, 8, 16, 48, 49, 100, 256}; /* the kind of list changes after 48 */

static void points_among_themselves(void **state) {
    for (size_t c = 0; c < COUNT(clouds); ++c) {
        for (size_t i = 0; i < COUNT(counts); ++i) {
            float *points = cloud(clouds[c], counts[i]);
            for (size_t j = 0; j < COUNT(ks); ++j)
                check(*state, points, counts[i], NULL, 0, ks[j], (i + j) % 2 == 0);
            free(points);
        }
    }
}

static void queries_apart(void **state) {
    static const int64_t rows[] = {0, 1, 17, 300};
    for (size_t c = 0; c < COUNT(clouds); ++c) {
        for (size_t i = 0; i < COUNT(counts); ++i) {
            for (size_t j = 0; j < COUNT(rows); ++j) {
                float *points = cloud(clouds[c], counts[i]);
                float *queries = cloud(clouds[(c + j) % COUNT(clouds)], rows[j]);
                check(*state, points, counts[i], queries, rows[j], ks[(i + j) % COUNT(ks)],
                      j % 2 == 0);
                free(queries);
                free(points);
            }
        }
    }
}

static void large_clouds(void **state) {
    static cloud_fn *const large[] = {cube, two_dense_clusters, outlier, mostly_finite, lattice};
    for (size_t c = 0; c < COUNT(large); ++c) {
        float *points = cloud(large[c], 50000), *queries = cloud(large[c], 7001);
        check(*state, points, 50000, NULL, 0, 3, false);
        check(*state, points, 50000, queries, 7001, 40, true);
        free(queries);
        free(points);
    }
}

static void same_bits_for_any_threads(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 7}, some_ks[] = {3, 100};
    const int64_t count = 6000; /* enough for a parallel sort */
    for (size_t c = 0; c < COUNT(clouds); ++c) {
        for (size_t j = 0; j < COUNT(some_ks); ++j) {
            float *points = cloud(clouds[c], count), *queries = cloud(clouds[c], 500);
            const int k = some_ks[j];
            answer first[2] = {{0}};
            for (size_t t = 0; t < COUNT(threads); ++t) {
                gsc_context *context = open_context(threads[t]);
                answer a[2] = {find(context, points, count, NULL, 0, k, true),
                               find(context, points, count, queries, 500, k, true)};
                for (int i = 0; i < 2; ++i) {
                    if (t == 0) {
                        first[i] = a[i];
                        continue;
                    }
                    size_t rows = (size_t)a[i].rows, cells = rows * (size_t)k;
                    assert_memory_equal(a[i].indices, first[i].indices, cells * 8);
                    assert_memory_equal(a[i].distances2, first[i].distances2, cells * 4);
                    assert_memory_equal(a[i].mean2, first[i].mean2, rows * 4);
                    free_answer(&a[i]);
                }
                gsc_context_free(context);
            }
            for (int i = 0; i < 2; ++i) free_answer(&first[i]);
            free(queries);
            free(points);
        }
    }
}

static double time_of(gsc_context *context, cloud_fn *fn, int64_t n) {
    float *points = cloud(fn, n);
    double start = gsc__clock_seconds();
    answer a = find(context, points, n, NULL, 0, 3, false);
    double taken = gsc__clock_seconds() - start;
    free_answer(&a);
    free(points);
    return taken;
}

/* Quadratic time would take thousands of times as long. */
static void hard_clouds_take_no_quadratic_time(void **state) {
    static cloud_fn *const hard[] = {one_place, seven_places,       thousand_places, lattice,
                                     plane,     two_dense_clusters, outlier,         line};
    const int64_t n = 300000;
    double usual = time_of(*state, cube, n);
    for (size_t i = 0; i < COUNT(hard); ++i) {
        double taken = time_of(*state, hard[i], n);
        if (taken > 20 * usual)
            fail_msg("cloud %zu took %.3f s, uniform points %.3f s", i, taken, usual);
    }
}

static void any_output_may_be_missing(void **state) {
    float *points = cloud(cube, 100);
    answer a = find(*state, points, 100, NULL, 0, 4, false);
    int64_t points_shape[] = {100, 3}, table_shape[] = {100, 4};
    float values[400];
    DLTensor in = tensor(points, kDLFloat, 32, 2, points_shape);
    DLTensor mean2 = tensor(values, kDLFloat, 32, 1, points_shape);
    DLTensor distances2 = tensor(values, kDLFloat, 32, 2, table_shape);
    GSC_INIT(gsc_knn_args, args);
    args.k = 4;
    args.points = &in;
    args.mean2 = &mean2;
    expect_ok(gsc_knn(*state, &args, NULL));
    assert_memory_equal(values, a.mean2, 100 * sizeof *values);
    args.mean2 = NULL;
    args.distances2 = &distances2;
    expect_ok(gsc_knn(*state, &args, NULL));
    assert_memory_equal(values, a.distances2, 400 * sizeof *values);
    free_answer(&a);
    free(points);
}

static void memory_is_bounded(void **state) {
    int64_t shape[] = {10000000, 3};
    DLTensor in = tensor(NULL, kDLFloat, 32, 2, shape);
    size_t bytes;
    GSC_INIT(gsc_knn_args, args);
    args.points = &in;
    expect_ok(gsc_knn_scratch_bytes(*state, &args, &bytes));
    assert_true(bytes <= 40 * (size_t)shape[0]);
}

static int open_two_threads(void **state) {
    *state = open_context(2);
    return 0;
}

static int close_context(void **state) {
    gsc_context_free(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_among_themselves),
        cmocka_unit_test(queries_apart),
        cmocka_unit_test(large_clouds),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(hard_clouds_take_no_quadratic_time),
        cmocka_unit_test(any_output_may_be_missing),
        cmocka_unit_test(memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, open_two_threads, close_context);
}
