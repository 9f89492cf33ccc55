/* Everything that depends on the operating system.  One .c file per system implements it
 * (system_posix.c, system_windows.c); no other file includes a system header.  All texts are
 * UTF-8. */
#ifndef GSC_SYSTEM_H
#define GSC_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
typedef struct {
    void *handle;
} gsc__mutex; /* SRWLOCK */
typedef struct {
    void *handle;
} gsc__condition; /* CONDITION_VARIABLE */
typedef struct {
    void *handle;
} gsc__once; /* INIT_ONCE */
#define GSC__ONCE_INIT \
    { 0 }
void gsc__mutex_init(gsc__mutex *mutex);
void gsc__mutex_destroy(gsc__mutex *mutex);
void gsc__mutex_lock(gsc__mutex *mutex);
void gsc__mutex_unlock(gsc__mutex *mutex);
void gsc__condition_init(gsc__condition *condition);
void gsc__condition_destroy(gsc__condition *condition);
void gsc__condition_wait(gsc__condition *condition, gsc__mutex *mutex);
void gsc__condition_broadcast(gsc__condition *condition);
/* The first caller runs the function; the others return when it is done. */
void gsc__once_run(gsc__once *once, void (*run)(void));
#else
#include <pthread.h>
typedef pthread_mutex_t gsc__mutex;
typedef pthread_cond_t gsc__condition;
typedef pthread_once_t gsc__once;
#define GSC__ONCE_INIT PTHREAD_ONCE_INIT
#define gsc__mutex_init(mutex) pthread_mutex_init(mutex, NULL)
#define gsc__mutex_destroy pthread_mutex_destroy
#define gsc__mutex_lock pthread_mutex_lock
#define gsc__mutex_unlock pthread_mutex_unlock
#define gsc__condition_init(condition) pthread_cond_init(condition, NULL)
#define gsc__condition_destroy pthread_cond_destroy
#define gsc__condition_wait pthread_cond_wait
#define gsc__condition_broadcast pthread_cond_broadcast
#define gsc__once_run pthread_once
#endif

typedef struct gsc__thread gsc__thread;
/* NULL if the system cannot start a thread.  Signals are blocked in it, except those of its own
 * faults. */
gsc__thread *gsc__thread_start(void (*run)(void *arg), void *arg);
void gsc__thread_join(gsc__thread *thread);
/* Forgets a thread that a fork left behind in the parent. */
void gsc__thread_abandon(gsc__thread *thread);

/* Memory of this thread, zeroed at first, freed with the thread; NULL if there is no memory. */
enum { GSC__THREAD_STORAGE_BYTES = 520 };
void *gsc__thread_storage(void);

/* One step of a short busy wait. */
void gsc__thread_pause(void);

/* Positive.  A child of fork has another number than each process that it descends from, which
 * cannot be said of a process id: namespaces repeat them. */
int64_t gsc__fork_generation(void);
/* Processors that this process may use, at least 1. */
int gsc__cpu_count(void);
/* Bytes of memory that this process may use, as far as the system reports; 0: unknown. */
int64_t gsc__memory_bytes(void);
double gsc__clock_seconds(void); /* monotonic */
/* A copy, to be freed, of an environment variable; NULL if it is not set, or empty. */
char *gsc__environment(const char *name);

/* alignment: a power of two.  NULL if there is no memory; bytes may be 0. */
void *gsc__aligned_alloc(size_t bytes, size_t alignment);
void gsc__aligned_free(void *data);

/* A shared library.  On failure NULL, and error holds the system's text. */
void *gsc__library_open(const char *path, char *error, size_t error_size);
void *gsc__library_symbol(void *library, const char *name);
void gsc__library_close(void *library);

#endif
