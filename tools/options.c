/* getopt_long is not used: it is not in C or POSIX and prints its own messages. */
#include "options.h"

#include "text.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Highest number of a CUDA device that is worth asking for. */
enum { MAX_DEVICE = 1023 };

typedef enum option_kind {
    OPTION_FLAG,   /* bool: no value */
    OPTION_TEXT,   /* const char * */
    OPTION_NUMBER, /* int32_t: low to high */
    OPTION_SIZE,   /* int32_t [2]: WIDTHxHEIGHT, 1 to MAX_SIDE each */
    OPTION_COLOR,  /* float [3]: R,G,B, each 0 to 1 */
    OPTION_DEVICE  /* DLDevice: cpu, cuda or cuda:N */
} option_kind;

struct option {
    const char *name; /* without dashes */
    char letter;      /* the short form; 0: none */
    unsigned char commands;
    option_kind kind;
    size_t offset; /* of its value in command_options */
    int32_t low, high;
};

#define VIEW (COMMAND_RENDER | COMMAND_BENCH)
static const struct option table[] = {
    {"cameras", 0, VIEW, OPTION_TEXT, offsetof(command_options, cameras), 0, 0},
    {"camera", 0, VIEW, OPTION_TEXT, offsetof(command_options, camera), 0, 0},
    {"size", 0, VIEW, OPTION_SIZE, offsetof(command_options, size), 0, 0},
    {"background", 0, COMMAND_RENDER, OPTION_COLOR, offsetof(command_options, background), 0, 0},
    {"depth", 0, COMMAND_RENDER, OPTION_FLAG, offsetof(command_options, depth), 0, 0},
    {"gaussians", 0, COMMAND_BENCH, OPTION_NUMBER, offsetof(command_options, gaussians), 1,
     100000000},
    {"sh-degree", 0, VIEW, OPTION_NUMBER, offsetof(command_options, sh_degree), 0, 4},
    {"operation", 0, COMMAND_BENCH, OPTION_TEXT, offsetof(command_options, operation), 0, 0},
    {"antialias", 0, VIEW, OPTION_FLAG, offsetof(command_options, antialias), 0, 0},
    {"compat", 0, VIEW, OPTION_FLAG, offsetof(command_options, compat), 0, 0},
    {"device", 0, VIEW, OPTION_DEVICE, offsetof(command_options, device), 0, 0},
    {"threads", 0, VIEW, OPTION_NUMBER, offsetof(command_options, threads), 1, 1024},
    {"repeat", 0, VIEW, OPTION_NUMBER, offsetof(command_options, repeat), 1, MAX_RUNS},
    {"output", 'o', COMMAND_RENDER, OPTION_TEXT, offsetof(command_options, output), 0, 0},
    {"json", 0, COMMAND_INFO | COMMAND_BENCH, OPTION_FLAG, offsetof(command_options, json), 0, 0},
    {"help", 'h', VIEW | COMMAND_INFO, OPTION_FLAG, offsetof(command_options, help), 0, 0},
};

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

static int set_value(const struct option *option, void *target, const char *text) {
    switch (option->kind) {
    case OPTION_FLAG: break;
    case OPTION_TEXT:
        if (!*text) return fail_usage("--%s: its value is empty", option->name);
        *(const char **)target = text;
        break;
    case OPTION_NUMBER:
        if (!read_whole_number(text, option->low, option->high, target))
            return fail_usage("--%s %s: expected a whole number from %d to %d", option->name, text,
                              option->low, option->high);
        break;
    case OPTION_SIZE:
        if (!read_size(text, target))
            return fail_usage("--%s %s: expected WIDTHxHEIGHT, each from 1 to %d", option->name,
                              text, MAX_SIDE);
        break;
    case OPTION_COLOR:
        if (!read_color(text, target))
            return fail_usage("--%s %s: expected R,G,B, each from 0 to 1", option->name, text);
        break;
    case OPTION_DEVICE:
        if (!read_device(text, target))
            return fail_usage("--%s %s: expected cpu, cuda or cuda:N", option->name, text);
        break;
    }
    return EXIT_OK;
}

/* The command's option with this name, or with this letter where `name` is NULL. */
static const struct option *find_option(command_id command, const char *name, size_t length,
                                        char letter) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct option *option = &table[i];
        if (!(option->commands & command)) continue;
        if (name ? strlen(option->name) == length && memcmp(option->name, name, length) == 0
                 : letter && option->letter == letter)
            return option;
    }
    return NULL;
}

/* Takes the option at argv[*i], and its value from there or from the next word. */
static int read_option(command_options *options, command_id command, int argc, char **argv,
                       int *i) {
    const char *word = argv[*i], *value = NULL;
    const struct option *option;
    if (word[1] == '-') {
        size_t length = strcspn(word + 2, "=");
        option = find_option(command, word + 2, length, 0);
        if (word[2 + length] == '=') value = word + 2 + length + 1;
    } else {
        option = find_option(command, NULL, 0, word[1]);
        if (word[2]) value = word + 2;
    }
    if (!option) return fail_usage("%s: no such option (see 'gsplat-c %s --help')", word, argv[1]);
    void *target = (char *)options + option->offset;
    if (option->kind == OPTION_FLAG) {
        if (value) return fail_usage("%s: --%s takes no value", word, option->name);
        *(bool *)target = true;
        return EXIT_OK;
    }
    if (!value) {
        if (*i + 1 == argc) return fail_usage("%s: needs a value", word);
        value = argv[++*i];
    }
    return set_value(option, target, value);
}

int options_read(command_options *options, command_id command, int argc, char **argv) {
    bool only_operands = false;
    memset(options, 0, sizeof *options);
    options->sh_degree = -1;
    options->device.device_type = kDLCPU;
    for (int i = 2; i < argc; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1]) {
            int code = read_option(options, command, argc, argv, &i);
            if (code != EXIT_OK) return code;
        } else if (options->scene_path) {
            return fail_usage("%s: one scene at a time, after '%s'", argv[i], options->scene_path);
        } else {
            options->scene_path = argv[i];
        }
    }
    return EXIT_OK;
}
