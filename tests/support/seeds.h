/* Reads the seeds of a fuzzer: the files in tests/fuzz/corpus/NAME.tar, which scripts/fuzz_seeds.py writes. */
#ifndef TERN_TESTS_SUPPORT_SEEDS_H
#define TERN_TESTS_SUPPORT_SEEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file in an archive; name and data point into the archive. */
typedef struct seed {
    const char *name;
    const uint8_t *data;
    size_t size;
} seed;

/* Where the next file of an archive (tar, ustar) in memory begins. */
typedef struct seed_cursor {
    const uint8_t *at;
    size_t left;
    bool bad; /* cut, or with a header that is not of a plain file */
} seed_cursor;

seed_cursor seed_begin(const void *archive, size_t size);
/* Reads the next file. False at the end and once the cursor is bad. */
bool seed_next(seed_cursor *cursor, seed *out);

#endif
