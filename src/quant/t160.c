/* T160: five codes to a byte, in an order that 64-entry look-ups decode. */
#include "quant/t160.h"

#include "quant/table.h"
#include "quant/ternary.h"

/* The fields of a pair number 0 .. 8, and the entries of the tables. */
#define PAIR(p)       ((p) % 3 | (p) / 3 << 2)
#define FOUR(p, q)    (PAIR(p) | PAIR(q) << 4)
#define LOW(i)        FOUR((i)&7, (i) >> 3)
#define ESCAPE(k)     ((k) < 8 ? FOUR(8, (k)&7) : FOUR((k)&7, 8))
#define HIGH(i)       (uint8_t)((i) < 48 ? ESCAPE((i)&15) : (i) < 51 ? FOUR(8, 8) : 0x55)
#define HIGH_FIFTH(i) (uint8_t)((i) < 48 ? (i) >> 4 : (i) < 51 ? (i)-48 : 1)

#define ENTRY(f, i)    (uint8_t)(f(i))
#define TIMES_4(f, i)  ENTRY(f, i), ENTRY(f, (i) + 1), ENTRY(f, (i) + 2), ENTRY(f, (i) + 3)
#define TIMES_16(f, i) TIMES_4(f, i), TIMES_4(f, (i) + 4), TIMES_4(f, (i) + 8), TIMES_4(f, (i) + 12)
#define TIMES_64(f)    TIMES_16(f, 0), TIMES_16(f, 16), TIMES_16(f, 32), TIMES_16(f, 48)

const uint8_t tern_t160_low[64] = {TIMES_64(LOW)};
const uint8_t tern_t160_high[64] = {TIMES_64(HIGH)};
const uint8_t tern_t160_high_fifth[64] = {TIMES_64(HIGH_FIFTH)};

static uint8_t byte_of(const uint8_t c[5])
{
    unsigned p = c[0] + 3u * c[1], q = c[2] + 3u * c[3], fifth = c[4];
    if (p < 8 && q < 8) return (uint8_t)(fifth << 6 | q << 3 | p);
    if (p == 8 && q == 8) return (uint8_t)(0xf0 | fifth);
    return (uint8_t)(0xc0 | fifth << 4 | (p == 8 ? q : 8 | p));
}

/* n <= 5 * lanes codes to `lanes` bytes, zeros after them. */
static void pack_lanes(const int8_t *codes, size_t n, size_t lanes, uint8_t *out)
{
    for (size_t j = 0; j < lanes; j++) {
        uint8_t c[5];
        for (size_t k = 0; k < 5; k++) {
            size_t i = j + k * lanes;
            c[k] = i < n ? (uint8_t)(codes[i] + 1) : 1;
        }
        out[j] = byte_of(c);
    }
}

static void unpack_lanes(const uint8_t *in, size_t lanes, uint8_t *raw)
{
    for (size_t j = 0; j < lanes; j++) {
        bool valid = in[j] < TERN_T160_FIRST_INVALID;
        uint32_t fields = tern_t160_fields(in[j]);
        for (size_t k = 0; k < 5; k++) raw[j + k * lanes] = valid ? (uint8_t)(fields >> (2 * k) & 3) : TERN_RAW_INVALID;
    }
}

static void pack_block(const int8_t *codes, float scale, void *block)
{
    (void)scale;
    pack_lanes(codes, TERN_T160_ELEMENTS, TERN_T160_BYTES, block);
}

static void unpack_block(const void *block, uint8_t *raw)
{
    unpack_lanes(block, TERN_T160_BYTES, raw);
}

static bool any_invalid(const void *in, size_t n_blocks)
{
    const uint8_t *bytes = in;
    for (size_t b = 0; b < n_blocks; b++, bytes += TERN_T160_BYTES) {
        unsigned found = 0;
        for (size_t i = 0; i < TERN_T160_BYTES; i++) found |= bytes[i] >= TERN_T160_FIRST_INVALID;
        if (found) return true;
    }
    return false;
}

static size_t short_capacity(size_t n)
{
    return 5 * tern_t160_lanes(n);
}

static void pack_short(const int8_t *codes, size_t n, void *block)
{
    pack_lanes(codes, n, tern_t160_lanes(n), block);
}

static void unpack_short(const void *block, size_t n, uint8_t *raw)
{
    unpack_lanes(block, tern_t160_lanes(n), raw);
}

static const tern_ternary codec = {
    .pack = pack_block,
    .unpack = unpack_block,
    .any_invalid = any_invalid,
    .short_bytes = tern_t160_lanes,
    .short_capacity = short_capacity,
    .pack_short = pack_short,
    .unpack_short = unpack_short,
};

TERN_TERNARY_FUNCTIONS(tern_encoding__t160)

const tern_encoding tern_encoding__t160 = {
    .name = "t160",
    .id = TERN_ENC_T160,
    .block_elements = TERN_T160_ELEMENTS,
    .block_bytes = TERN_T160_BYTES,
    .tail_bytes = 32,
    .ragged = true,
    .ternary = true,
    .pack = pack,
    .unpack = unpack,
    .pack_codes = pack_codes,
    .unpack_codes = unpack_codes,
    .codec = &codec,
};
