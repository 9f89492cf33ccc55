/* Runs a fuzz target on the files of the given folders: the corpus as a plain test, without a
 * fuzzer. */
#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LARGEST = 1 << 16 };

static int run_file(const char *path) {
    static uint8_t bytes[LARGEST];
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 0;
    }
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    /* Memory of exactly that size, for a sanitizer. */
    uint8_t *data = malloc(size ? size : 1);
    if (!data) return 0;
    for (size_t i = 0; i < size; i++) data[i] = bytes[i];
    fprintf(stderr, "%s\n", path); /* the last one named is the one that failed */
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 1;
}

static int run_folder(const char *folder) {
    DIR *entries = opendir(folder);
    int count = 0;
    if (!entries) {
        perror(folder);
        return 0;
    }
    for (struct dirent *entry; (entry = readdir(entries));) {
        char path[4096];
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        count += run_file(path);
    }
    closedir(entries);
    return count;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        int count = run_folder(argv[i]);
        printf("%s: %d inputs\n", argv[i], count);
        if (count == 0) return 1; /* an empty corpus tests nothing */
    }
    return argc < 2;
}
