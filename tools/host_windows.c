#define WIN32_LEAN_AND_MEAN

#include "host.h"

#include <direct.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <windows.h>

/* gsplat-c.manifest makes UTF-8 the code page of arguments and paths, but not of the console. */
void host_use_utf8(void) {
    SetConsoleOutputCP(CP_UTF8);
}

bool host_is_terminal(FILE *file) {
    DWORD mode; /* _isatty is also true for the null device */
    return GetConsoleMode((HANDLE)_get_osfhandle(_fileno(file)), &mode) != 0;
}

void host_write_binary(FILE *file) {
    _setmode(_fileno(file), _O_BINARY);
}

/* _stat fails on a directory's name that ends with a separator. */
bool host_is_directory(const char *path) {
    DWORD attributes = GetFileAttributesA(path);
    return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY);
}

bool host_is_separator(char c) {
    return c == '/' || c == '\\';
}

static bool identify(const char *path, BY_HANDLE_FILE_INFORMATION *file) {
    HANDLE handle = CreateFileA(path, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                                NULL, OPEN_EXISTING, 0, NULL);
    if (handle == INVALID_HANDLE_VALUE) return false;
    bool good = GetFileInformationByHandle(handle, file) != 0;
    CloseHandle(handle);
    return good;
}

bool host_same_file(const char *a, const char *b) {
    BY_HANDLE_FILE_INFORMATION first, second;
    return identify(a, &first) && identify(b, &second) &&
           first.dwVolumeSerialNumber == second.dwVolumeSerialNumber &&
           first.nFileIndexHigh == second.nFileIndexHigh &&
           first.nFileIndexLow == second.nFileIndexLow;
}

bool host_make_one_directory(const char *path) {
    if (path[0] && path[strlen(path) - 1] == ':') return true; /* a drive */
    return _mkdir(path) == 0 || errno == EEXIST;
}

char *host_real_path(const char *path) {
    return _strdup(path);
}

int64_t host_process_id(void) {
    return (int64_t)GetCurrentProcessId();
}

FILE *host_create_file(const char *path) {
    int file = _open(path, _O_CREAT | _O_EXCL | _O_WRONLY | _O_BINARY, _S_IREAD | _S_IWRITE);
    return file < 0 ? NULL : _fdopen(file, "wb");
}

bool host_replace_file(const char *from, const char *to) {
    if (MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING)) return true;
    errno = EACCES;
    return false;
}

void host_remove_when_killed(const char *path) {
    (void)path;
}
