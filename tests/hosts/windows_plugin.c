/* A plugin that frees its context on unloading, with the loader lock held, as a global C++ object
 * does. */
#include "gsplat_c.h"

#include <windows.h>

typedef void free_fn(gsc_context *context);

static gsc_context *kept;
static free_fn *free_kept;

__declspec(dllexport) void plugin_keep(gsc_context *context, free_fn *free_context);
void plugin_keep(gsc_context *context, free_fn *free_context) {
    kept = context;
    free_kept = free_context;
}

BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, void *reserved);
BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, void *reserved) {
    (void)module;
    (void)reserved;
    if (reason == DLL_PROCESS_DETACH && kept) free_kept(kept);
    return TRUE;
}
