#define _WIN32_WINNT 0x0602 /* Windows 8 */
#define WIN32_LEAN_AND_MEAN

#include "system.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

_Static_assert(sizeof(gsc__mutex) == sizeof(SRWLOCK), "a lock is a pointer");
_Static_assert(sizeof(gsc__condition) == sizeof(CONDITION_VARIABLE), "a condition is a pointer");
_Static_assert(sizeof(gsc__once) == sizeof(INIT_ONCE), "a once is a pointer");

/* ---------------------------------------------------------------------- text */

/* The caller frees it; NULL if there is no memory or text is not UTF-8. */
static wchar_t *wide_from_utf8(const char *text) {
    int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *wide = length > 0 ? malloc((size_t)length * sizeof *wide) : NULL;
    if (wide) MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, length);
    return wide;
}

static char *utf8_from_wide(const wchar_t *wide) {
    int size = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
    char *text = size > 0 ? malloc((size_t)size) : NULL;
    if (text) WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, size, NULL, NULL);
    return text;
}

/* ------------------------------------------------------------------- threads */

void gsc__mutex_init(gsc__mutex *mutex) {
    InitializeSRWLock((SRWLOCK *)mutex);
}

void gsc__mutex_destroy(gsc__mutex *mutex) {
    (void)mutex;
}

void gsc__mutex_lock(gsc__mutex *mutex) {
    AcquireSRWLockExclusive((SRWLOCK *)mutex);
}

void gsc__mutex_unlock(gsc__mutex *mutex) {
    ReleaseSRWLockExclusive((SRWLOCK *)mutex);
}

void gsc__condition_init(gsc__condition *condition) {
    InitializeConditionVariable((CONDITION_VARIABLE *)condition);
}

void gsc__condition_destroy(gsc__condition *condition) {
    (void)condition;
}

void gsc__condition_wait(gsc__condition *condition, gsc__mutex *mutex) {
    SleepConditionVariableSRW((CONDITION_VARIABLE *)condition, (SRWLOCK *)mutex, INFINITE, 0);
}

void gsc__condition_broadcast(gsc__condition *condition) {
    WakeAllConditionVariable((CONDITION_VARIABLE *)condition);
}

static BOOL CALLBACK run_once(INIT_ONCE *once, void *run, void **context) {
    (void)once;
    (void)context;
    (*(void (**)(void))run)();
    return TRUE;
}

void gsc__once_run(gsc__once *once, void (*run)(void)) {
    InitOnceExecuteOnce((INIT_ONCE *)once, run_once, &run, NULL);
}

/* A thread needs the loader's lock to end.  A host that frees a context while it holds that lock,
 * as destructors of a library's globals do, would wait for the thread forever.  So it waits for
 * `run` to return, and then only as long as an exit takes.  The thread holds a reference to the
 * module whose code it executes. */
struct gsc__thread {
    HANDLE handle;
    HANDLE done; /* event: run has returned */
    HMODULE module;
    volatile LONG owners; /* the thread and its starter; the last one frees this */
    void (*run)(void *arg);
    void *arg;
};

static void release_thread(gsc__thread *thread) {
    if (InterlockedDecrement(&thread->owners) != 0) return;
    CloseHandle(thread->done);
    free(thread);
}

static DWORD WINAPI thread_main(void *data) {
    gsc__thread *thread = data;
    HMODULE module = thread->module;
    thread->run(thread->arg);
    SetEvent(thread->done);
    release_thread(thread);
    FreeLibraryAndExitThread(module, 0);
}

gsc__thread *gsc__thread_start(void (*run)(void *arg), void *arg) {
    enum { STACK_BYTES = 2 << 20 }; /* the operations keep tiles on the stack */
    static const wchar_t here[] = L"any address in the module names it";
    gsc__thread *thread = calloc(1, sizeof *thread);
    if (!thread) return NULL;
    thread->owners = 2;
    thread->run = run;
    thread->arg = arg;
    thread->done = CreateEventW(NULL, TRUE, FALSE, NULL);
    if (thread->done &&
        GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, here, &thread->module)) {
        thread->handle = CreateThread(NULL, STACK_BYTES, thread_main, thread,
                                      STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
        if (thread->handle) return thread;
        FreeLibrary(thread->module);
    }
    if (thread->done) CloseHandle(thread->done);
    free(thread);
    return NULL;
}

