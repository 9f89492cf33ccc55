/* The options of all commands: --name VALUE, --name=VALUE, or -n VALUE for some. */
#ifndef GSPLAT_C_TOOLS_OPTIONS_H
#define GSPLAT_C_TOOLS_OPTIONS_H

#include "gsplat_c.h"

#include <stdbool.h>

enum { MAX_SIDE = 16384, MAX_RUNS = 10000 }; /* longest side of an image, pixels; --repeat */

/* Bits: an option may belong to several commands. */
typedef enum command_id { COMMAND_RENDER = 1, COMMAND_INFO = 2, COMMAND_BENCH = 4 } command_id;

/* Zero or NULL where an option is not given, but for sh_degree and device. */
typedef struct command_options {
    const char *scene_path, *output, *operation;
    const char *cameras; /* path of cameras.json */
    const char *camera;  /* name, number or "all" */
    int32_t size[2];     /* width, height */
    int32_t gaussians, repeat, threads;
    int32_t sh_degree; /* -1: the scene's */
    DLDevice device;
    float background[3];
    bool antialias, compat, depth, json, help;
} command_options;

/* Reads argv[2..]: argv[1] is the command's name.  A word that is not an option is the
 * scene's path; there may be one.  EXIT_OK, or EXIT_USAGE after fail_usage(). */
int options_read(command_options *options, command_id command, int argc, char **argv);

/* The commands.  Each returns EXIT_OK, or EXIT_RUNTIME or EXIT_USAGE with the reason in
 * failure_text(). */
int render_command(const command_options *options);
int info_command(const command_options *options);
int bench_command(const command_options *options);
extern const char render_help[], info_help[], bench_help[];

/* A whole number and nothing else. */
bool read_whole_number(const char *text, int32_t low, int32_t high, int32_t *value);

#endif
