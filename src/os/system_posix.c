#if defined(__linux__)
#define _GNU_SOURCE /* sched_getaffinity, madvise */
#else
#define _POSIX_C_SOURCE 200809L
#define _DARWIN_C_SOURCE
#endif

#include "system.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#endif

/* ------------------------------------------------------------------- threads */

struct gsc__thread {
    pthread_t handle;
    void (*run)(void *arg);
    void *arg;
};

static void *thread_main(void *data) {
    gsc__thread *thread = data;
    thread->run(thread->arg);
    return NULL;
}

/* Some C libraries default to 128 KiB; the operations keep tiles on the stack. */
static void raise_stack_size(pthread_attr_t *attributes) {
    const size_t wanted = (size_t)2 << 20;
    size_t size;
    if (pthread_attr_getstacksize(attributes, &size) == 0 && size < wanted)
        pthread_attr_setstacksize(attributes, wanted);
}

/* Blocks every signal but those that an instruction of the thread itself raises: were these blocked,
 * the system would end the process without calling the host's handler. */
static void block_signals(sigset_t *before) {
    static const int own[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
    sigset_t others;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; ++i) sigdelset(&others, own[i]);
    pthread_sigmask(SIG_SETMASK, &others, before);
}

/* A new thread inherits the signal mask: blocking signals around the start leaves no moment in
 * which the host's handlers of other signals could run on it. */
gsc__thread *gsc__thread_start(void (*run)(void *arg), void *arg) {
    gsc__thread *thread = malloc(sizeof *thread);
    if (!thread) return NULL;
    thread->run = run;
    thread->arg = arg;

    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) {
        free(thread);
        return NULL;
    }
    raise_stack_size(&attributes);
    sigset_t before;
    block_signals(&before);
    int failure = pthread_create(&thread->handle, &attributes, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (failure) {
        free(thread);
        return NULL;
    }
    return thread;
}

void gsc__thread_join(gsc__thread *thread) {
    pthread_join(thread->handle, NULL);
    free(thread);
}

void gsc__thread_abandon(gsc__thread *thread) {
    free(thread);
}

void gsc__thread_pause(void) {
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
    __asm__ volatile("pause");
#elif defined(__GNUC__) && defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ------------------------------------------------------------ a thread's data */

/* Nothing to allocate and nothing to free. */
void *gsc__thread_storage(void) {
    static _Thread_local _Alignas(max_align_t) char storage[GSC__THREAD_STORAGE_BYTES];
    return storage;
}

/* ------------------------------------------------------------------- process */

static pthread_once_t generation_once = PTHREAD_ONCE_INIT;
static int64_t generation = 1;

/* In the child, while it has a single thread. */
static void next_generation(void) {
    ++generation;
}

/* The C library forgets the handler when it unloads this library. */
static void watch_forks(void) {
    pthread_atfork(NULL, NULL, next_generation);
}

int64_t gsc__fork_generation(void) {
    pthread_once(&generation_once, watch_forks);
    return generation;
}

#if defined(__linux__)
/* 0 if unknown. */
static int affinity_count(void) {
    for (int most = 1024; most <= 1 << 20; most *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)most);
        if (!set) return 0;
        size_t size = CPU_ALLOC_SIZE((size_t)most);
        int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0) return count;
    }
    return 0;
}

/* The limit of a container, in whole processors; 0: none. */
static int quota_count(void) {
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!file) return 0;
    long long quota, period;
    int read = fscanf(file, "%lld %lld", &quota, &period);
    fclose(file);
    if (read != 2 || quota <= 0 || period <= 0) return 0;
    long long count = (quota + period - 1) / period;
    return count < 1 << 20 ? (int)count : 0;
}
#endif

int gsc__cpu_count(void) {
    int count = 0;
#if defined(__linux__)
    count = affinity_count();
    int quota = quota_count();
    if (quota > 0 && quota < count) count = quota;
#endif
    if (count <= 0) count = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? count : 1;
}

int64_t gsc__memory_bytes(void) {
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);
    int64_t bytes = pages > 0 && page > 0 ? (int64_t)pages * page : 0;
#if defined(__linux__)
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "re");
    if (file) {
        long long limit;
        if (fscanf(file, "%lld", &limit) == 1 && limit > 0 && (bytes == 0 || limit < bytes))
            bytes = limit;
        fclose(file);
    }
#endif
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY &&
        (bytes == 0 || space.rlim_cur < (rlim_t)bytes)) {
        bytes = (int64_t)space.rlim_cur;
    }
    return bytes;
}

double gsc__clock_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

char *gsc__environment(const char *name) {
    const char *value = getenv(name);
    return value && *value ? strdup(value) : NULL;
}

/* -------------------------------------------------------------------- memory */

/* The kernel hands out blocks of many megabytes afresh every time, and page faults can cost as
 * much as the work on them; huge pages make these 512 times rarer. */
void *gsc__aligned_alloc(size_t bytes, size_t alignment) {
    const size_t huge_page = (size_t)2 << 20;
    bool huge = bytes >= 4 * huge_page;
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    if (huge && alignment < huge_page) alignment = huge_page;
    void *data;
    if (posix_memalign(&data, alignment, bytes ? bytes : 1) != 0) return NULL;
#if defined(__linux__)
    if (huge) (void)madvise(data, bytes / huge_page * huge_page, MADV_HUGEPAGE);
#endif
    return data;
}

void gsc__aligned_free(void *data) {
    free(data);
}

/* ------------------------------------------------------------------ libraries */

void *gsc__library_open(const char *path, char *error, size_t error_size) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library && error_size > 0) {
        const char *text = dlerror();
        snprintf(error, error_size, "%s", text ? text : "unknown error");
    }
    return library;
}

void *gsc__library_symbol(void *library, const char *name) {
    return dlsym(library, name);
}

void gsc__library_close(void *library) {
    dlclose(library);
}