/* At the end of a process the system has already ended the thread: then its handle is signalled. */
void gsc__thread_join(gsc__thread *thread) {
    enum { EXIT_MILLISECONDS = 100 };
    const HANDLE either[] = {thread->done, thread->handle};
    WaitForMultipleObjects(2, either, FALSE, INFINITE);
    WaitForSingleObject(thread->handle, EXIT_MILLISECONDS);
    gsc__thread_abandon(thread);
}

void gsc__thread_abandon(gsc__thread *thread) {
    CloseHandle(thread->handle);
    release_thread(thread);
}

void gsc__thread_pause(void) {
    YieldProcessor();
}

/* ------------------------------------------------------------ a thread's data */

/* Fiber-local storage: unlike the compiler's, it calls back when a thread ends and, for all
 * threads at once, when the index is freed.  So nothing remains if the library is unloaded before
 * the threads that used it end. */
static gsc__once storage_once = GSC__ONCE_INIT;
static DWORD storage_index = FLS_OUT_OF_INDEXES;

static void WINAPI free_storage(void *storage) {
    free(storage);
}

/* In a library, atexit functions run when it is unloaded. */
static void give_up_index(void) {
    DWORD index = storage_index;
    storage_index = FLS_OUT_OF_INDEXES;
    FlsFree(index);
}

static void take_index(void) {
    storage_index = FlsAlloc(free_storage);
    if (storage_index != FLS_OUT_OF_INDEXES && atexit(give_up_index) != 0) give_up_index();
}

void *gsc__thread_storage(void) {
    gsc__once_run(&storage_once, take_index);
    if (storage_index == FLS_OUT_OF_INDEXES) return NULL;
    void *storage = FlsGetValue(storage_index);
    if (storage) return storage;
    storage = calloc(1, GSC__THREAD_STORAGE_BYTES);
    if (storage && FlsSetValue(storage_index, storage)) return storage;
    free(storage);
    return NULL;
}

/* ------------------------------------------------------------------- process */

int64_t gsc__fork_generation(void) {
    return 1; /* nothing forks */
}

/* Processors of the groups that the process's threads run in: before Windows 11 one group, since
 * then all; within a single group those allowed by the affinity. */
static int affinity_count(void) {
    USHORT groups[64], count = sizeof groups / sizeof groups[0];
    DWORD_PTR process = 0, system = 0;
    if (!GetProcessGroupAffinity(GetCurrentProcess(), &count, groups)) count = 0;
    if (count <= 1 && GetProcessAffinityMask(GetCurrentProcess(), &process, &system) && process) {
        int processors = 0;
        for (; process; process &= process - 1) ++processors;
        return processors;
    }
    if (count == 0) return (int)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    int processors = 0;
    for (USHORT i = 0; i < count; ++i) processors += (int)GetActiveProcessorCount(groups[i]);
    return processors;
}

/* The limit of a container, in whole processors; 0: none. */
static int quota_count(void) {
    JOBOBJECT_CPU_RATE_CONTROL_INFORMATION rate;
    const DWORD cap = JOB_OBJECT_CPU_RATE_CONTROL_ENABLE | JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP;
    if (!QueryInformationJobObject(NULL, JobObjectCpuRateControlInformation, &rate, sizeof rate,
                                   NULL) ||
        (rate.ControlFlags & cap) != cap) {
        return 0;
    }
    int64_t processors = (int64_t)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return (int)((processors * rate.CpuRate + 9999) / 10000);
}

int gsc__cpu_count(void) {
    int count = affinity_count(), quota = quota_count();
    if (quota > 0 && quota < count) count = quota;
    return count > 0 ? count : 1;
}

