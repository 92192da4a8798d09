/* Dense weights times f32 activations: the definition, one decoder for each encoding. */
#include "base/bytes.h"
#include "base/half.h"
#include "ops/ref/gemm.h"
#include "ops/ref/lanes.h"

enum { CHUNK = 256 }; /* elements decoded at once: a multiple of every block and of the lanes */

/* n elements, n <= CHUNK and a multiple of the block, starting at a block's first byte. */
typedef void (*decode_fn)(const uint8_t *in, size_t n, float *out);

/* How CHUNK elements are stored. */
typedef struct codec {
    decode_fn decode;
    size_t chunk_bytes;
} codec;

static float row_dot(const codec *c, const uint8_t *row, const float *x, size_t cols)
{
    float lanes[TERN_LANES] = {0}, values[CHUNK];
    for (size_t at = 0; at < cols; at += CHUNK, row += c->chunk_bytes) {
        size_t n = cols - at < CHUNK ? cols - at : CHUNK;
        c->decode(row, n, values);
        tern_ref__lanes_add(lanes, values, x + at, n);
    }
    return tern_ref__lanes_sum(lanes);
}

/* n elements of each row, CHUNK of them at a time. */
static void decode_rows(const codec *c, const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, float *out,
                        size_t out_stride)
{
    for (size_t r = 0; r < n_rows; r++)
        for (size_t at = 0; at < cols; at += CHUNK)
            c->decode(w + r * row_bytes + at / CHUNK * c->chunk_bytes, cols - at < CHUNK ? cols - at : CHUNK,
                      out + r * out_stride + at);
}

static void decode_f32(const uint8_t *in, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) out[i] = tern_load_f32(in + 4 * i);
}

static void decode_f16(const uint8_t *in, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) out[i] = tern_f16_to_f32(tern_load_u16(in + 2 * i));
}

static void decode_bf16(const uint8_t *in, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) out[i] = tern_bf16_to_f32(tern_load_u16(in + 2 * i));
}

/* Blocks of 32 in 34 bytes: f16 d, then int8 q; value d * q. */
static void decode_q8_0(const uint8_t *in, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *block = in + i / 32 * 34;
        out[i] = tern_f16_to_f32(tern_load_u16(block)) * (float)(int8_t)block[2 + i % 32];
    }
}

/* Blocks of 256 in 210 bytes: low nibbles [2][64], high pairs [2][32], int8 scales of 16 elements [16], f16 d; value (d
 * * sc) * (q - 32). Half h, quarter k of 32: the low bits are nibble k / 2 of byte k % 2 * 32 + i, the high bits are
 * pair k of byte i. */
static void decode_q6_k(const uint8_t *in, size_t n, float *out)
{
    (void)n;
    const uint8_t *high = in + 128;
    const int8_t *scales = (const int8_t *)in + 192;
    float d = tern_f16_to_f32(tern_load_u16(in + 208));
    for (unsigned e = 0; e < 256; e++) {
        unsigned half = e / 128, quarter = e % 128 / 32, i = e % 32;
        int low = in[half * 64 + quarter % 2 * 32 + i] >> (quarter / 2 * 4) & 15;
        int pair = high[half * 32 + i] >> (2 * quarter) & 3;
        out[e] = (d * (float)scales[e / 16]) * (float)((low | pair << 4) - 32);
    }
}

/* The 6-bit scale sc and minimum m of part j (32 elements) from the 12 bytes at `in`: parts 0 to 3 in the low six bits
 * of bytes j and j + 4, parts 4 to 7 in the nibbles of byte j + 4 below the top two bits of bytes j - 4 and j. */
static void k_part(const uint8_t *in, unsigned j, float *sc, float *m)
{
    if (j < 4) {
        *sc = (float)(in[j] & 63);
        *m = (float)(in[j + 4] & 63);
        return;
    }
    *sc = (float)((in[j + 4] & 15) | in[j - 4] >> 6 << 4);
    *m = (float)(in[j + 4] >> 4 | in[j] >> 6 << 4);
}

/* Blocks of 256 in 144 bytes: f16 d, f16 dmin, 12 bytes of scales, nibbles [4][32] (elements 64k + i low, 64k + 32 + i
 * high); value (d * sc) * q - (dmin * m). */
static void decode_q4_k(const uint8_t *in, size_t n, float *out)
{
    (void)n;
    float d = tern_f16_to_f32(tern_load_u16(in)), dmin = tern_f16_to_f32(tern_load_u16(in + 2));
    for (unsigned e = 0; e < 256; e++) {
        unsigned part = e / 32;
        int q = in[16 + e / 64 * 32 + e % 32] >> (part % 2 * 4) & 15;
        float sc, m;
        k_part(in + 4, part, &sc, &m);
        out[e] = (d * sc) * (float)q - dmin * m;
    }
}

/* Blocks of 256 in 176 bytes: as Q4_K, with 32 bytes before the nibbles, in which bit p of byte i is the fifth bit of
 * element i of part p. */
static void decode_q5_k(const uint8_t *in, size_t n, float *out)
{
    (void)n;
    float d = tern_f16_to_f32(tern_load_u16(in)), dmin = tern_f16_to_f32(tern_load_u16(in + 2));
    for (unsigned e = 0; e < 256; e++) {
        unsigned part = e / 32;
        int q = (in[48 + e / 64 * 32 + e % 32] >> (part % 2 * 4) & 15) | (in[16 + e % 32] >> part & 1) << 4;
        float sc, m;
        k_part(in + 4, part, &sc, &m);
        out[e] = (d * sc) * (float)q - dmin * m;
    }
}

#define DENSE(name, bytes)                                                                                             \
    void tern_ref_##name(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const float *x,           \
                         size_t x_stride, uint32_t n, float *y, size_t y_stride)                                       \
    {                                                                                                                  \
        static const codec c = {decode_##name, bytes};                                                                 \
        for (size_t t = 0; t < n; t++)                                                                                 \
            for (size_t r = 0; r < n_rows; r++)                                                                        \
                y[t * y_stride + r] = row_dot(&c, w + r * row_bytes, x + t * x_stride, cols);                          \
    }

DENSE(f32, 4 * CHUNK)
DENSE(f16, 2 * CHUNK)
DENSE(bf16, 2 * CHUNK)
DENSE(q8_0, CHUNK / 32 * 34)
DENSE(q6_k, 210)
DENSE(q4_k, 144)
DENSE(q5_k, 176)

static void decode_i8(const uint8_t *in, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) out[i] = (float)(int8_t)in[i];
}

#define DECODE(name, bytes)                                                                                            \
    void tern_ref_decode_##name(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, float *out,        \
                                size_t out_stride)                                                                     \
    {                                                                                                                  \
        static const codec c = {decode_##name, bytes};                                                                 \
        decode_rows(&c, w, row_bytes, n_rows, cols, out, out_stride);                                                  \
    }

DECODE(i8, CHUNK)
DECODE(f16, 2 * CHUNK)
DECODE(bf16, 2 * CHUNK)
DECODE(q8_0, CHUNK / 32 * 34)
DECODE(q6_k, 210)
DECODE(q4_k, 144)
DECODE(q5_k, 176)

float tern_ref_dot(const float *a, const float *b, size_t cols)
{
    float lanes[TERN_LANES] = {0};
    tern_ref__lanes_add(lanes, a, b, cols);
    return tern_ref__lanes_sum(lanes);
}
