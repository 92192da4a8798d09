/* Blocks of encodings in the memory of a device. */
#include "backend/gpu/blocks.h"

#include <string.h>

#include "quant/encoding.h"

static const tern_gpu_blocks table[] = {
    {TERN_ENC_Q8_0, TERN_GPU_Q8_0, {{0, 2, 32}, {1, 0, 2}}, 0},
    {TERN_ENC_Q6_K, TERN_GPU_Q6_K, {{0, 0, 208}, {1, 208, 2}}, 0},
    {TERN_ENC_Q5_K, TERN_GPU_Q5_K, {{0, 0, 176}}, 0},
    {TERN_ENC_Q4_K, TERN_GPU_Q4_K, {{0, 0, 144}}, 0},
    {TERN_ENC_Q3_K, TERN_GPU_Q3_K, {{0, 0, 110}}, 2},
    {TERN_ENC_Q2_K, TERN_GPU_Q2_K, {{0, 0, 80}, {1, 80, 4}}, 0},
    {TERN_ENC_Q5_1, TERN_GPU_Q5_1, {{0, 8, 16}, {1, 4, 4}, {2, 0, 4}}, 0},
    {TERN_ENC_Q5_0, TERN_GPU_Q5_0, {{0, 6, 16}, {1, 2, 4}, {2, 0, 2}}, 0},
    {TERN_ENC_Q4_1, TERN_GPU_Q4_1, {{0, 4, 16}, {1, 0, 4}}, 0},
    {TERN_ENC_Q4_0, TERN_GPU_Q4_0, {{0, 2, 16}, {1, 0, 2}}, 0},
    {TERN_ENC_IQ4_NL, TERN_GPU_IQ4_NL, {{0, 2, 16}, {1, 0, 2}}, 0},
    {TERN_ENC_MXFP4, TERN_GPU_MXFP4, {{0, 1, 16}, {1, 0, 1}}, 0},
    {TERN_ENC_Q2_0, TERN_GPU_Q2_0, {{0, 2, 16}, {1, 0, 2}}, 0},
    {TERN_ENC_PQ2_0, TERN_GPU_Q2_0, {{0, 2, 32}, {1, 0, 2}, {1, 0, 2}}, 0},
    {TERN_ENC_Q1_0, TERN_GPU_Q1_0, {{0, 2, 16}, {1, 0, 2}}, 0},
};

const tern_gpu_blocks *tern_gpu_blocks_of(const tern_encoding *e)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].encoding == e->id) return &table[i];
    return e->rewrite ? tern_gpu_blocks_of(tern_encoding_find(e->rewritten)) : NULL;
}

static uint32_t region_bytes(const tern_gpu_blocks *b, uint32_t region)
{
    uint32_t bytes = region == 0 ? b->pad : 0;
    for (uint32_t i = 0; i < TERN_GPU_BLOCK_PIECES; i++)
        if (b->pieces[i].region == region) bytes += b->pieces[i].bytes;
    return bytes;
}

uint32_t tern_gpu_blocks_bytes(const tern_gpu_blocks *b)
{
    uint32_t bytes = b->pad;
    for (uint32_t i = 0; i < TERN_GPU_BLOCK_PIECES; i++) bytes += b->pieces[i].bytes;
    return bytes;
}

bool tern_gpu_blocks_are_file(const tern_gpu_blocks *b)
{
    return b->pieces[1].bytes == 0 && b->pad == 0;
}

/* Where piece i of the first block lies on the device, when the row has n. */
static size_t start_of(const tern_gpu_blocks *b, uint32_t i, size_t n)
{
    size_t at = 0;
    for (uint32_t region = 0; region < b->pieces[i].region; region++) at += n * region_bytes(b, region);
    for (uint32_t k = 0; k < i; k++)
        if (b->pieces[k].region == b->pieces[i].region) at += b->pieces[k].bytes;
    return at;
}

/* n pieces of so many bytes, each a stride behind the one before. */
static inline __attribute__((always_inline)) void copy_each(uint8_t *to, size_t to_stride, const uint8_t *from,
                                                            size_t from_stride, size_t n, size_t bytes)
{
    for (size_t k = 0; k < n; k++) memcpy(to + k * to_stride, from + k * from_stride, bytes);
}

/* With bytes that the compiler knows a piece is a move or two: ten times as fast for short ones. */
static void copy_pieces(uint8_t *to, size_t to_stride, const uint8_t *from, size_t from_stride, size_t n, size_t bytes)
{
    switch (bytes) {
    case 1: copy_each(to, to_stride, from, from_stride, n, 1); break;
    case 2: copy_each(to, to_stride, from, from_stride, n, 2); break;
    case 4: copy_each(to, to_stride, from, from_stride, n, 4); break;
    case 16: copy_each(to, to_stride, from, from_stride, n, 16); break;
    case 32: copy_each(to, to_stride, from, from_stride, n, 32); break;
    default: copy_each(to, to_stride, from, from_stride, n, bytes);
    }
}

void tern_gpu_blocks_split(const tern_gpu_blocks *b, const uint8_t *in, size_t n, uint8_t *out)
{
    const size_t file = tern_encoding_find(b->encoding)->block_bytes;
    for (uint32_t i = 0; i < TERN_GPU_BLOCK_PIECES && b->pieces[i].bytes; i++) {
        const size_t stride = region_bytes(b, b->pieces[i].region), bytes = b->pieces[i].bytes;
        uint8_t *to = out + start_of(b, i, n);
        copy_pieces(to, stride, in + b->pieces[i].at, file, n, bytes);
    }
    if (b->pad == 0) return;
    const size_t stride = region_bytes(b, 0);
    for (size_t k = 0; k < n; k++) memset(out + (k + 1) * stride - b->pad, 0, b->pad);
}

void tern_gpu_blocks_join(const tern_gpu_blocks *b, const uint8_t *in, size_t n, uint8_t *out)
{
    const size_t file = tern_encoding_find(b->encoding)->block_bytes;
    for (uint32_t i = 0; i < TERN_GPU_BLOCK_PIECES && b->pieces[i].bytes; i++) {
        const size_t stride = region_bytes(b, b->pieces[i].region), bytes = b->pieces[i].bytes;
        const uint8_t *from = in + start_of(b, i, n);
        copy_pieces(out + b->pieces[i].at, file, from, stride, n, bytes);
    }
}