int64_t gsc__memory_bytes(void) {
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    int64_t bytes = GlobalMemoryStatusEx(&memory) ? (int64_t)memory.ullTotalPhys : 0;
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION job;
    if (!QueryInformationJobObject(NULL, JobObjectExtendedLimitInformation, &job, sizeof job, NULL))
        return bytes;
    const DWORD flags = job.BasicLimitInformation.LimitFlags;
    if ((flags & JOB_OBJECT_LIMIT_PROCESS_MEMORY) &&
        (bytes == 0 || job.ProcessMemoryLimit < (size_t)bytes))
        bytes = (int64_t)job.ProcessMemoryLimit;
    if ((flags & JOB_OBJECT_LIMIT_JOB_MEMORY) && (bytes == 0 || job.JobMemoryLimit < (size_t)bytes))
        bytes = (int64_t)job.JobMemoryLimit;
    return bytes;
}

double gsc__clock_seconds(void) {
    LARGE_INTEGER ticks, frequency;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&frequency);
    return (double)ticks.QuadPart / (double)frequency.QuadPart;
}

/* Asks the system: every C runtime has its own copy of the environment, and a host with another
 * runtime, such as Python, only changes its own. */
char *gsc__environment(const char *name) {
    wchar_t *wide_name = wide_from_utf8(name);
    DWORD size = wide_name ? GetEnvironmentVariableW(wide_name, NULL, 0) : 0;
    wchar_t *wide = size > 1 ? malloc(size * sizeof *wide) : NULL;
    DWORD length = wide ? GetEnvironmentVariableW(wide_name, wide, size) : 0;
    char *value = length > 0 && length < size ? utf8_from_wide(wide) : NULL;
    free(wide);
    free(wide_name);
    return value;
}

/* -------------------------------------------------------------------- memory */

void *gsc__aligned_alloc(size_t bytes, size_t alignment) {
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    return _aligned_malloc(bytes ? bytes : 1, alignment);
}

void gsc__aligned_free(void *data) {
    _aligned_free(data);
}

/* ------------------------------------------------------------------ libraries */

static void describe_error(DWORD code, const char *path, char *error, size_t error_size) {
    wchar_t wide[256];
    DWORD length = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL,
                                  code, 0, wide, sizeof wide / sizeof wide[0], NULL);
    while (length > 0 && wcschr(L" .\r\n", wide[length - 1])) --length;
    wide[length] = L'\0';
    char *text = length > 0 ? utf8_from_wide(wide) : NULL;
    snprintf(error, error_size, "%s: %s (error %lu)", path, text ? text : "cannot be loaded", code);
    free(text);
}

/* A bare name means a system library, wherever the program was started.  A path is made absolute,
 * since the search for dependencies is only defined for absolute paths. */
static HMODULE load_library(const wchar_t *path) {
    if (!wcspbrk(path, L"/\\")) return LoadLibraryExW(path, NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    DWORD size = GetFullPathNameW(path, 0, NULL, NULL);
    wchar_t *full = size > 0 ? malloc(size * sizeof *full) : NULL;
    if (!full) return NULL;
    HMODULE library = NULL;
    if (GetFullPathNameW(path, size, full, NULL) < size) {
        library = LoadLibraryExW(
            full, NULL, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
    }
    DWORD code = GetLastError();
    free(full);
    SetLastError(code);
    return library;
}

/* Without this error mode a damaged file would open a dialog box in the host. */
void *gsc__library_open(const char *path, char *error, size_t error_size) {
    DWORD mode = 0, code = ERROR_INVALID_NAME;
    HMODULE library = NULL;
    wchar_t *wide = wide_from_utf8(path);
    if (wide) {
        SetThreadErrorMode(SEM_FAILCRITICALERRORS | SEM_NOOPENFILEERRORBOX, &mode);
        library = load_library(wide);
        code = GetLastError();
        SetThreadErrorMode(mode, NULL);
        free(wide);
    }
    if (!library && error_size > 0) describe_error(code, path, error, error_size);
    return library;
}

void *gsc__library_symbol(void *library, const char *name) {
    FARPROC function = GetProcAddress(library, name);
    void *address;
    memcpy(&address, &function, sizeof address);
    return address;
}

void gsc__library_close(void *library) {
    FreeLibrary(library);
}
