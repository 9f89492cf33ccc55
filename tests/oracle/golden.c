#include "golden.h"

#include <cJSON.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef GSC_GOLDEN_SOURCE
#define GSC_GOLDEN_SOURCE "tests/golden"
#endif

const char *golden_folder(void) {
    const char *folder = getenv("GSPLAT_C_GOLDEN");
    return folder && folder[0] ? folder : GSC_GOLDEN_SOURCE;
}

static int compare_names(const void *a, const void *b) {
    return strcmp((const char *)a, (const char *)b);
}

int golden_list(const char *const *prefixes, char names[GOLDEN_MAX_CASES][GOLDEN_NAME]) {
    DIR *folder = opendir(golden_folder());
    if (!folder) return 0;
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        size_t length = strlen(entry->d_name);
        bool manifest =
            length > 5 && length < GOLDEN_NAME && strcmp(entry->d_name + length - 5, ".json") == 0;
        bool wanted = false;
        for (int i = 0; prefixes[i]; i++) {
            if (strncmp(entry->d_name, prefixes[i], strlen(prefixes[i])) == 0) wanted = true;
        }
        if (!manifest || !wanted || count == GOLDEN_MAX_CASES) continue;
        memcpy(names[count], entry->d_name, length - 5);
        names[count++][length - 5] = 0;
    }
    closedir(folder);
    qsort(names, (size_t)count, GOLDEN_NAME, compare_names);
    return count;
}

/* The whole file and a final NUL, to be freed; NULL on failure. */
static char *read_file(const char *name, const char *extension, size_t *size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", golden_folder(), name, extension);
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "golden: cannot open %s\n", path);
        return NULL;
    }
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    rewind(file);
    char *data = length < 0 ? NULL : (char *)malloc((size_t)length + 1);
    if (data && fread(data, 1, (size_t)length, file) != (size_t)length) {
        free(data);
        data = NULL;
    }
    fclose(file);
    if (!data) {
        fprintf(stderr, "golden: cannot read %s\n", path);
        return NULL;
    }
    data[length] = 0;
    *size = (size_t)length;
    return data;
}

static bool read_array(const cJSON *item, const char *bytes, size_t size, golden_array *array) {
    const cJSON *dtype = cJSON_GetObjectItem(item, "dtype");
    const cJSON *shape = cJSON_GetObjectItem(item, "shape");
    const cJSON *offset = cJSON_GetObjectItem(item, "offset");
    if (!cJSON_IsString(dtype) || !cJSON_IsArray(shape) || !cJSON_IsNumber(offset)) return false;
    if (strlen(item->string) >= GOLDEN_NAME || cJSON_GetArraySize(shape) > 4) return false;
    strcpy(array->name, item->string);
    array->integers = strcmp(dtype->valuestring, "int32") == 0;
    if (!array->integers && strcmp(dtype->valuestring, "float32") != 0) return false;
    array->ndim = cJSON_GetArraySize(shape);
    array->count = 1;
    for (int i = 0; i < array->ndim; i++) {
        array->shape[i] = (int64_t)cJSON_GetArrayItem(shape, i)->valuedouble;
        array->count *= (size_t)array->shape[i];
    }
    size_t start = (size_t)offset->valuedouble;
    if (start > size || array->count * 4 > size - start) return false;
    array->data = bytes + start;
    return true;
}

bool golden_open(golden_case *c, const char *name) {
    *c = (golden_case){0};
    snprintf(c->name, sizeof c->name, "%s", name);
    size_t text_size = 0, size = 0;
    char *text = read_file(name, ".json", &text_size);
    c->bytes = read_file(name, ".bin", &size);
    c->manifest = text ? cJSON_Parse(text) : NULL;
    free(text);
    const cJSON *arrays = cJSON_GetObjectItem((cJSON *)c->manifest, "arrays");
    bool good = c->manifest && c->bytes && cJSON_IsObject(arrays) &&
                cJSON_GetArraySize(arrays) <= GOLDEN_MAX_ARRAYS;
    for (const cJSON *item = good ? arrays->child : NULL; item && good; item = item->next) {
        good = read_array(item, c->bytes, size, &c->arrays[c->array_count++]);
    }
    if (good) return true;
    fprintf(stderr, "golden: %s is missing or damaged\n", name);
    golden_close(c);
    return false;
}

void golden_close(golden_case *c) {
    cJSON_Delete((cJSON *)c->manifest);
    free(c->bytes);
    *c = (golden_case){0};
}

const golden_array *golden_find(const golden_case *c, const char *name) {
    for (int i = 0; i < c->array_count; i++) {
        if (strcmp(c->arrays[i].name, name) == 0) return &c->arrays[i];
    }
    return NULL;
}

double *golden_reals(const golden_case *c, const char *name) {
    const golden_array *array = golden_find(c, name);
    if (!array || array->integers) return NULL;
    double *values = reals_alloc(array->count);
    for (size_t i = 0; i < array->count; i++) {
        float value;
        memcpy(&value, (const char *)array->data + i * sizeof value, sizeof value);
        values[i] = (double)value;
    }
    return values;
}

int32_t *golden_ints(const golden_case *c, const char *name) {
    const golden_array *array = golden_find(c, name);
    if (!array || !array->integers) return NULL;
    int32_t *values = ints_alloc(array->count);
    memcpy(values, array->data, array->count * sizeof *values);
    return values;
}

double golden_number(const golden_case *c, const char *key, double fallback) {
    const cJSON *item = cJSON_GetObjectItem((cJSON *)c->manifest, key);
    return cJSON_IsNumber(item) ? item->valuedouble : fallback;
}

const char *golden_string(const golden_case *c, const char *key) {
    const cJSON *item = cJSON_GetObjectItem((cJSON *)c->manifest, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

bool golden_flag(const golden_case *c, const char *key) {
    return cJSON_IsTrue(cJSON_GetObjectItem((cJSON *)c->manifest, key));
}
