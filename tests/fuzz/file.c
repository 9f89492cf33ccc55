#define _POSIX_C_SOURCE 200809L

#include "file.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[256];

static void remove_file(void) {
    unlink(path);
}

static int open_file(void) {
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/gsplat_c_fuzz_XXXXXX", folder ? folder : "/tmp");
    int file = mkstemp(path);
    if (file < 0) {
        perror(path);
        abort();
    }
    atexit(remove_file);
    return file;
}

const char *fuzz_file(const uint8_t *data, size_t size) {
    static int file = -1;
    if (file < 0) file = open_file();
    if (pwrite(file, data, size, 0) != (ssize_t)size || ftruncate(file, (off_t)size) != 0) {
        perror(path);
        abort();
    }
    return path;
}
