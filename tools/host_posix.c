#define _XOPEN_SOURCE 700

#include "host.h"
#include "text.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void host_use_utf8(void) {}

bool host_is_terminal(FILE *file) {
    return isatty(fileno(file)) == 1;
}

void host_write_binary(FILE *file) {
    (void)file;
}

bool host_is_directory(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool host_same_file(const char *a, const char *b) {
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

bool host_is_separator(char c) {
    return c == '/';
}

bool host_make_one_directory(const char *path) {
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

/* realpath() fails if nothing is there yet: then links are followed one by one. */
char *host_real_path(const char *path) {
    enum { MAX_LINKS = 40 };
    char *target = realpath(path, NULL);
    if (target) return target;
    target = strdup(path);
    for (int links = 0; target && links < MAX_LINKS; links++) {
        char link[4096];
        ssize_t length = readlink(target, link, sizeof link);
        if (length < 0 || (size_t)length == sizeof link) break;
        const char *slash = link[0] == '/' ? NULL : strrchr(target, '/');
        const size_t folder = slash ? (size_t)(slash + 1 - target) : 0;
        char *next = format_text("%.*s%.*s", (int)folder, target, (int)length, link);
        free(target);
        target = next;
    }
    return target;
}

int64_t host_process_id(void) {
    return (int64_t)getpid();
}

FILE *host_create_file(const char *path) {
    return fopen(path, "wbx");
}

bool host_replace_file(const char *from, const char *to) {
    return rename(from, to) == 0;
}

static const char *volatile unfinished;

static void on_kill(int number) {
    if (unfinished) unlink(unfinished);
    raise(number); /* ends the process: the handler is the default one again */
}

void host_remove_when_killed(const char *path) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    static bool installed;
    unfinished = path;
    if (installed) return;
    installed = true;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction action;
        if (sigaction(signals[i], NULL, &action) != 0 || action.sa_handler == SIG_IGN) continue;
        memset(&action, 0, sizeof action);
        action.sa_handler = on_kill;
        action.sa_flags = (int)SA_RESETHAND;
        sigaction(signals[i], &action, NULL);
    }
}
