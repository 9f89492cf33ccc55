/* This reader has no library under it: rply, the C library for PLY, is no longer in Debian 12,
 * and a scene needs only a small part of the format.  Rows are streamed, so that a scene is in
 * memory only once.  No size from the header is used before the file's length confirms it. */
#include "ply.h"

#include "host.h"
#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_LINE = 256, MAX_LINE = 1 << 26, MAX_CHUNK = 1 << 18 };
enum { MAX_WORDS = 5 }; /* property list TYPE TYPE NAME */

const char *const ply_format_names[PLY_FORMATS] = {"ascii", "binary_little_endian",
                                                   "binary_big_endian"};

static const struct {
    const char *name, *old_name;
    unsigned char bytes;
} types[PLY_TYPES] = {
#define TYPE(id, type, name, old_name) {name, old_name, sizeof(type)},
    PLY_TYPE_LIST(TYPE)
#undef TYPE
};

static bool fail_memory(const ply *file) {
    return fail("%s: out of memory", file->path);
}

static bool fail_line(const ply *file, const char *problem, const char *word) {
    return fail("%s: line %lld: %s '%s'", file->path, (long long)file->line, problem, word);
}

static bool reserve(ply *file, size_t bytes) {
    if (bytes <= file->capacity) return true;
    char *larger = realloc(file->buffer, bytes);
    if (!larger) return fail_memory(file);
    file->buffer = larger;
    file->capacity = bytes;
    return true;
}

static void *fail_read(const ply *file) {
    if (ferror(file->file))
        fail("%s: cannot read: %s", file->path, strerror(errno));
    else
        fail("%s: cut short: the file ends in the middle of its data", file->path);
    return NULL;
}

static const unsigned char *take(ply *file, size_t bytes) {
    if (!reserve(file, bytes)) return NULL;
    if (fread(file->buffer, 1, bytes, file->file) != bytes) return fail_read(file);
    file->left -= (int64_t)bytes;
    return (const unsigned char *)file->buffer;
}

static bool skip(ply *file, int64_t bytes) {
    if (bytes > file->left) return fail_read(file);
    while (bytes > 0) {
        const size_t chunk = bytes < MAX_CHUNK ? (size_t)bytes : (size_t)MAX_CHUNK;
        if (!take(file, chunk)) return false;
        bytes -= (int64_t)chunk;
    }
    return true;
}

/* A line is cut at a NUL, which no line should hold. */
static char *take_line(ply *file) {
    size_t length = 0;
    do {
        if (length > MAX_LINE) {
            fail("%s: line %lld is longer than %d bytes", file->path, (long long)file->line + 1,
                 MAX_LINE);
            return NULL;
        }
        if (!reserve(file, 2 * length + MIN_LINE)) return NULL;
        if (!fgets(file->buffer + length, (int)(file->capacity - length), file->file)) break;
        length += strlen(file->buffer + length);
    } while (length + 1 == file->capacity && file->buffer[length - 1] != '\n');
    if (ferror(file->file)) return fail_read(file);
    if (length == 0 && feof(file->file)) {
        fail("%s: cut short: the file ends after line %lld", file->path, (long long)file->line);
        return NULL;
    }
    file->left -= (int64_t)length;
    file->line++;
    if (length > 0 && file->buffer[length - 1] == '\n') length--;
    if (length > 0 && file->buffer[length - 1] == '\r') length--;
    file->buffer[length] = '\0';
    return file->buffer;
}

/* ------------------------------------------------------------------ header */

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
        if (strcmp(word, types[i].name) != 0 && strcmp(word, types[i].old_name) != 0) continue;
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

static bool keep_comment(ply *file, const char *text) {
    const size_t bytes = strlen(text), needed = file->comment_bytes + bytes + 2;
    if (needed > file->comment_capacity) {
        char *larger = realloc(file->comments, 2 * needed);
        if (!larger) return fail_memory(file);
        file->comments = larger;
        file->comment_capacity = 2 * needed;
    }
    memcpy(file->comments + file->comment_bytes, text, bytes);
    memcpy(file->comments + file->comment_bytes + bytes, "\n", 2);
    file->comment_bytes += bytes + 1;
    return true;
}

