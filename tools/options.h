/* The options of a command: --name VALUE, --name=VALUE, or -n VALUE for some. */
#ifndef GSPLAT_C_TOOLS_OPTIONS_H
#define GSPLAT_C_TOOLS_OPTIONS_H

#include "gsplat_c.h"

#include <stdbool.h>

/* Longest side of an image, pixels. */
enum { MAX_SIDE = 16384 };

typedef enum option_kind {
    OPTION_FLAG,   /* bool *: no value */
    OPTION_TEXT,   /* const char ** */
    OPTION_NUMBER, /* int32_t *: low to high */
    OPTION_SIZE,   /* int32_t [2]: WIDTHxHEIGHT, 1 to MAX_SIDE each */
    OPTION_COLOR,  /* float [3]: R,G,B, each 0 to 1 */
    OPTION_DEVICE  /* DLDevice *: cpu, cuda or cuda:N */
} option_kind;

struct option {
    const char *name; /* without dashes */
    char letter;      /* of the short form; 0: none */
    option_kind kind;
    void *target; /* keeps its value where the option is not given */
    int32_t low, high;
};

/* Reads argv[2..]: argv[1] is the command's name.  What is not an option goes to
 * *operand, of which there may be one.  EXIT_OK or EXIT_USAGE after fail_usage(). */
int options_read(int argc, char **argv, const struct option *options, size_t count,
                 const char **operand);

/* A whole number and nothing else. */
bool read_whole_number(const char *text, int32_t low, int32_t high, int32_t *value);

#endif
