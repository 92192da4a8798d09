/* Scans of stored bytes for values that must not be there; chunked, so that the common case vectorises. */
#include "quant/table.h"

enum { CHUNK = 4096 };

/* All exponent bits set, seen in the value's second byte. */
static bool nonfinite(const uint8_t *p)
{
    return (p[1] & 0x7c) == 0x7c;
}

size_t tern_f16__find_nonfinite(const uint8_t *first, size_t stride, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (nonfinite(first + i * stride)) return i;
    return n;
}

size_t tern_f16__find_nonfinite_packed(const uint8_t *values, size_t n)
{
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t len = n - at < CHUNK ? n - at : CHUNK;
        uint8_t found = 0;
        for (size_t i = 0; i < len; i++) found |= nonfinite(values + 2 * (at + i));
        if (found) return at + tern_f16__find_nonfinite(values + 2 * at, 2, len);
    }
    return n;
}

bool tern_bits__any_11(const uint8_t *bytes, size_t n)
{
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t len = n - at < CHUNK ? n - at : CHUNK;
        uint8_t found = 0;
        for (size_t i = 0; i < len; i++) found |= (uint8_t)(bytes[at + i] & bytes[at + i] >> 1 & 0x55);
        if (found) return true;
    }
    return false;
}
