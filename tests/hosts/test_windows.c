/* Specific to Windows: names outside the code page, handles, the loader lock, the environment. */

#include "fixture.h"

#include <fenv.h>

enum { THREADS = 3 };

static wchar_t
    folder[MAX_PATH]; /* in the temporary folder; no code page has all characters of its name */

static int make_folder(void **state) {
    wchar_t temporary[MAX_PATH];
    (void)state;
    GetTempPathW(MAX_PATH, temporary);
    _snwprintf(folder, MAX_PATH, L"%lsgsplat_c %lu \x015d\x0416\x65e5\x672c", temporary,
               GetCurrentProcessId());
    return CreateDirectoryW(folder, NULL) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    return RemoveDirectoryW(folder) ? 0 : -1; /* fails if the folder is not empty */
}

/* Copies a file into that folder; the UTF-8 path is valid until the next call. */
static const char *copy_of(const char *path, wchar_t copy[MAX_PATH]) {
    static char text[4 * MAX_PATH];
    wchar_t full[MAX_PATH];
    _snwprintf(copy, MAX_PATH, L"%ls\\\x00e9.dll", folder);
    assert_true(CopyFileW(full_path(path, full), copy, TRUE));
    assert_true(WideCharToMultiByte(CP_UTF8, 0, copy, -1, text, sizeof text, NULL, NULL) > 0);
    return text;
}

/* A library that is loaded cannot be deleted. */
static void loaded_from_a_folder_with_any_name(void **state) {
    wchar_t copy[MAX_PATH];
    opened_library library;
    (void)state;
    assert_true(library_open(&library, copy_of(LIBRARY, copy), RTLD_NOW));
    gsc_context *context = library_context(&library, THREADS);
    assert_int_not_equal(library_work(&library, context), 0);
    library.gsc_context_free(context);
    assert_true(library_close(&library));
    assert_true(DeleteFileW(copy));
}

static DWORD WINAPI use(void *arg) {
    opened_library *library = arg;
    gsc_context *context = library_context(library, THREADS);
    bool good = library_work(library, context) != 0 && library_complains(library);
    library->gsc_context_free(context);
    return good;
}

static void use_on_threads(void) {
    opened_library library;
    HANDLE users[2];
    DWORD good = 0;
    assert_true(library_open(&library, LIBRARY, RTLD_NOW));
    assert_true(use(&library));
    for (int i = 0; i < 2; i++) users[i] = CreateThread(NULL, 0, use, &library, 0, NULL);
    for (int i = 0; i < 2; i++) {
        WaitForSingleObject(users[i], INFINITE);
        assert_true(GetExitCodeThread(users[i], &good) && good == 1);
        CloseHandle(users[i]);
    }
    assert_true(library_close(&library));
    assert_false(process_maps(LIBRARY));
}

static void no_handle_stays(void **state) {
    (void)state;
    use_on_threads(); /* the system has opened its permanent handles */
    int handles = process_handles();
    assert_true(handles > 0);
    for (int round = 0; round < 10; round++) use_on_threads();
    assert_int_equal(process_handles(), handles);
}

/* Slots of thread-local and fiber-local storage are few. */
typedef struct slots {
    DWORD thread, fiber;
} slots;

static slots next_slots(void) {
    slots next = {TlsAlloc(), FlsAlloc(NULL)};
    TlsFree(next.thread);
    FlsFree(next.fiber);
    return next;
}

static void no_slot_stays(void **state) {
    slots before = next_slots();
    (void)state;
    for (int round = 0; round < 10; round++) {
        opened_library library;
        assert_true(library_open(&library, LIBRARY, RTLD_NOW));
        assert_true(library_complains(&library));
        assert_true(library_close(&library));
        slots after = next_slots();
        assert_int_equal(after.thread, before.thread);
        assert_int_equal(after.fiber, before.fiber);
    }
}

