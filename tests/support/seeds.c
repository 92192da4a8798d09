/* A reader of the tar files that scripts/fuzz_seeds.py writes: plain files with names of at most 99 bytes. */
#include "support/seeds.h"

#include <string.h>

#define BLOCK       512
#define NAME_BYTES  100
#define SIZE_AT     124
#define SIZE_DIGITS 11
#define KIND_AT     156
#define MAGIC_AT    257

static bool octal(const uint8_t *digits, size_t n, size_t *value)
{
    *value = 0;
    for (size_t i = 0; i < n; i++) {
        if (digits[i] < '0' || digits[i] > '7') return false;
        *value = *value * 8 + (size_t)(digits[i] - '0');
    }
    return true;
}

static bool is_file(const uint8_t *header)
{
    return header[KIND_AT] == '0' && memcmp(header + MAGIC_AT, "ustar", 6) == 0 && memchr(header, 0, NAME_BYTES);
}

seed_cursor seed_begin(const void *archive, size_t size)
{
    return (seed_cursor){archive, size, false};
}

bool seed_next(seed_cursor *cursor, seed *out)
{
    const uint8_t *header = cursor->at;
    size_t size = 0;
    if (cursor->bad) return false;
    if (cursor->left >= BLOCK && header[0] == 0) return false;
    cursor->bad = cursor->left < BLOCK || !is_file(header) || !octal(header + SIZE_AT, SIZE_DIGITS, &size) ||
                  size > cursor->left - BLOCK;
    if (cursor->bad) return false;
    *out = (seed){(const char *)header, header + BLOCK, size};
    const size_t step = BLOCK + (size + BLOCK - 1) / BLOCK * BLOCK;
    cursor->at += step < cursor->left ? step : cursor->left;
    cursor->left -= step < cursor->left ? step : cursor->left;
    return true;
}
