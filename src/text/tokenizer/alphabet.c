/* GPT-2's alphabet: each byte as one printable character. */
#include "text/tokenizer/alphabet.h"

#include <stdbool.h>

#include "text/utf8.h"

static bool is_printable(uint32_t byte)
{
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

/* How many unprintable bytes are below this one: 0..0x20 are 33, 0x7F..0xA0 are 34, 0xAD is the last. */
static uint32_t unprintable_rank(uint8_t byte)
{
    if (byte <= 0x20) return byte;
    return byte == 0xAD ? 67u : 33u + (byte - 0x7Fu);
}

uint32_t tern_alphabet__code(uint8_t byte)
{
    return is_printable(byte) ? byte : 0x100 + unprintable_rank(byte);
}

int tern_alphabet__byte(uint32_t code)
{
    if (code < 0x100) return is_printable(code) ? (int)code : -1;
    uint32_t rank = code - 0x100;
    if (rank > 67) return -1;
    if (rank == 67) return 0xAD;
    return rank < 33 ? (int)rank : (int)(rank - 33 + 0x7F);
}

size_t tern_alphabet__decode(uint8_t *out, const uint8_t *piece, size_t n)
{
    size_t size = 0;
    for (size_t at = 0; at < n;) {
        uint32_t code = 0;
        unsigned length = tern_utf8__decode(piece + at, n - at, &code);
        int byte = length ? tern_alphabet__byte(code) : -1;
        if (byte < 0) return SIZE_MAX;
        out[size++] = (uint8_t)byte;
        at += length;
    }
    return size;
}
