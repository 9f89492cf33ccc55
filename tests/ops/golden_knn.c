/* Mean squared distances to the three nearest points against recorded ones, and against
 * all pairs in double precision. */
#include "compare.h"
#include "golden_group.h"
#include "library.h"
#include "tensors.h"

#include <math.h>
#include <stdlib.h>

#define GOLDEN_EPSILON 1e-6 /* relative, of every value */

static gsc_context *context;

static void run(const double *points, size_t count, double *mean2) {
    tensors set = {0};
    const int64_t shape[] = {(int64_t)count, 3};
    GSC_INIT(gsc_knn_args, args);
    args.points = tensors_input(&set, points, 2, shape);
    args.mean2 = tensors_output(&set, mean2, 1, shape);
    expect_ok(gsc_knn(context, &args, NULL));
    tensors_read(args.mean2, mean2);
    assert_true(tensors_guarded(&set));
    tensors_free(&set);
}

static void all_pairs(const double *points, size_t count, double *mean2) {
    for (size_t i = 0; i < count; i++) {
        double best[3] = {INFINITY, INFINITY, INFINITY};
        for (size_t j = 0; j < count; j++) {
            double d2 = 0;
            for (int k = 0; k < 3; k++) {
                double difference = points[3 * i + (size_t)k] - points[3 * j + (size_t)k];
                d2 += difference * difference;
            }
            for (int k = 0; k < 3 && i != j; k++) {
                if (d2 >= best[k]) continue;
                double worse = best[k];
                best[k] = d2;
                d2 = worse;
            }
        }
        mean2[i] = (best[0] + best[1] + best[2]) / 3;
    }
}

/* The largest relative difference, or the value itself where zero is expected. */
static comparison each(const double *got, const double *wanted, size_t count) {
    comparison c = {.good = true};
    for (size_t i = 0; i < count; i++) {
        double scale = wanted[i] > 0 ? wanted[i] : 1;
        double difference = fabs(got[i] - wanted[i]);
        c.largest = fmax(c.largest, difference);
        c.relative = fmax(c.relative, difference / scale);
        if (!(difference <= GOLDEN_EPSILON * scale)) c.good = false;
    }
    return c;
}

static void distances_agree(void **state) {
    const char *name = (const char *)*state;
    golden_case c;
    assert_true(golden_open(&c, name));
    const golden_array *array = golden_find(&c, "in_points");
    assert_non_null(array);
    size_t count = (size_t)array->shape[0];
    double *points = golden_reals(&c, "in_points"), *recorded = golden_reals(&c, "out_meandist2");
    double *got = reals_alloc(count), *exact = reals_alloc(count);
    run(points, count, got);
    all_pairs(points, count, exact);
    int wrong = compare_report(name, "mean2", each(got, recorded, count));
    wrong += compare_report(name, "mean2, all pairs", each(got, exact, count));
    free(points);
    free(recorded);
    free(got);
    free(exact);
    golden_close(&c);
    assert_int_equal(wrong, 0);
}

int main(void) {
    const char *prefixes[] = {"simple_knn_", NULL};
    context = library_context(0);
    int failures = golden_group("golden neighbours", prefixes, distances_agree);
    gsc_context_free(context);
    return failures;
}
