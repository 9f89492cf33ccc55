/* Not getopt_long, which is not in C or POSIX and prints its errors by itself. */
#include "options.h"

#include "failure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Highest number of a CUDA device that is worth asking for. */
enum { MAX_DEVICE = 1023 };

static bool read_prefix(const char **text, int32_t low, int32_t high, int32_t *value) {
    char *end;
    if (**text < '0' || **text > '9') return false;
    errno = 0;
    long number = strtol(*text, &end, 10);
    if (errno || number < low || number > high) return false;
    *value = (int32_t)number;
    *text = end;
    return true;
}

bool read_whole_number(const char *text, int32_t low, int32_t high, int32_t *value) {
    int32_t number;
    if (!read_prefix(&text, low, high, &number) || *text) return false;
    *value = number;
    return true;
}

static bool read_size(const char *text, int32_t *size) {
    int32_t width, height;
    if (!read_prefix(&text, 1, MAX_SIDE, &width) || (*text != 'x' && *text != 'X')) return false;
    text++;
    if (!read_prefix(&text, 1, MAX_SIDE, &height) || *text) return false;
    size[0] = width;
    size[1] = height;
    return true;
}

static bool read_color(const char *text, float *color) {
    float values[3];
    for (int i = 0; i < 3; i++) {
        char *end;
        values[i] = strtof(text, &end);
        if (end == text || *end != (i < 2 ? ',' : '\0')) return false;
        if (!(values[i] >= 0 && values[i] <= 1)) return false;
        text = end + 1;
    }
    memcpy(color, values, sizeof values);
    return true;
}

static bool read_device(const char *text, DLDevice *device) {
    int32_t index = 0;
    if (strcmp(text, "cpu") == 0) {
        *device = (DLDevice){kDLCPU, 0};
        return true;
    }
    if (strncmp(text, "cuda", 4) != 0) return false;
    if (text[4] && (text[4] != ':' || !read_whole_number(text + 5, 0, MAX_DEVICE, &index)))
        return false;
    *device = (DLDevice){kDLCUDA, index};
    return true;
}

static int set_value(const struct option *option, const char *text) {
    switch (option->kind) {
    case OPTION_FLAG: break;
    case OPTION_TEXT:
        if (!*text) return fail_usage("--%s: its value is empty", option->name);
        *(const char **)option->target = text;
        break;
    case OPTION_NUMBER:
        if (!read_whole_number(text, option->low, option->high, option->target))
            return fail_usage("--%s %s: expected a whole number from %d to %d", option->name, text,
                              option->low, option->high);
        break;
    case OPTION_SIZE:
        if (!read_size(text, option->target))
            return fail_usage("--%s %s: expected WIDTHxHEIGHT, each from 1 to %d", option->name,
                              text, MAX_SIDE);
        break;
    case OPTION_COLOR:
        if (!read_color(text, option->target))
            return fail_usage("--%s %s: expected R,G,B, each from 0 to 1", option->name, text);
        break;
    case OPTION_DEVICE:
        if (!read_device(text, option->target))
            return fail_usage("--%s %s: expected cpu, cuda or cuda:N", option->name, text);
        break;
    }
    return EXIT_OK;
}

static const struct option *find_long(const struct option *options, size_t count, const char *name,
                                      size_t length) {
    for (size_t i = 0; i < count; i++)
        if (strlen(options[i].name) == length && memcmp(options[i].name, name, length) == 0)
            return &options[i];
    return NULL;
}

static const struct option *find_short(const struct option *options, size_t count, char letter) {
    for (size_t i = 0; i < count; i++)
        if (letter && options[i].letter == letter) return &options[i];
    return NULL;
}

/* Takes the option at argv[*i], and its value from there or from the next word. */
static int read_option(int argc, char **argv, int *i, const struct option *options, size_t count) {
    const char *word = argv[*i], *value = NULL;
    const struct option *option;
    if (word[1] == '-') {
        size_t length = strcspn(word + 2, "=");
        option = find_long(options, count, word + 2, length);
        if (word[2 + length] == '=') value = word + 2 + length + 1;
    } else {
        option = find_short(options, count, word[1]);
        if (word[2]) value = word + 2;
    }
    if (!option) return fail_usage("%s: no such option (see 'gsplat-c %s --help')", word, argv[1]);
    if (option->kind == OPTION_FLAG) {
        if (value) return fail_usage("%s: --%s takes no value", word, option->name);
        *(bool *)option->target = true;
        return EXIT_OK;
    }
    if (!value) {
        if (*i + 1 == argc) return fail_usage("%s: needs a value", word);
        value = argv[++*i];
    }
    return set_value(option, value);
}

int options_read(int argc, char **argv, const struct option *options, size_t count,
                 const char **operand) {
    bool only_operands = false;
    for (int i = 2; i < argc; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1]) {
            int code = read_option(argc, argv, &i, options, count);
            if (code != EXIT_OK) return code;
        } else if (*operand) {
            return fail_usage("%s: one scene at a time, after '%s'", argv[i], *operand);
        } else {
            *operand = argv[i];
        }
    }
    return EXIT_OK;
}