static void freed_under_the_loaders_lock(void **state) {
    opened_library library;
    void (*keep)(gsc_context *, void (*)(gsc_context *));
    (void)state;
    int threads = process_threads();
    assert_true(library_open(&library, LIBRARY, RTLD_NOW));
    void *plugin = dlopen(path_in("GSC_TEST_PLUGIN"), RTLD_NOW);
    assert_non_null(plugin);
    void *address = dlsym(plugin, "plugin_keep");
    memcpy(&keep, &address, sizeof keep);
    gsc_context *context = library_context(&library, THREADS);
    assert_int_not_equal(library_work(&library, context), 0);
    assert_int_equal(process_threads(), threads + THREADS - 1);
    keep(context, library.gsc_context_free);
    assert_int_equal(dlclose(plugin), 0);
    assert_true(library_close(&library));
    assert_int_equal(process_threads_settle(threads), threads);
    for (int wait = 0; process_maps(LIBRARY) && wait < 2000; wait++) Sleep(1);
    assert_false(process_maps(LIBRARY));
}

/* -------------------------------------------------------------------- environment */

/* Set without the C runtime, as a host with another C runtime does. */
static void environment_of_the_system(void **state) {
    opened_library library;
    char report[4096];
    size_t size = sizeof report;
    (void)state;
    assert_true(library_open(&library, LIBRARY, RTLD_NOW));
    SetEnvironmentVariableW(L"GSC_CPU_ISA", L"baseline");
    assert_int_equal(library.gsc_device_report_json((DLDevice){kDLCPU, 0}, report, &size), GSC_OK);
    assert_non_null(strstr(report, "\"isa\":\"baseline\""));
    SetEnvironmentVariableW(L"GSC_CPU_ISA", NULL);
    assert_true(library_close(&library));
}

static void driver_in_a_folder_with_any_name(void **state) {
    opened_library library;
    wchar_t copy[MAX_PATH];
    int32_t count = 0;
    (void)state;
    if (!getenv("GSC_CUDA_LIBRARY")) skip();
    copy_of(path_in("GSC_CUDA_LIBRARY"), copy);
    SetEnvironmentVariableW(L"GSC_CUDA_LIBRARY", copy);
    assert_true(library_open(&library, LIBRARY, RTLD_NOW));
    assert_int_equal(library.gsc_device_count(kDLCUDA, &count), GSC_OK);
    assert_true(count > 0);
    assert_true(library_close(&library));
    while (FreeLibrary(GetModuleHandleW(copy))) continue; /* a driver stays open */
    assert_true(DeleteFileW(copy));
}

static void driver_that_is_not_there(void **state) {
    opened_library library;
    char path[4 * MAX_PATH], report[64];
    size_t size = sizeof report;
    (void)state;
    if (!getenv("GSC_CUDA_LIBRARY")) skip();
    SetEnvironmentVariableW(L"GSC_CUDA_LIBRARY", folder);
    WideCharToMultiByte(CP_UTF8, 0, folder, -1, path, sizeof path, NULL, NULL);
    assert_true(library_open(&library, LIBRARY, RTLD_NOW));
    assert_int_equal(library.gsc_device_report_json((DLDevice){kDLCUDA, 0}, report, &size),
                     GSC_ERROR_NO_DRIVER);
    const char *named = strstr(library.gsc_last_error(), path);
    assert_non_null(named);
    assert_non_null(strstr(named, " (error "));
    assert_true(library_close(&library));
}

/* Programs of Microsoft's compiler run the x87 unit at 53 bits, those of mingw-w64 at 64. */
static void same_at_any_precision_of_the_x87(void **state) {
    opened_library library;
    (void)state;
    assert_true(library_open(&library, LIBRARY, RTLD_NOW));
    gsc_context *context = library_context(&library, THREADS);
    fesetenv(FE_PC64_ENV);
    uint64_t expected = library_work(&library, context);
    fesetenv(FE_PC53_ENV);
    assert_int_equal(library_work(&library, context), expected);
    fesetenv(FE_DFL_ENV);
    library.gsc_context_free(context);
    assert_true(library_close(&library));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loaded_from_a_folder_with_any_name),
        cmocka_unit_test(no_handle_stays),
        cmocka_unit_test(no_slot_stays),
        cmocka_unit_test(freed_under_the_loaders_lock),
        cmocka_unit_test(environment_of_the_system),
        cmocka_unit_test(driver_in_a_folder_with_any_name),
        cmocka_unit_test(driver_that_is_not_there),
        cmocka_unit_test(same_at_any_precision_of_the_x87),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
