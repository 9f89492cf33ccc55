/* The commands of gsplat-c.  Each returns EXIT_OK, or EXIT_RUNTIME or EXIT_USAGE with the
 * reason in failure_text(). */
#ifndef GSPLAT_C_TOOLS_COMMANDS_H
#define GSPLAT_C_TOOLS_COMMANDS_H

#include "options.h"

int render_command(const command_options *options);
int info_command(const command_options *options);
int bench_command(const command_options *options);

extern const char render_help[], info_help[], bench_help[];

#endif
