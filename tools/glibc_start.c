/* Called in place of the C library's own loop: see src/os/glibc_floor.S. */
typedef void constructor(int argc, char **argv, char **environment);

__attribute__((visibility("hidden"))) extern constructor *const __init_array_start[];
__attribute__((visibility("hidden"))) extern constructor *const __init_array_end[];

__attribute__((visibility("hidden"))) constructor gsc__run_constructors;

void gsc__run_constructors(int argc, char **argv, char **environment) {
    for (constructor *const *next = __init_array_start; next < __init_array_end; next++)
        (*next)(argc, argv, environment);
}
