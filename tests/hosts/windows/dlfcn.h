/* The part of dlfcn.h that the tests use, implemented for Windows: paths are UTF-8, and
 * dependencies are searched as Python's ctypes does. */
#ifndef TESTS_HOSTS_DLFCN_H
#define TESTS_HOSTS_DLFCN_H

#include <stdio.h>
#include <string.h>
#include <windows.h>

enum { RTLD_NOW = 0, RTLD_LOCAL = 0, RTLD_GLOBAL = 0 }; /* there are no global names */

/* The full path in UTF-16. */
static inline const wchar_t *full_path(const char *path, wchar_t full[MAX_PATH]) {
    wchar_t wide[MAX_PATH];
    full[0] = 0;
    if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, MAX_PATH) > 0)
        GetFullPathNameW(wide, MAX_PATH, full, NULL);
    return full;
}

static inline void *dlopen(const char *path, int mode) {
    wchar_t full[MAX_PATH];
    (void)mode;
    return LoadLibraryExW(full_path(path, full), NULL,
                          LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
}

static inline void *dlsym(void *library, const char *name) {
    FARPROC function = GetProcAddress(library, name);
    void *address;
    memcpy(&address, &function, sizeof address);
    return address;
}

static inline int dlclose(void *library) {
    return FreeLibrary(library) ? 0 : -1;
}

static inline const char *dlerror(void) {
    static char text[64];
    snprintf(text, sizeof text, "LoadLibraryEx: error %lu", GetLastError());
    return text;
}

#endif
