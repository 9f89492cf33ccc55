#include "output.h"

#include "host.h"
#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ------------------------------------------------------------------- names */

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
    for (char *c = name; name && *c;) {
        size_t bytes = printable_bytes(c);
        if (bytes == 0 || strchr("/\\<>:\"|?*", *c)) *c = '_';
        c += bytes ? bytes : 1;
    }
    if (name && *name == '.') *name = '_';
    return name;
}

/* "-00012" and the like; nothing where the cameras' names are enough. */
static bool name_picture(struct camera *camera, const char *base, const char *number) {
    char *name = file_name(camera->name);
    free(camera->picture);
    camera->picture = name ? format_text("%s%s%s.png", base, name, number) : NULL;
    free(name);
    return camera->picture != NULL;
}

/* Two cameras may give the same file: then all have their numbers in its name. */
static bool name_pictures(camera_list *cameras, const char *base) {
    struct camera *items = cameras->items;
    const char *repeated;
    for (size_t i = 0; i < cameras->count; i++)
        if (!name_picture(&items[i], base, "")) return false;
    if (!find_repeated(&items->picture, cameras->count, sizeof *items, &repeated)) return false;
    for (size_t i = 0; repeated && i < cameras->count; i++) {
        char number[24];
        snprintf(number, sizeof number, "-%05zu", i);
        if (!name_picture(&items[i], base, number)) return false;
    }
    return true;
}

static bool is_directory_name(const char *output) {
    const size_t length = strlen(output);
    return host_is_directory(output) || (length > 0 && host_is_separator(output[length - 1]));
}

/* With several cameras a name without an extension is a directory. */
static bool name_outputs(camera_list *cameras, const char *output) {
    const size_t length = strlen(output);
    const bool several = cameras->count > 1, png = ends_with(output, length, ".png");
    char *base = NULL;
    if (is_directory_name(output) || (several && !png)) {
        const bool open = host_is_separator(output[length - 1]);
        if (host_make_directory(output)) base = format_text("%s%s", output, open ? "" : "/");
    } else if (several) {
        base = format_text("%.*s-", (int)(length - strlen(".png")), output);
    } else {
        cameras->items[0].picture = format_text("%s", output);
        return cameras->items[0].picture != NULL;
    }
    bool good = base && name_pictures(cameras, base);
    free(base);
    return good;
}

static char *depth_path(const char *path) {
    size_t length = strlen(path);
    if (ends_with(path, length, ".png")) length -= strlen(".png");
    return format_text("%.*s-depth.png", (int)length, path);
}

static int check_path(const char *path, const command_options *options) {
    if (host_same_file(path, options->scene_path))
        return fail_usage("%s: is the scene and would be replaced by a picture", path);
    if (options->cameras && host_same_file(path, options->cameras))
        return fail_usage("%s: is the file of cameras and would be replaced by a picture", path);
    return EXIT_OK;
}

/* Names the pictures of depth too. */
static int check_paths(camera_list *cameras, const command_options *options) {
    char **paths = calloc(2 * cameras->count, sizeof *paths);
    size_t count = 0;
    int code = EXIT_OK;
    if (!paths) fail("no memory for the file names");
    for (size_t i = 0; paths && code == EXIT_OK && i < cameras->count; i++) {
        struct camera *camera = &cameras->items[i];
        paths[count++] = camera->picture;
        code = check_path(camera->picture, options);
        if (code != EXIT_OK || !options->depth) continue;
        paths[count++] = camera->depth_picture = depth_path(camera->picture);
        code = camera->depth_picture ? check_path(camera->depth_picture, options) : EXIT_RUNTIME;
    }
    const char *repeated = NULL;
    if (paths && code == EXIT_OK && !find_repeated(paths, count, sizeof *paths, &repeated))
        code = EXIT_RUNTIME;
    if (repeated) code = fail_usage("%s: would be written twice, for two cameras", repeated);
    free(paths);
    return paths ? code : EXIT_RUNTIME;
}

int output_check(const command_options *options) {
    if (!options->output) return EXIT_OK;
    if (strcmp(options->output, "-") == 0) {
        if (options->depth || (options->camera && strcmp(options->camera, "all") == 0))
            return fail_usage("--output -: standard output takes only one picture");
        return EXIT_OK;
    }
    const char *name = host_file_name(options->output), *extension = strrchr(name, '.');
    if (!extension || extension == name || ends_with(name, strlen(name), ".png") ||
        is_directory_name(options->output))
        return EXIT_OK;
    return fail_usage("--output %s: pictures are .png, not %s (a directory ends in '/')",
                      options->output, extension);
}

int output_paths(camera_list *cameras, const command_options *options) {
    bool good;
    if (options->output) {
        good = name_outputs(cameras, options->output);
    } else {
        const char *name = host_file_name(options->scene_path), *dot = strrchr(name, '.');
        size_t stem = dot && dot > name ? (size_t)(dot - name) : strlen(name);
        char *output = format_text("%.*s.png", (int)stem, name);
        good = output && name_outputs(cameras, output);
        free(output);
    }
    return good ? check_paths(cameras, options) : EXIT_RUNTIME;
}

/* ------------------------------------------------------------------- files */

/* Whether the path names something that a rename must not replace, like /dev/null. */
static bool is_special(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

static void output_release(output_file *file) {
    host_remove_when_killed(NULL);
    free(file->path);
    free(file->temporary);
    memset(file, 0, sizeof *file);
}

bool output_open(output_file *file, const char *path) {
    memset(file, 0, sizeof *file);
    if (strcmp(path, "-") == 0) {
        file->stream = stdout;
        host_write_binary(stdout);
        return true;
    }
    if (host_is_directory(path)) return fail("%s: is a directory", path);
    file->path = host_real_path(path); /* a rename would replace a symbolic link itself */
    const char *opened = file->path;
    if (file->path && !is_special(path)) {
        file->temporary = format_text("%s.%lld.part", file->path, (long long)host_process_id());
        opened = file->temporary;
    }
    if (!opened) {
        output_release(file);
        return fail("%s: out of memory", path);
    }
    host_remove_when_killed(file->temporary);
    file->stream = file->temporary ? host_create_file(opened) : fopen(opened, "wb");
    if (file->stream) return true;
    fail("%s: cannot write: %s", path, strerror(errno));
    output_release(file);
    return false;
}

bool output_close(output_file *file, bool complete) {
    bool done = complete;
    if (file->stream == stdout) return done; /* main() flushes it */
    if (fclose(file->stream) != 0 && done)
        done = fail("%s: cannot write: %s", file->path, strerror(errno));
    if (file->temporary) {
        if (done && !host_replace_file(file->temporary, file->path))
            done = fail("%s: cannot put the file in place: %s", file->path, strerror(errno));
        if (!done) remove(file->temporary);
    }
    output_release(file);
    return done;
}
