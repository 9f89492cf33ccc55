/* Reader of golden cases: what other implementations returned for given inputs,
 * CASE.json (parameters and a list of arrays) beside CASE.bin (their data). */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include "scene.h"

#define GOLDEN_MAX_ARRAYS 48
#define GOLDEN_MAX_CASES 256
#define GOLDEN_NAME 96

typedef struct golden_array {
    char name[GOLDEN_NAME];
    bool integers; /* int32; otherwise float32 */
    int ndim;
    int64_t shape[4];
    size_t count;
    const void *data; /* into the case's own memory */
} golden_array;

typedef struct golden_case {
    char name[GOLDEN_NAME];
    void *manifest; /* cJSON */
    char *bytes;
    int array_count;
    golden_array arrays[GOLDEN_MAX_ARRAYS];
} golden_case;

/* The folder of the cases: $GSPLAT_C_GOLDEN, or else the one set when the test was built. */
const char *golden_folder(void);
/* Lists the cases in the folder that begin with one of the prefixes (NULL after the last), sorted.
 * Returns their number. */
int golden_list(const char *const *prefixes, char names[GOLDEN_MAX_CASES][GOLDEN_NAME]);

/* False, with a message on stderr, if the case is missing or damaged. */
bool golden_open(golden_case *c, const char *name);
void golden_close(golden_case *c);

/* NULL if there is none. */
const golden_array *golden_find(const golden_case *c, const char *name);
/* A copy in double precision, NULL if there is no such array; to be freed. */
double *golden_reals(const golden_case *c, const char *name);
int32_t *golden_ints(const golden_case *c, const char *name);
/* Parameters of the manifest; fallback where one is missing or null. */
double golden_number(const golden_case *c, const char *key, double fallback);
const char *golden_string(const golden_case *c, const char *key);
bool golden_flag(const golden_case *c, const char *key);

/* The inputs of a rasterizer case, in the library's form. */
void golden_scene(const golden_case *c, scene *s);
/* The recorded outputs, under the library's names. */
void golden_frame(const golden_case *c, const scene *s, frame *f);
/* The upstream gradients of the case.  For an expected depth, depth / alpha, the
 * images in f (of the case or of a rasterizer) turn them into those of depth and alpha. */
void golden_upstream(const golden_case *c, const scene *s, const frame *f, gradients *g);
/* The recorded gradients. */
void golden_gradients(const golden_case *c, const scene *s, gradients *g);

#endif
