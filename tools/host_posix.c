#define _XOPEN_SOURCE 700

#include "host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void host_use_utf8(void) {}

double host_clock_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

bool host_is_terminal(FILE *file) {
    return isatty(fileno(file)) == 1;
}

void *host_aligned_alloc(size_t bytes, size_t alignment) {
    void *data;
    return posix_memalign(&data, alignment, bytes ? bytes : 1) == 0 ? data : NULL;
}

void host_aligned_free(void *data) {
    free(data);
}

bool host_is_directory(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool host_is_separator(char c) {
    return c == '/';
}

long host_process_id(void) {
    return (long)getpid();
}

bool host_make_one_directory(const char *path) {
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

char *host_real_path(const char *path) {
    char *target = realpath(path, NULL);
    return target ? target : strdup(path);
}

FILE *host_create_file(const char *path) {
    return fopen(path, "wbx");
}

bool host_replace_file(const char *from, const char *to) {
    return rename(from, to) == 0;
}
