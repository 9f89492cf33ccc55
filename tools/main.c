/* gsplat-c: renders, describes and times trained Gaussian scenes from the shell. */
#include "host.h"
#include "options.h"
#include "text.h"

#include "gsplat_c.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char main_help[] =
    "usage: gsplat-c COMMAND [options]\n"
    "\n"
    "Renders, describes and times 3D Gaussian splatting scenes: the point_cloud.ply and\n"
    "cameras.json that training writes.\n"
    "\n"
    "  render   render a scene to PNG pictures\n"
    "  info     describe a scene, or this library and machine\n"
    "  bench    time the library's operations on this machine\n"
    "\n"
    "  gsplat-c COMMAND --help   explain a command and its options\n"
    "  gsplat-c --version        print the version\n"
    "\n"
    "Try: gsplat-c render point_cloud.ply -o picture.png\n"
    "\n"
    "Exit status: 0 on success, 1 on failure (a file is missing or broken, out of memory),\n"
    "2 if the command line is wrong.\n";

static const struct {
    const char *name, *help;
    command_id command;
    int (*run)(const command_options *options);
} commands[] = {
    {"render", render_help, COMMAND_RENDER, render_command},
    {"info", info_help, COMMAND_INFO, info_command},
    {"bench", bench_help, COMMAND_BENCH, bench_command},
};

static int run(int argc, char **argv) {
    const char *word = argc > 1 ? argv[1] : NULL;
    if (!word) return fail_usage("which command? (see 'gsplat-c --help')");
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        fputs(main_help, stdout);
        return EXIT_OK;
    }
    if (strcmp(word, "--version") == 0) {
        printf("gsplat-c %s\n", gsc_version());
        return EXIT_OK;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(word, commands[i].name) != 0) continue;
        command_options options;
        int code = options_read(&options, commands[i].command, argc, argv);
        if (code != EXIT_OK) return code;
        if (!options.help) return commands[i].run(&options);
        fputs(commands[i].help, stdout);
        return EXIT_OK;
    }
    return fail_usage("%s: no such command (see 'gsplat-c --help')", word);
}

int main(int argc, char **argv) {
    host_use_utf8();
    int code = run(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == EXIT_OK) {
        fail("cannot write to standard output: %s", strerror(errno));
        code = EXIT_RUNTIME;
    }
    if (code != EXIT_OK) print_line(stderr, "gsplat-c: %s", failure_text());
    return code;
}
