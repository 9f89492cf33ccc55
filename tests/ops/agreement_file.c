#include "agreement_file.h"

#include "compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Precedes the values of each array, which are floats in the machine's byte order. */
typedef struct header {
    char name[64];
    uint64_t count;
} header;

bool agreement_open(agreement_file *file, const char *path, bool writes) {
    *file = (agreement_file){.stream = fopen(path, writes ? "wb" : "rb"), .writes = writes};
    if (!file->stream) fprintf(stderr, "%s: cannot be opened\n", path);
    return file->stream != NULL;
}

bool agreement_close(agreement_file *file) {
    if (!file->writes && !file->lost && fgetc(file->stream) != EOF) {
        fprintf(stderr, "the file has arrays that this program does not compute\n");
        file->wrong++;
    }
    if (ferror(file->stream) || fclose(file->stream)) {
        fprintf(stderr, "the file could not be %s\n", file->writes ? "written" : "read");
        file->wrong++;
    }
    if (!file->writes)
        printf("%d of %d arrays differ; worst: relative L2 %.2e, largest %.2e\n", file->wrong,
               file->compared, file->relative, file->largest);
    return file->wrong == 0;
}

static double *lose(agreement_file *file, const char *what, const char *problem) {
    fprintf(stderr, "%s, %s: %s\n", file->scene, what, problem);
    file->wrong++;
    file->lost = true;
    return NULL;
}

/* The values of the other build, or NULL. */
static double *read_array(agreement_file *file, const header *expected, const char *what) {
    header found;
    if (fread(&found, sizeof found, 1, file->stream) != 1 ||
        memcmp(&found, expected, sizeof found) != 0) {
        return lose(file, what, "the file has no such array here");
    }
    double *values = reals_alloc((size_t)found.count);
    bool whole = true;
    for (size_t i = 0; whole && i < found.count; i++) {
        float value;
        whole = fread(&value, sizeof value, 1, file->stream) == 1;
        if (whole) values[i] = (double)value;
    }
    if (whole) return values;
    free(values);
    return lose(file, what, "the file ends within it");
}

static void compare_array(agreement_file *file, const char *what, const double *got,
                          const double *wanted, size_t count, double tolerance) {
    comparison c = compare_reals(got, wanted, count, tolerance);
    double highest = 0;
    for (size_t i = 0; i < count; i++) highest = fmax(highest, fabs(wanted[i]));
    if (highest > 0) c.largest /= highest;
    c.good = c.good && c.largest <= tolerance;
    file->compared++;
    file->wrong += compare_report(file->scene, what, c);
    file->relative = fmax(file->relative, c.relative);
    file->largest = fmax(file->largest, c.largest);
}

static void write_or_compare(agreement_file *file, const char *what, const double *values,
                             size_t count, double tolerance) {
    header own = {.count = count};
    if (!values) return;
    snprintf(own.name, sizeof own.name, "%s, %s", file->scene, what);
    if (file->writes) {
        fwrite(&own, sizeof own, 1, file->stream);
        for (size_t i = 0; i < count; i++) {
            const float value = (float)values[i];
            fwrite(&value, sizeof value, 1, file->stream);
        }
        return;
    }
    double *wanted = file->lost ? NULL : read_array(file, &own, what);
    if (wanted) compare_array(file, what, values, wanted, count, tolerance);
    free(wanted);
}

void agreement_reals(agreement_file *file, const char *what, const double *values, size_t count) {
    write_or_compare(file, what, values, count, AGREEMENT_TOLERANCE);
}

void agreement_inputs(agreement_file *file, const char *what, const double *values, size_t count) {
    write_or_compare(file, what, values, count, 0);
}

void agreement_ints(agreement_file *file, const char *what, const int32_t *values, size_t count) {
    double *reals = reals_alloc(count);
    for (size_t i = 0; values && i < count; i++) reals[i] = values[i];
    write_or_compare(file, what, values ? reals : NULL, count, 0);
    free(reals);
}
