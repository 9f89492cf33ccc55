/* gpu_compile: compiles a device-only .cu file to one image, with NVRTC.
 *
 *     gpu_compile NVRTC_LIBRARY NVFATBIN_LIBRARY ARCH INPUT OUTPUT [-Idir] [-Dname=value] ..
 *
 * ARCH sm_90 writes a cubin, compute_90 writes PTX; with NVFATBIN_LIBRARY, which may be
 * "", in a fat binary that the driver unpacks.  Both are opened at run time, so that building
 * the library needs neither nvcc nor an installed toolkit. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct nvrtc_program *program;

typedef struct nvrtc {
    int (*create)(program *, const char *source, const char *name, int headers,
                  const char *const *texts, const char *const *names);
    int (*compile)(program, int options, const char *const *texts);
    int (*log_size)(program, size_t *);
    int (*log)(program, char *);
    int (*cubin_size)(program, size_t *);
    int (*cubin)(program, char *);
    int (*ptx_size)(program, size_t *);
    int (*ptx)(program, char *);
} nvrtc;

static int fail(const char *what, const char *detail) {
    fprintf(stderr, "gpu_compile: %s: %s\n", what, detail);
    return 1;
}

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) exit(fail("NVRTC has no symbol", name));
    return found;
}

static void load(const char *path, nvrtc *api) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) exit(fail("cannot open NVRTC", dlerror()));
    *(void **)&api->create = symbol(library, "nvrtcCreateProgram");
    *(void **)&api->compile = symbol(library, "nvrtcCompileProgram");
    *(void **)&api->log_size = symbol(library, "nvrtcGetProgramLogSize");
    *(void **)&api->log = symbol(library, "nvrtcGetProgramLog");
    *(void **)&api->cubin_size = symbol(library, "nvrtcGetCUBINSize");
    *(void **)&api->cubin = symbol(library, "nvrtcGetCUBIN");
    *(void **)&api->ptx_size = symbol(library, "nvrtcGetPTXSize");
    *(void **)&api->ptx = symbol(library, "nvrtcGetPTX");
}

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) exit(fail("cannot read", path));
    size_t size = 0, capacity = 1 << 16;
    char *text = malloc(capacity);
    for (size_t got; text && (got = fread(text + size, 1, capacity - size - 1, file)) > 0;) {
        size += got;
        if (size + 1 == capacity) text = realloc(text, capacity *= 2);
    }
    fclose(file);
    if (!text) exit(fail("out of memory reading", path));
    text[size] = '\0';
    return text;
}

static int write_image(const char *path, const char *image, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file) return fail("cannot write", path);
    size_t written = fwrite(image, 1, size, file);
    if (fclose(file) != 0 || written != size) return fail("cannot write", path);
    return 0;
}

static void print_log(const nvrtc *api, program code) {
    size_t size = 0;
    if (api->log_size(code, &size) != 0 || size < 2) return;
    char *text = malloc(size);
    if (text && api->log(code, text) == 0) fputs(text, stderr);
    free(text);
}

typedef struct nvfatbin {
    int (*create)(void **, const char *const *options, size_t count);
    int (*add_ptx)(void *, const char *text, size_t size, const char *arch, const char *name,
                   const char *options);
    int (*add_cubin)(void *, const void *cubin, size_t size, const char *arch, const char *name);
    int (*size)(void *, size_t *);
    int (*get)(void *, void *);
} nvfatbin;

static void load_packer(const char *path, nvfatbin *api) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) exit(fail("cannot open nvFatbin", dlerror()));
    *(void **)&api->create = symbol(library, "nvFatbinCreate");
    *(void **)&api->add_ptx = symbol(library, "nvFatbinAddPTX");
    *(void **)&api->add_cubin = symbol(library, "nvFatbinAddCubin");
    *(void **)&api->size = symbol(library, "nvFatbinSize");
    *(void **)&api->get = symbol(library, "nvFatbinGet");
}

/* Replaces the image by a compressed one.  The size of PTX includes its NUL. */
static int pack(const char *library, const char *arch, bool ptx, char **image, size_t *size) {
    static const char *const options[] = {"-64", "-compress=true", "-compress-all"};
    const char *number = strchr(arch, '_') + 1;
    nvfatbin api;
    void *packer;
    size_t packed_size = 0;
    load_packer(library, &api);
    int status = api.create(&packer, options, 3);
    if (status == 0 && ptx) status = api.add_ptx(packer, *image, *size, number, arch, "");
    if (status == 0 && !ptx) status = api.add_cubin(packer, *image, *size, number, arch);
    if (status == 0) status = api.size(packer, &packed_size);
    char *packed = malloc(packed_size ? packed_size : 1);
    if (status == 0 && packed) status = api.get(packer, packed);
    if (status != 0 || !packed) {
        free(packed);
        return fail("nvFatbin does not pack", arch);
    }
    free(*image);
    *image = packed;
    *size = packed_size;
    return 0;
}

static int compile(const nvrtc *api, const char *packer, const char *arch, const char *input,
                   const char *output, int extra, char **extras) {
    const bool ptx = strncmp(arch, "compute_", 8) == 0;
    char arch_option[64];
    const char *options[64] = {arch_option, "--std=c++17",   "-default-device",
                               "-restrict", "-DGSC_IMAGE=1", "--extra-device-vectorization"};
    int count = 6;
    snprintf(arch_option, sizeof arch_option, "--gpu-architecture=%s", arch);
    for (int i = 0; i < extra && count < 64; ++i) options[count++] = extras[i];
    program code;
    char *source = read_text(input);
    const int created = api->create(&code, source, input, 0, NULL, NULL);
    free(source); /* NVRTC has copied it */
    if (created != 0) return fail("cannot make a program of", input);
    int status = api->compile(code, count, options);
    print_log(api, code);
    if (status != 0) return fail("compilation failed", input);
    size_t size = 0;
    status = ptx ? api->ptx_size(code, &size) : api->cubin_size(code, &size);
    char *image = malloc(size ? size : 1);
    if (status == 0 && image) status = ptx ? api->ptx(code, image) : api->cubin(code, image);
    const bool made = status == 0 && image && size > 0;
    if (made && packer[0] && pack(packer, arch, ptx, &image, &size) != 0) return 1;
    status = made ? write_image(output, image, size) : fail("no image for", arch);
    free(image);
    return status;
}

int main(int count, char **arguments) {
    if (count < 6)
        return fail("usage",
                    "NVRTC_LIBRARY NVFATBIN_LIBRARY ARCH INPUT OUTPUT [-Idir] [-Dname] ..");
    nvrtc api;
    load(arguments[1], &api);
    return compile(&api, arguments[2], arguments[3], arguments[4], arguments[5], count - 6,
                   arguments + 6);
}
