#include "process.h"

#include <dlfcn.h>
#include <tlhelp32.h>

int process_threads(void) {
    HANDLE threads = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
    THREADENTRY32 entry = {.dwSize = sizeof entry};
    int count = 0;
    for (BOOL more = Thread32First(threads, &entry); more; more = Thread32Next(threads, &entry))
        count += entry.th32OwnerProcessID == GetCurrentProcessId();
    CloseHandle(threads);
    return count;
}

bool process_maps(const char *path) {
    wchar_t full[MAX_PATH];
    return GetModuleHandleW(full_path(path, full)) != NULL;
}

typedef struct handle_entry {
    void *object;
    ULONG_PTR process, handle;
    ULONG access;
    USHORT trace, type;
    ULONG attributes, reserved;
} handle_entry;

typedef struct handle_table {
    ULONG_PTR count, reserved;
    handle_entry entries[1];
} handle_table;

typedef LONG WINAPI query_fn(int what, void *data, ULONG size, ULONG *needed);

/* Lists and counts the handles of the whole system: GetProcessHandleCount returns 0 under Wine. */
int process_handles(void) {
    enum { EXTENDED_HANDLE_INFORMATION = 64, SIZE = 64 << 20 };
    void *address = dlsym(GetModuleHandleW(L"ntdll.dll"), "NtQuerySystemInformation");
    query_fn *query;
    ULONG needed;
    memcpy(&query, &address, sizeof query);
    handle_table *table = VirtualAlloc(NULL, SIZE, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    int count = -1;
    if (table && query(EXTENDED_HANDLE_INFORMATION, table, SIZE, &needed) == 0) {
        count = 0;
        for (ULONG_PTR i = 0; i < table->count; i++)
            count += table->entries[i].process == GetCurrentProcessId();
    }
    VirtualFree(table, 0, MEM_RELEASE);
    return count;
}
