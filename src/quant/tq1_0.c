/* Codes as base-3 digits, five to a byte (the last ones four), then one f16 scale: TQ1_0 has 256, PTQ1_0 128. */
#include "base/bytes.h"
#include "base/half.h"
#include "quant/block.h"
#include "quant/signed_fit.h"
#include "quant/table.h"
#include "quant/ternary.h"

enum { ELEMENTS = 256, BYTES = 54, SCALE_AT = 52 };
enum { PTQ_ELEMENTS = 128, PTQ_BYTES = 28, PTQ_SCALE_AT = 26, N_RUNS = 3 };

/* A block is three runs of bytes. Byte b of a run holds elements first + b + k * n_bytes for k = 0 .. digits - 1. */
typedef struct run {
    unsigned byte, n_bytes, first, digits;
} run;

static const run tq1_0[N_RUNS] = {{0, 32, 0, 5}, {32, 16, 160, 5}, {48, 4, 240, 4}};
static const run ptq1_0[N_RUNS] = {{0, 16, 0, 5}, {16, 8, 80, 5}, {24, 2, 120, 4}};

/* A byte is ceil(v * 256 / 243), v being the number with five base-3 digits, the first element's first; a missing fifth
 * is 0. It is read as the fraction byte / 256: multiplying by 3 brings out one digit after the other. Sources: TQ1_0 of
 * GGML, PTQ1_0 of PrismML's llama.cpp. */
static uint8_t byte_of(const int8_t *codes, unsigned stride, unsigned digits)
{
    unsigned v = 0;
    for (unsigned k = 0; k < 5; k++) v = v * 3 + (k < digits ? (unsigned)(codes[k * stride] + 1) : 0);
    return (uint8_t)((v * 256 + 242) / 243);
}

static void pack_runs(const run *runs, const int8_t *codes, uint8_t *out)
{
    for (unsigned r = 0; r < N_RUNS; r++)
        for (unsigned b = 0; b < runs[r].n_bytes; b++)
            out[runs[r].byte + b] = byte_of(codes + runs[r].first + b, runs[r].n_bytes, runs[r].digits);
}

static void unpack_run(const uint8_t *in, run r, uint8_t *raw)
{
    for (unsigned b = 0; b < r.n_bytes; b++) {
        unsigned fraction = in[b];
        for (unsigned k = 0; k < r.digits; k++) {
            raw[b + k * r.n_bytes] = (uint8_t)(fraction * 3 >> 8);
            fraction = fraction * 3 & 0xff;
        }
    }
}

static void unpack_runs(const run *runs, const uint8_t *in, uint8_t *raw)
{
    for (unsigned r = 0; r < N_RUNS; r++) unpack_run(in + runs[r].byte, runs[r], raw + runs[r].first);
}

static void pack_block(const int8_t *codes, float scale, void *block)
{
    uint8_t *out = block;
    pack_runs(tq1_0, codes, out);
    tern_store_u16(out + SCALE_AT, tern_f32_to_f16(scale));
}

static void unpack_block(const void *block, uint8_t *raw)
{
    unpack_runs(tq1_0, block, raw);
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

/* The search puts the largest number on level 1, so that its scale may be below 0; that of a block never is. */
static void pack_numbers(const float *x, const float *w, uint8_t *out)
{
    enum { SIGN = 0x8000 };
    const tern_signed_fit levels = {
        .n = PTQ_ELEMENTS, .low = -1, .high = 1, .first = 0.6f, .step = 0.1f, .candidates = 40};
    float q[PTQ_ELEMENTS] = {0};
    int8_t codes[PTQ_ELEMENTS];
    const uint16_t d = tern_signed_fit__half(&levels, x, w, q);
    for (unsigned i = 0; i < PTQ_ELEMENTS; i++) codes[i] = (int8_t)(d & SIGN ? -q[i] : q[i]);
    pack_runs(ptq1_0, codes, out);
    tern_store_u16(out + PTQ_SCALE_AT, (uint16_t)(d & ~SIGN));
}

static void unpack_numbers(const uint8_t *in, float *x)
{
    const float d = tern_f16_to_f32(tern_load_u16(in + PTQ_SCALE_AT));
    uint8_t raw[PTQ_ELEMENTS] = {0};
    unpack_runs(ptq1_0, in, raw);
    for (unsigned i = 0; i < PTQ_ELEMENTS; i++) x[i] = d * (float)(raw[i] - 1);
}

/* As PQ2_0: the scale, then four elements in each byte, the first in the lowest bits. */
static void as_pairs(const void *in, size_t n_blocks, void *out)
{
    enum { PAIRS = PTQ_ELEMENTS / 4 };
    const uint8_t *from = in;
    uint8_t *to = out;
    for (size_t b = 0; b < n_blocks; b++, from += PTQ_BYTES, to += 2 + PAIRS) {
        uint8_t raw[PTQ_ELEMENTS];
        unpack_runs(ptq1_0, from, raw);
        tern_store_u16(to, tern_load_u16(from + PTQ_SCALE_AT));
        for (unsigned i = 0; i < PAIRS; i++)
            to[2 + i] = (uint8_t)(raw[4 * i] | raw[4 * i + 1] << 2 | raw[4 * i + 2] << 4 | raw[4 * i + 3] << 6);
    }
}

TERN_BLOCK_FUNCTIONS(ptq1_0, PTQ_ELEMENTS, PTQ_BYTES, pack_numbers, unpack_numbers)
TERN_BLOCK_FIND(ptq1_0, PTQ_BYTES, PTQ_SCALE_AT, PTQ_SCALE_AT)

const tern_encoding tern_encoding__ptq1_0 = {
    TERN_BLOCK_FIELDS(ptq1_0, PTQ1_0, PTQ_ELEMENTS, PTQ_BYTES, find_nonfinite_ptq1_0),
    .rewrite = as_pairs,
    .rewritten = TERN_ENC_PQ2_0,
};
