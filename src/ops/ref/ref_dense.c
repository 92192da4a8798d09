/* Dense weights times f32 activations: the definition. ops/ref/decode.h describes the elements. */
#include "ops/ref/decode.h"
#include "ops/ref/gemm.h"
#include "ops/ref/lanes.h"

enum { CHUNK = TERN_REF_CHUNK };

/* How CHUNK elements are stored. */
typedef struct codec {
    tern_ref__decode_fn decode;
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

#define DENSE(name, bytes)                                                                                             \
    void tern_ref_##name(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const float *x,           \
                         size_t x_stride, uint32_t n, float *y, size_t y_stride)                                       \
    {                                                                                                                  \
        static const codec c = {tern_ref__decode_##name, bytes};                                                       \
        for (size_t t = 0; t < n; t++)                                                                                 \
            for (size_t r = 0; r < n_rows; r++)                                                                        \
                y[t * y_stride + r] = row_dot(&c, w + r * row_bytes, x + t * x_stride, cols);                          \
    }

DENSE(f32, 4 * CHUNK)
DENSE(f16, 2 * CHUNK)
DENSE(bf16, 2 * CHUNK)
#define DENSE_BLOCKS(X, name, NAME, elements, bytes) DENSE(name, CHUNK / (elements) * (bytes))
TERN_ENCODING_BLOCK_LIST(DENSE_BLOCKS, )

static void tern_ref__decode_i8(const uint8_t *in, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) out[i] = (float)(int8_t)in[i];
}

#define DECODE(name, bytes)                                                                                            \
    void tern_ref_decode_##name(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, float *out,        \
                                size_t out_stride)                                                                     \
    {                                                                                                                  \
        static const codec c = {tern_ref__decode_##name, bytes};                                                       \
        decode_rows(&c, w, row_bytes, n_rows, cols, out, out_stride);                                                  \
    }

DECODE(i8, CHUNK)
DECODE(f16, 2 * CHUNK)
DECODE(bf16, 2 * CHUNK)
#define DECODE_BLOCKS(X, name, NAME, elements, bytes) DECODE(name, CHUNK / (elements) * (bytes))
TERN_ENCODING_BLOCK_LIST(DECODE_BLOCKS, )

float tern_ref_dot(const float *a, const float *b, size_t cols)
{
    float lanes[TERN_LANES] = {0};
    tern_ref__lanes_add(lanes, a, b, cols);
    return tern_ref__lanes_sum(lanes);
}
