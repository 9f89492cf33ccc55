#include "json.h"

#include <stdio.h>
#include <string.h>

static void put(gsc__json *json, const char *text, size_t length) {
    if (json->used < json->size) {
        size_t left = json->size - json->used;
        memcpy(json->buffer + json->used, text, length < left ? length : left);
    }
    json->used += length;
}

/* Bytes beyond ASCII pass through: texts are UTF-8, as JSON is. */
static void put_quoted(gsc__json *json, const char *text) {
    put(json, "\"", 1);
    for (; *text; ++text) {
        unsigned char c = (unsigned char)*text;
        char escape[8];
        if (c == '"' || c == '\\') {
            put(json, "\\", 1);
            put(json, text, 1);
        } else if (c < 0x20) {
            put(json, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", c));
        } else {
            put(json, text, 1);
        }
    }
    put(json, "\"", 1);
}

static void put_key(gsc__json *json, const char *key) {
    if (json->continued) put(json, ",", 1);
    json->continued = 1;
    if (!key) return;
    put_quoted(json, key);
    put(json, ":", 1);
}

void gsc__json_begin(gsc__json *json, const char *key, char bracket) {
    put_key(json, key);
    put(json, &bracket, 1);
    json->continued = 0;
}

void gsc__json_end(gsc__json *json, char bracket) {
    put(json, &bracket, 1);
    json->continued = 1;
}

void gsc__json_string(gsc__json *json, const char *key, const char *text) {
    put_key(json, key);
    put_quoted(json, text);
}

void gsc__json_integer(gsc__json *json, const char *key, int64_t value) {
    char text[32];
    put_key(json, key);
    put(json, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)value));
}

size_t gsc__json_finish(gsc__json *json) {
    if (json->size > 0) {
        size_t end = json->used < json->size ? json->used : json->size - 1;
        json->buffer[end] = '\0';
    }
    return json->used + 1;
}
