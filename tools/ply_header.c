#include "ply.h"

#include "failure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    ply_type type;
} type_names[] = {
    {"char", PLY_INT8},       {"int8", PLY_INT8},       {"uchar", PLY_UINT8},
    {"uint8", PLY_UINT8},     {"short", PLY_INT16},     {"int16", PLY_INT16},
    {"ushort", PLY_UINT16},   {"uint16", PLY_UINT16},   {"int", PLY_INT32},
    {"int32", PLY_INT32},     {"uint", PLY_UINT32},     {"uint32", PLY_UINT32},
    {"float", PLY_FLOAT32},   {"float32", PLY_FLOAT32}, {"double", PLY_FLOAT64},
    {"float64", PLY_FLOAT64},
};

static bool fail_line(const ply *file, const char *problem, const char *word) {
    return fail("%s: line %lld: %s '%s'", file->input.path, (long long)file->input.line, problem,
                word);
}

static bool fail_memory(const ply *file) {
    return fail("%s: out of memory", file->input.path);
}

/* Cuts the next word off *text; NULL at the end. */
static char *next_word(char **text) {
    char *word = *text + strspn(*text, " \t");
    if (!*word) return NULL;
    char *end = word + strcspn(word, " \t");
    *text = *end ? end + 1 : end;
    *end = '\0';
    return word;
}

static bool read_type(const ply *file, char **rest, ply_type *type) {
    const char *word = next_word(rest);
    for (size_t i = 0; word && i < sizeof type_names / sizeof *type_names; i++) {
        if (strcmp(word, type_names[i].name) != 0) continue;
        *type = type_names[i].type;
        return true;
    }
    return fail_line(file, "unknown property type", word ? word : "");
}

static char *copy_name(const char *word) {
    size_t size = strlen(word) + 1;
    char *copy = malloc(size);
    return copy ? memcpy(copy, word, size) : NULL;
}

/* Room for one more item in an array that doubles at every power of two. */
static void *grow(void *items, size_t count, size_t item_bytes) {
    if (count & (count - 1)) return items;
    size_t capacity = count ? 2 * count : 1;
    return realloc(items, capacity * item_bytes);
}

static bool read_format(ply *file, char *rest) {
    const char *word = next_word(&rest), *version = next_word(&rest);
    if (word && strcmp(word, "ascii") == 0)
        file->format = PLY_ASCII;
    else if (word && strcmp(word, "binary_little_endian") == 0)
        file->format = PLY_LITTLE_ENDIAN;
    else if (word && strcmp(word, "binary_big_endian") == 0)
        file->format = PLY_BIG_ENDIAN;
    else
        return fail_line(file, "unknown format", word ? word : "");
    if (!version || strcmp(version, "1.0") != 0)
        return fail_line(file, "unknown format version", version ? version : "");
    return true;
}

static bool read_element(ply *file, char *rest) {
    const char *name = next_word(&rest), *count = next_word(&rest);
    if (!name || !count) return fail_line(file, "expected 'element NAME COUNT', came", "element");
    for (size_t i = 0; i < file->element_count; i++)
        if (strcmp(file->elements[i].name, name) == 0)
            return fail_line(file, "second element", name);
    ply_element element = {0};
    char *end;
    errno = 0;
    element.count = strtoll(count, &end, 10);
    if (errno || *end || element.count < 0 || *count == '+')
        return fail_line(file, "not a number of rows:", count);
    ply_element *elements = grow(file->elements, file->element_count, sizeof element);
    if (!elements) return fail_memory(file);
    file->elements = elements;
    element.name = copy_name(name);
    if (!element.name) return fail_memory(file);
    elements[file->element_count++] = element;
    return true;
}

static bool read_property(ply *file, char *rest) {
    if (file->element_count == 0) return fail_line(file, "no element yet for", "property");
    ply_element *element = &file->elements[file->element_count - 1];
    ply_property property = {0};
    char *after = rest;
    const char *word = next_word(&after);
    if (word && strcmp(word, "list") == 0) {
        rest = after;
        property.is_list = true;
        if (!read_type(file, &rest, &property.count_type)) return false;
        if (property.count_type >= PLY_FLOAT32)
            return fail_line(file, "the length of a list must be an integer in", element->name);
    } else if (after > rest && *after) {
        after[-1] = ' '; /* the word is the type: read it again */
    }
    if (!read_type(file, &rest, &property.type)) return false;
    const char *name = next_word(&rest);
    if (!name) return fail_line(file, "a property without a name in element", element->name);
    ply_property *properties = grow(element->properties, element->property_count, sizeof property);
    if (!properties) return fail_memory(file);
    element->properties = properties;
    property.name = copy_name(name);
    if (!property.name) return fail_memory(file);
    properties[element->property_count++] = property;
    return true;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* By sorting: a header may name many thousands of properties. */
static bool check_names(const ply *file, const ply_element *element) {
    if (element->property_count < 2) return true;
    const char **names = malloc(element->property_count * sizeof *names);
    if (!names) return fail_memory(file);
    for (size_t i = 0; i < element->property_count; i++) names[i] = element->properties[i].name;
    qsort(names, element->property_count, sizeof *names, compare_names);
    bool distinct = true;
    for (size_t i = 1; distinct && i < element->property_count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            distinct = fail("%s: property '%s' occurs twice in element '%s'", file->input.path,
                            names[i], element->name);
    free(names);
    return distinct;
}

static bool read_header_lines(ply *file) {
    bool has_format = false;
    for (;;) {
        char *rest = stream_line(&file->input);
        if (!rest) return fail("%s: its header has no end_header", file->input.path);
        const char *keyword = next_word(&rest);
        bool good = true;
        if (!keyword || strcmp(keyword, "comment") == 0 || strcmp(keyword, "obj_info") == 0)
            continue;
        if (strcmp(keyword, "end_header") == 0) break;
        if (strcmp(keyword, "format") == 0)
            good = has_format = read_format(file, rest);
        else if (strcmp(keyword, "element") == 0)
            good = read_element(file, rest);
        else if (strcmp(keyword, "property") == 0)
            good = read_property(file, rest);
        else
            good = fail_line(file, "unknown header keyword", keyword);
        if (!good) return false;
    }
    return has_format || fail("%s: its header has no format line", file->input.path);
}

bool ply_read_header(ply *file) {
    if (file->input.left < 4 || memcmp(stream_take(&file->input, 3), "ply", 3) != 0)
        return fail("%s: not a PLY file: it does not start with 'ply'", file->input.path);
    const char *rest = stream_line(&file->input);
    if (!rest) return false;
    if (rest[strspn(rest, " \t")])
        return fail("%s: line 1: expected 'ply' alone", file->input.path);
    if (!read_header_lines(file)) return false;
    for (size_t i = 0; i < file->element_count; i++)
        if (!check_names(file, &file->elements[i])) return false;
    return true;
}
