#include "output_path.h"

#include "failure.h"
#include "host.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *text, size_t length, const char *end) {
    size_t size = strlen(end);
    if (length < size) return false;
    for (size_t i = 0; i < size; i++)
        if (tolower((unsigned char)text[length - size + i]) != end[i]) return false;
    return true;
}

/* Image names come from a file.  Whatever they contain, the picture stays in its directory and has
 * one extension and a name that every system accepts. */
static char *file_name(const char *camera_name) {
    static const char *const extensions[] = {".png", ".jpg", ".jpeg"};
    size_t length = strlen(camera_name);
    for (size_t i = 0; i < 3; i++)
        if (length > strlen(extensions[i]) && ends_with(camera_name, length, extensions[i])) {
            length -= strlen(extensions[i]);
            break;
        }
    if (length > 128) length = 128;
    char *name = format_text("%.*s", (int)length, camera_name);
    for (char *c = name; name && *c; c++)
        if (strchr("/\\<>:\"|?*", *c) || (unsigned char)*c < 0x20 || *c == 0x7f) *c = '_';
    if (name && *name == '.') *name = '_';
    return name;
}

/* Whether two cameras give the same file, and so need their numbers in its name. */
static bool find_repeated_files(const camera_list *cameras, bool *repeated) {
    char **names = calloc(cameras->count, sizeof *names);
    if (!names) return fail("no memory for the file names");
    bool good = true;
    for (size_t i = 0; good && i < cameras->count; i++)
        good = (names[i] = file_name(cameras->items[i].name)) != NULL;
    *repeated = good && find_repeated(names, cameras->count);
    for (size_t i = 0; i < cameras->count; i++) free(names[i]);
    free(names);
    return good;
}

static bool name_pictures(camera_list *cameras, const char *base) {
    bool repeated = false;
    if (!find_repeated_files(cameras, &repeated)) return false;
    for (size_t i = 0; i < cameras->count; i++) {
        struct camera *camera = &cameras->items[i];
        char *name = file_name(camera->name);
        if (name)
            camera->picture = repeated ? format_text("%s%s-%05zu.png", base, name, i)
                                       : format_text("%s%s.png", base, name);
        free(name);
        if (!camera->picture) return false;
    }
    return true;
}

bool output_paths(camera_list *cameras, const char *output, const char *scene_path) {
    const bool several = cameras->count > 1;
    char *made = NULL; /* from the scene's name */
    if (!output) {
        const char *name = host_file_name(scene_path), *dot = strrchr(name, '.');
        size_t stem = dot && dot > name ? (size_t)(dot - name) : strlen(name);
        output = made = format_text("%.*s.png", (int)stem, name);
        if (!made) return false;
    }
    const size_t length = strlen(output);
    const bool ends_open = length > 0 && host_is_separator(output[length - 1]);
    char *base = NULL;
    if (host_is_directory(output) || ends_open || (several && !ends_with(output, length, ".png"))) {
        if (host_make_directory(output)) base = format_text("%s%s", output, ends_open ? "" : "/");
    } else if (several) {
        base = format_text("%.*s-", (int)(length - strlen(".png")), output);
    } else {
        cameras->items[0].picture = format_text("%s", output);
    }
    bool good = base ? name_pictures(cameras, base) : cameras->items[0].picture != NULL;
    free(base);
    free(made);
    return good;
}

char *depth_path(const char *path) {
    size_t length = strlen(path);
    if (ends_with(path, length, ".png")) length -= strlen(".png");
    return format_text("%.*s-depth.png", (int)length, path);
}
