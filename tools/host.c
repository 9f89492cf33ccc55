#define _POSIX_C_SOURCE 200809L /* fileno */

#include "host.h"

#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

const char *host_file_name(const char *path) {
    const char *name = path;
    for (; *path; path++)
        if (host_is_separator(*path)) name = path + 1;
    return name;
}

bool host_make_directory(const char *path) {
    size_t length = strlen(path);
    char *prefix = malloc(length + 1);
    if (!prefix) return fail("%s: out of memory", path);
    memcpy(prefix, path, length + 1);
    bool made = true;
    for (size_t i = 1; made && i <= length; i++) {
        if (!host_is_separator(path[i]) && i != length) continue;
        prefix[i] = '\0';
        made = host_make_one_directory(prefix);
        if (!made) fail("%s: cannot make this directory: %s", prefix, strerror(errno));
        prefix[i] = path[i];
    }
    free(prefix);
    if (made && !host_is_directory(path)) return fail("%s: is not a directory", path);
    return made;
}

FILE *host_open_file(const char *path, int64_t *bytes) {
    if (host_is_directory(path)) {
        fail("%s: is a directory", path);
        return NULL;
    }
    FILE *file = fopen(path, "rb");
    if (!file) {
        fail("%s: cannot open: %s", path, strerror(errno));
        return NULL;
    }
    struct stat status;
    if (fstat(fileno(file), &status) != 0) {
        fail("%s: %s", path, strerror(errno));
    } else if (!S_ISREG(status.st_mode)) {
        fail("%s: is not a regular file", path);
    } else {
        *bytes = (int64_t)status.st_size;
        return file;
    }
    fclose(file);
    return NULL;
}

char *host_read_text(const char *path, size_t *bytes) {
    int64_t size;
    FILE *file = host_open_file(path, &size);
    if (!file) return NULL;
    char *text = malloc((size_t)size + 1);
    if (!text) {
        fail("%s: no memory for its %lld bytes", path, (long long)size);
    } else {
        *bytes = fread(text, 1, (size_t)size, file);
        text[*bytes] = '\0';
        if (ferror(file)) {
            fail("%s: cannot read: %s", path, strerror(errno));
            free(text);
            text = NULL;
        }
    }
    fclose(file);
    return text;
}
