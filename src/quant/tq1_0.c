/* TQ1_0: 256 codes as base-3 digits, five to a byte (the last 16 four to a byte), then one f16 scale. */
#include "base/bytes.h"
#include "base/half.h"
#include "quant/table.h"
#include "quant/ternary.h"

enum { ELEMENTS = 256, BYTES = 54, SCALE_AT = 52 };

/* The block is three runs of bytes. Byte b of a run holds elements first + b + k * stride for k = 0 .. digits - 1. */
static const struct run {
    unsigned byte, n_bytes, first, digits;
} runs[] = {{0, 32, 0, 5}, {32, 16, 160, 5}, {48, 4, 240, 4}};

enum { N_RUNS = sizeof runs / sizeof *runs };

/* A byte is ceil(v * 256 / 243), v the number with five base-3 digits, first element first (a missing fifth is 0): read
 * as the fraction byte / 256, so that multiplying by 3 brings out one digit after the other. Source: GGML's TQ1_0. */
static uint8_t byte_of(const int8_t *codes, unsigned stride, unsigned digits)
{
    unsigned v = 0;
    for (unsigned k = 0; k < 5; k++) v = v * 3 + (k < digits ? (unsigned)(codes[k * stride] + 1) : 0);
    return (uint8_t)((v * 256 + 242) / 243);
}

static void pack_block(const int8_t *codes, float scale, void *block)
{
    uint8_t *out = block;
    for (unsigned r = 0; r < N_RUNS; r++)
        for (unsigned b = 0; b < runs[r].n_bytes; b++)
            out[runs[r].byte + b] = byte_of(codes + runs[r].first + b, runs[r].n_bytes, runs[r].digits);
    tern_store_u16(out + SCALE_AT, tern_f32_to_f16(scale));
}

static void unpack_run(const uint8_t *in, struct run r, uint8_t *raw)
{
    for (unsigned b = 0; b < r.n_bytes; b++) {
        unsigned fraction = in[b];
        for (unsigned k = 0; k < r.digits; k++) {
            raw[b + k * r.n_bytes] = (uint8_t)(fraction * 3 >> 8);
            fraction = fraction * 3 & 0xff;
        }
    }
}

static void unpack_block(const void *block, uint8_t *raw)
{
    for (unsigned r = 0; r < N_RUNS; r++)
        unpack_run((const uint8_t *)block + runs[r].byte, runs[r], raw + runs[r].first);
}

static float scale_of(const void *block)
{
    return tern_f16_to_f32(tern_load_u16((const uint8_t *)block + SCALE_AT));
}

static size_t find_nonfinite(const void *in, size_t n_blocks)
{
    return tern_f16__find_nonfinite((const uint8_t *)in + SCALE_AT, BYTES, n_blocks);
}

static const tern_ternary codec = {.pack = pack_block, .unpack = unpack_block, .scale = scale_of};

TERN_TERNARY_FUNCTIONS(tern_encoding__tq1_0)

const tern_encoding tern_encoding__tq1_0 = {
    .name = "tq1_0",
    .id = TERN_ENC_TQ1_0,
    .block_elements = ELEMENTS,
    .block_bytes = BYTES,
    .ternary = true,
    .pack = pack,
    .unpack = unpack,
    .pack_codes = pack_codes,
    .unpack_codes = unpack_codes,
    .find_nonfinite = find_nonfinite,
    .codec = &codec,
};
