/* A file of named arrays that one build computed, for comparison with another build. */
#ifndef TESTS_AGREEMENT_FILE_H
#define TESTS_AGREEMENT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define AGREEMENT_TOLERANCE 1e-6

/* Written or, in the same order, compared with. */
typedef struct agreement_file {
    FILE *stream;
    bool writes, lost; /* lost: the rest of the file cannot be read */
    const char *scene; /* prefix of each array's name */
    int compared, wrong;
    double relative, largest; /* the worst of all arrays */
} agreement_file;

/* False, with a message on stderr, if it cannot be opened. */
bool agreement_open(agreement_file *file, const char *path, bool writes);
/* False, with a message on stderr, if arrays differ, are missing or could not be written. */
bool agreement_close(agreement_file *file);

/* float32 values that must be close: the relative L2 norm of the difference, and the largest
 * difference relative to the largest value, are at most AGREEMENT_TOLERANCE.  Does nothing for
 * NULL. */
void agreement_reals(agreement_file *file, const char *what, const double *values, size_t count);
/* Values that must be equal. */
void agreement_inputs(agreement_file *file, const char *what, const double *values, size_t count);
void agreement_ints(agreement_file *file, const char *what, const int32_t *values, size_t count);

#endif
