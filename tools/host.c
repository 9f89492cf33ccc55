#define _XOPEN_SOURCE 700

#include "host.h"

#include "failure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

double host_clock_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

bool host_is_terminal(FILE *file) {
    return isatty(fileno(file)) == 1;
}

bool host_is_directory(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool host_make_directory(const char *path) {
    char *prefix = strdup(path);
    if (!prefix) return fail("%s: out of memory", path);
    bool made = true;
    size_t length = strlen(prefix);
    for (size_t i = 1; made && i <= length; i++) {
        if (prefix[i] != '/' && i != length) continue;
        char end = prefix[i];
        prefix[i] = '\0';
        made = mkdir(prefix, 0777) == 0 || errno == EEXIST;
        if (!made) fail("%s: cannot make this directory: %s", prefix, strerror(errno));
        prefix[i] = end;
    }
    free(prefix);
    if (made && !host_is_directory(path)) return fail("%s: is not a directory", path);
    return made;
}

FILE *host_open_file(const char *path, int64_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        fail("%s: cannot open: %s", path, strerror(errno));
        return NULL;
    }
    struct stat status;
    if (fstat(fileno(file), &status) != 0) {
        fail("%s: %s", path, strerror(errno));
    } else if (S_ISDIR(status.st_mode)) {
        fail("%s: is a directory", path);
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

/* Whether something is there that a rename must not replace, like /dev/null. */
static bool is_special(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

static void output_release(output_file *file) {
    free(file->path);
    free(file->temporary);
    memset(file, 0, sizeof *file);
}

bool output_open(output_file *file, const char *path) {
    memset(file, 0, sizeof *file);
    if (host_is_directory(path)) return fail("%s: is a directory", path);
    char *target = realpath(path, NULL); /* a rename would replace a symbolic link */
    file->path = target ? target : strdup(path);
    const char *opened = file->path;
    if (file->path && !is_special(path)) {
        size_t size = strlen(file->path) + 32;
        file->temporary = malloc(size);
        if (file->temporary)
            snprintf(file->temporary, size, "%s.%ld.part", file->path, (long)getpid());
        opened = file->temporary;
    }
    if (!opened) {
        output_release(file);
        return fail("%s: out of memory", path);
    }
    file->stream = fopen(opened, file->temporary ? "wbx" : "wb");
    if (file->stream) return true;
    fail("%s: cannot write: %s", path, strerror(errno));
    output_release(file);
    return false;
}

bool output_close(output_file *file, bool complete) {
    bool done = complete;
    if (fclose(file->stream) != 0 && done)
        done = fail("%s: cannot write: %s", file->path, strerror(errno));
    if (file->temporary) {
        if (done && rename(file->temporary, file->path) != 0)
            done = fail("%s: cannot put the file in place: %s", file->path, strerror(errno));
        if (!done) remove(file->temporary);
    }
    output_release(file);
    return done;
}
