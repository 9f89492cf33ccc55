/* The commands of gsplat-c.  Each returns EXIT_OK, or EXIT_RUNTIME or EXIT_USAGE with the
 * reason in failure_text(). */
#ifndef GSPLAT_C_TOOLS_COMMANDS_H
#define GSPLAT_C_TOOLS_COMMANDS_H

int render_command(int argc, char **argv);
int info_command(int argc, char **argv);
int bench_command(int argc, char **argv);

extern const char render_help[], info_help[], bench_help[];

#endif