static bool check_names(const ply *file, const char *what, const void *items, size_t count,
                        size_t item_bytes) {
    const char *repeated;
    return find_repeated(items, count, item_bytes, &repeated) &&
           (!repeated || fail("%s: %s '%s' occurs twice", file->path, what, repeated));
}

static bool read_header_lines(ply *file) {
    bool has_format = false;
    for (;;) {
        const char *words[MAX_WORDS], *keyword;
        char *line = take_line(file);
        if (!line) return fail("%s: its header has no end_header", file->path);
        bool good = strncmp(line, "comment ", 8) != 0 || keep_comment(file, line + 8);
        split(line, words);
        keyword = words[0];
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

static bool read_header(ply *file) {
    const unsigned char *magic = take(file, 3);
    if (!magic && ferror(file->file)) return false;
    if (!magic || memcmp(magic, "ply", 3) != 0)
        return fail("%s: not a PLY file: it does not start with 'ply'", file->path);
    const char *rest = take_line(file);
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

bool ply_open(ply *file, const char *path) {
    memset(file, 0, sizeof *file);
    file->path = path;
    file->file = host_open_file(path, &file->left);
    if (!file->file) return false;
    if (read_header(file)) return true;
    ply_close(file);
    return false;
}

void ply_close(ply *file) {
    for (size_t i = 0; i < file->element_count; i++) {
        ply_element *element = &file->elements[i];
        for (size_t k = 0; k < element->property_count; k++) free(element->properties[k].name);
        free(element->properties);
        free(element->name);
    }
    free(file->elements);
    free(file->comments);
    free(file->buffer);
    fclose(file->file);
    memset(file, 0, sizeof *file);
}

/* -------------------------------------------------------------------- rows */

int ply_property_index(const ply_element *element, const char *name) {
    for (size_t i = 0; i < element->property_count; i++)
        if (strcmp(element->properties[i].name, name) == 0) return (int)i;
    return -1;
}

/* The fewest bytes that a row takes: an empty list takes the bytes of its length, a number in
 * text one digit and one separator. */
static int64_t min_row_bytes(const ply *file, const ply_element *element) {
    int64_t bytes = 0;
    for (size_t i = 0; i < element->property_count; i++) {
        const ply_property *property = &element->properties[i];
        if (file->format == PLY_ASCII)
            bytes += 2;
        else
            bytes += types[property->is_list ? property->count_type : property->type].bytes;
    }
    return bytes;
}

static bool check_length(const ply *file, const ply_element *element) {
    int64_t row_bytes = min_row_bytes(file, element), left = file->left;
    if (file->format == PLY_ASCII) left++; /* the last line may lack its end */
    if (row_bytes == 0 || element->count <= left / row_bytes) return true;
    return fail("%s: cut short: element '%s' has %lld rows of at least %lld bytes, but only %lld "
                "bytes are left",
                file->path, element->name, (long long)element->count, (long long)row_bytes,
                (long long)file->left);
}

static bool host_is_little_endian(void) {
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first == 1;
}

static double decode(const unsigned char *data, ply_type type, bool swap) {
    unsigned char bytes[8];
    size_t size = types[type].bytes;
    if (swap)
        for (size_t i = 0; i < size; i++) bytes[i] = data[size - 1 - i];
    else
        memcpy(bytes, data, size);
    switch (type) {
#define CASE(id, type, name, old_name)       \
    case PLY_##id: {                         \
        type value;                          \
        memcpy(&value, bytes, sizeof value); \
        return (double)value;                \
    }
        PLY_TYPE_LIST(CASE)
#undef CASE
    case PLY_TYPES: break;
    }
    return NAN;
}

static bool read_binary_list(ply *file, const ply_property *property, bool swap) {
    const unsigned char *data = take(file, types[property->count_type].bytes);
    if (!data) return false;
    double count = decode(data, property->count_type, swap);
    if (count < 0)
        return fail("%s: row %lld: list '%s' has length %.0f", file->path, (long long)file->row,
                    property->name, count);
    return skip(file, (int64_t)count * types[property->type].bytes);
}

static bool read_binary_row(ply *file, const ply_element *element, double *values) {
    bool swap = (file->format == PLY_LITTLE_ENDIAN) != host_is_little_endian();
    for (size_t i = 0; i < element->property_count;) {
        if (element->properties[i].is_list) {
            if (!read_binary_list(file, &element->properties[i], swap)) return false;
            values[i++] = NAN;
            continue;
        }
        size_t run = i, bytes = 0; /* read neighbouring scalars at once */
        while (run < element->property_count && !element->properties[run].is_list)
            bytes += types[element->properties[run++].type].bytes;
        const unsigned char *data = take(file, bytes);
        if (!data) return false;
        for (; i < run; i++) {
            values[i] = decode(data, element->properties[i].type, swap);
            data += types[element->properties[i].type].bytes;
        }
    }
    return true;
}

static bool read_number(char **text, double *value) {
    char *end;
    *value = strtod(*text, &end);
    bool good = end != *text && (*end == '\0' || *end == ' ' || *end == '\t');
    *text = end;
    return good;
}

static bool read_text_list(const ply *file, const ply_property *property, char **text) {
    double count, item;
    if (!read_number(text, &count) || !(count >= 0) || count != floor(count))
        return fail_line(file, "no length for list", property->name);
    for (double i = 0; i < count; i++)
        if (!read_number(text, &item))
            return fail_line(file, "too few items in list", property->name);
    return true;
}

static bool read_text_row(ply *file, const ply_element *element, double *values) {
    char *text;
    do {
        text = take_line(file);
        if (!text) return false;
        text += strspn(text, " \t");
    } while (!*text);
    for (size_t i = 0; i < element->property_count; i++) {
        const ply_property *property = &element->properties[i];
        values[i] = NAN;
        if (property->is_list) {
            if (!read_text_list(file, property, &text)) return false;
        } else if (!read_number(&text, &values[i])) {
            return fail_line(file, "no number for property", property->name);
        }
    }
    if (text[strspn(text, " \t")])
        return fail_line(file, "more values than properties in element", element->name);
    return true;
}

bool ply_read_row(ply *file, double *values) {
    const ply_element *element = &file->elements[file->next_element];
    file->row++;
    return file->format == PLY_ASCII ? read_text_row(file, element, values)
                                     : read_binary_row(file, element, values);
}

static bool skip_element(ply *file, const ply_element *element) {
    if (!check_length(file, element)) return false;
    if (element->property_count == 0) return true;
    bool lists = false;
    for (size_t i = 0; i < element->property_count; i++) lists |= element->properties[i].is_list;
    if (!lists && file->format != PLY_ASCII)
        return skip(file, element->count * min_row_bytes(file, element));
    double *values = malloc(element->property_count * sizeof *values);
    if (!values) return fail_memory(file);
    bool good = true;
    for (int64_t row = 0; good && row < element->count; row++) good = ply_read_row(file, values);
    free(values);
    return good;
}

const ply_element *ply_find(ply *file, const char *name) {
    size_t found = 0;
    while (found < file->element_count && strcmp(file->elements[found].name, name) != 0) found++;
    if (found == file->element_count) {
        fail("%s: has no element '%s'", file->path, name);
        return NULL;
    }
    for (; file->next_element < found; file->next_element++) {
        file->row = 0;
        if (!skip_element(file, &file->elements[file->next_element])) return NULL;
    }
    file->row = 0;
    return check_length(file, &file->elements[found]) ? &file->elements[found] : NULL;
}
