#include "commands.h"
#include "describe.h"
#include "failure.h"
#include "options.h"

const char info_help[] =
    "usage: gsplat-c info [--json] [SCENE.ply]\n"
    "\n"
    "Describes a scene: the number of Gaussians, the degree of their colours, bounds and\n"
    "typical sizes.  Without a scene: the version, how the library was built, and the\n"
    "devices of this machine.\n"
    "\n"
    "  --json      print JSON\n"
    "  -h, --help  print this text\n";

int info_command(int argc, char **argv) {
    bool json = false, help = false;
    const char *path = NULL;
    const struct option table[] = {
        {"json", 0, OPTION_FLAG, &json, 0, 0},
        {"help", 'h', OPTION_FLAG, &help, 0, 0},
    };
    int code = options_read(argc, argv, table, sizeof table / sizeof *table, &path);
    if (code != EXIT_OK) return code;
    if (help) {
        fputs(info_help, stdout);
        return EXIT_OK;
    }
    cJSON *tree = NULL;
    gaussians scene;
    if (!path) {
        tree = describe_library();
    } else if (gaussians_read(&scene, path)) {
        tree = describe_scene(&scene, path);
        gaussians_free(&scene);
    }
    if (!tree) return EXIT_RUNTIME;
    bool printed = true;
    if (json)
        printed = print_json(tree);
    else
        print_lines(tree, 0);
    cJSON_Delete(tree);
    return printed ? EXIT_OK : EXIT_RUNTIME;
}
