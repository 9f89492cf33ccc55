/* A file with the fuzzer's bytes, for readers that take a path. */
#ifndef FUZZ_FILE_H
#define FUZZ_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Puts the bytes into the one temporary file of this process and returns its path. */
const char *fuzz_file(const uint8_t *data, size_t size);

#endif
