#include "output_path.h"

#include "failure.h"
#include "host.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static char *format_text(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (!text) {
        fail("no memory for a file name");
        return NULL;
    }
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

static bool ends_with(const char *text, size_t length, const char *end) {
    size_t size = strlen(end);
    if (length < size) return false;
    for (size_t i = 0; i < size; i++)
        if (tolower((unsigned char)text[length - size + i]) != end[i]) return false;
    return true;
}

/* Length of a path without its last extension. */
static size_t stem_length(const char *path) {
    const char *name = host_file_name(path), *dot = strrchr(name, '.');
    return dot && dot > name ? (size_t)(dot - path) : strlen(path);
}

/* Image names come from a file: whatever they hold, the picture stays in its directory, has a
 * name that every system can write, and one extension. */
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

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool find_repeated_names(output_paths *paths, const camera_list *cameras) {
    char **names = calloc(cameras->count, sizeof *names);
    if (!names) return fail("no memory for the file names");
    bool good = true;
    for (size_t i = 0; good && i < cameras->count; i++)
        good = (names[i] = file_name(cameras->items[i].name)) != NULL;
    if (good) qsort(names, cameras->count, sizeof *names, compare_names);
    for (size_t i = 1; good && i < cameras->count; i++)
        paths->with_index |= strcmp(names[i - 1], names[i]) == 0;
    for (size_t i = 0; i < cameras->count; i++) free(names[i]);
    free(names);
    return good;
}

bool output_paths_open(output_paths *paths, const char *output, const char *scene_path,
                       const camera_list *cameras) {
    memset(paths, 0, sizeof *paths);
    bool several = cameras->count > 1;
    char *named = NULL; /* after the scene */
    if (!output) {
        const char *name = host_file_name(scene_path);
        output = named = format_text("%.*s.png", (int)stem_length(name), name);
        if (!named) return false;
    }
    size_t length = strlen(output);
    bool ends_open = length > 0 && host_is_separator(output[length - 1]);
    bool directory =
        host_is_directory(output) || ends_open || (several && !ends_with(output, length, ".png"));
    bool good = true;
    if (directory) {
        good = host_make_directory(output);
        if (good) paths->base = format_text("%s%s", output, ends_open ? "" : "/");
    } else if (several) {
        paths->base = format_text("%.*s-", (int)(length - strlen(".png")), output);
    } else {
        paths->whole = true;
        paths->base = format_text("%s", output);
    }
    free(named);
    if (good && paths->base && find_repeated_names(paths, cameras)) return true;
    output_paths_close(paths);
    return false;
}

char *output_path(const output_paths *paths, const struct camera *camera, size_t index) {
    if (paths->whole) return format_text("%s", paths->base);
    char *name = file_name(camera->name), *path = NULL;
    if (name && paths->with_index)
        path = format_text("%s%s-%05zu.png", paths->base, name, index);
    else if (name)
        path = format_text("%s%s.png", paths->base, name);
    free(name);
    return path;
}

char *depth_path(const char *path) {
    size_t length = strlen(path);
    if (ends_with(path, length, ".png")) length -= strlen(".png");
    return format_text("%.*s-depth.png", (int)length, path);
}

void output_paths_close(output_paths *paths) {
    free(paths->base);
    memset(paths, 0, sizeof *paths);
}
