#include "ply.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 5 }; /* property list TYPE TYPE NAME */

static bool fail_line(const ply *file, const char *problem, const char *word) {
    return fail("%s: line %lld: %s '%s'", file->path, (long long)file->line, problem, word);
}

static bool fail_memory(const ply *file) {
    return fail("%s: out of memory", file->path);
}

/* Cuts the first words off a line; "" for those that it lacks. */
static void split(char *line, const char *words[MAX_WORDS]) {
    for (int i = 0; i < MAX_WORDS; i++) {
        line += strspn(line, " \t");
        words[i] = line;
        line += strcspn(line, " \t");
        if (*line) *line++ = '\0';
    }
}

static bool read_type(const ply *file, const char *word, ply_type *type) {
    for (int i = 0; i < PLY_TYPES; i++) {
        if (strcmp(word, ply_types[i].name) != 0 && strcmp(word, ply_types[i].old_name) != 0)
            continue;
        *type = (ply_type)i;
        return true;
    }
    return fail_line(file, "unknown property type", word);
}

/* Makes space for one more item: the array doubles at every power of two. */
static void *grow(void *items, size_t count, size_t item_bytes) {
    if (count & (count - 1)) return items;
    size_t capacity = count ? 2 * count : 1;
    return realloc(items, capacity * item_bytes);
}

static bool read_format(ply *file, const char *const *words) {
    int format = 0;
    while (format < PLY_FORMATS && strcmp(words[1], ply_format_names[format]) != 0) format++;
    if (format == PLY_FORMATS) return fail_line(file, "unknown format", words[1]);
    file->format = (ply_format)format;
    return strcmp(words[2], "1.0") == 0 || fail_line(file, "unknown format version", words[2]);
}

static bool read_element(ply *file, const char *const *words) {
    const char *name = words[1], *count = words[2];
    if (!*count) return fail_line(file, "expected 'element NAME COUNT', came", "element");
    ply_element element = {0};
    char *end;
    errno = 0;
    element.count = strtoll(count, &end, 10);
    if (errno || *end || element.count < 0 || *count == '+')
        return fail_line(file, "not a number of rows:", count);
    ply_element *elements = grow(file->elements, file->element_count, sizeof element);
    if (!elements) return fail_memory(file);
    file->elements = elements;
    element.name = format_text("%s", name);
    if (!element.name) return fail_memory(file);
    elements[file->element_count++] = element;
    return true;
}

static bool read_property(ply *file, const char *const *words) {
    if (file->element_count == 0) return fail_line(file, "no element yet for", "property");
    ply_element *element = &file->elements[file->element_count - 1];
    ply_property property = {.is_list = strcmp(words[1], "list") == 0};
    const char *type = words[property.is_list ? 3 : 1], *name = words[property.is_list ? 4 : 2];
    if (property.is_list) {
        if (!read_type(file, words[2], &property.count_type)) return false;
        if (property.count_type >= PLY_FLOAT32)
            return fail_line(file, "the length of a list must be an integer in", element->name);
    }
    if (!read_type(file, type, &property.type)) return false;
    if (!*name) return fail_line(file, "a property without a name in element", element->name);
    ply_property *properties = grow(element->properties, element->property_count, sizeof property);
    if (!properties) return fail_memory(file);
    element->properties = properties;
    property.name = format_text("%s", name);
    if (!property.name) return fail_memory(file);
    properties[element->property_count++] = property;
    return true;
}

/* Names that begin items of this size; false after fail() if one occurs twice. */
static bool check_names(const ply *file, const char *what, const void *items, size_t count,
                        size_t item_bytes) {
    char **names = malloc((count + 1) * sizeof *names);
    if (!names) return fail_memory(file);
    for (size_t i = 0; i < count; i++)
        memcpy(&names[i], (const char *)items + i * item_bytes, sizeof *names);
    const char *repeated = find_repeated(names, count);
    free(names);
    return !repeated || fail("%s: %s '%s' occurs twice", file->path, what, repeated);
}

static bool read_header_lines(ply *file) {
    bool has_format = false;
    for (;;) {
        const char *words[MAX_WORDS], *keyword;
        char *line = ply_take_line(file);
        if (!line) return fail("%s: its header has no end_header", file->path);
        split(line, words);
        keyword = words[0];
        bool good = true;
        if (strcmp(keyword, "end_header") == 0) break;
        if (strcmp(keyword, "format") == 0)
            good = has_format = read_format(file, words);
        else if (strcmp(keyword, "element") == 0)
            good = read_element(file, words);
        else if (strcmp(keyword, "property") == 0)
            good = read_property(file, words);
        else if (*keyword && strcmp(keyword, "comment") != 0 && strcmp(keyword, "obj_info") != 0)
            good = fail_line(file, "unknown header keyword", keyword);
        if (!good) return false;
    }
    return has_format || fail("%s: its header has no format line", file->path);
}

bool ply_read_header(ply *file) {
    const unsigned char *magic = ply_take(file, 3);
    if (!magic && ferror(file->file)) return false;
    if (!magic || memcmp(magic, "ply", 3) != 0)
        return fail("%s: not a PLY file: it does not start with 'ply'", file->path);
    const char *rest = ply_take_line(file);
    if (!rest) return false;
    if (rest[strspn(rest, " \t")]) return fail("%s: line 1: expected 'ply' alone", file->path);
    if (!read_header_lines(file) ||
        !check_names(file, "element", file->elements, file->element_count, sizeof *file->elements))
        return false;
    for (size_t i = 0; i < file->element_count; i++) {
        const ply_element *element = &file->elements[i];
        if (!check_names(file, "property", element->properties, element->property_count,
                         sizeof *element->properties))
            return false;
    }
    return true;
}
