/* One number of a weight in the layouts of backend/gpu/layout.h (encodings in backend/gpu/encodings), without the scale
 * of ternary ones: plain, for tables and as what faster kernels are compared with. */
#ifndef TERN_BACKEND_CUDA_UNPACK_CUH
#define TERN_BACKEND_CUDA_UNPACK_CUH

#include <cuda_fp16.h>

#include "backend/cuda/formats.h"
#include "backend/cuda/kernels.h"

static __device__ inline float tern_half_at(const uint8_t *at) { return __half2float(*(const __half *)at); }

/* Scale (out) and minimum (returned) of group g, 0 to 7, of Q4_K and Q5_K. */
static __device__ inline float tern_k_scale(const uint8_t *head, uint32_t g, float *scale)
{
    const uint8_t *s = head + 4;
    const uint32_t six = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | (s[g - 4] >> 6 << 4);
    const uint32_t least = g < 4 ? s[g + 4] & 63 : (s[g + 4] >> 4) | (s[g] >> 6 << 4);
    *scale = tern_half_at(head) * (float)six;
    return tern_half_at(head + 2) * (float)least;
}

static __device__ inline float tern_k_level(const uint8_t *row, uint32_t c, uint32_t block_bytes, bool fifths)
{
    const uint8_t *block = row + c / 256 * block_bytes;
    const uint32_t g = c % 256 / 32;
    float scale;
    const float least = tern_k_scale(block, g, &scale);
    uint32_t level = block[(fifths ? 48 : 16) + g / 2 * 32 + c % 32] >> g % 2 * 4 & 15;
    if (fifths) level |= (block[16 + c % 32] >> g & 1u) << 4;
    return (float)level * scale - least;
}

static __device__ inline float tern_q6_level(const uint8_t *row, uint32_t c, uint32_t cols)
{
    const uint8_t *block = row + c / 256 * 208;
    const uint32_t side = c % 256 / 128, part = c % 128 / 32;
    const uint32_t low = block[side * 64 + part % 2 * 32 + c % 32] >> part / 2 * 4 & 15;
    const uint32_t high = block[128 + side * 32 + c % 32] >> part * 2 & 3;
    const float d = tern_half_at(row + cols / 256 * 208 + c / 256 * 2) * (float)(int8_t)block[192 + c % 256 / 16];
    return d * ((float)(low | high << 4) - 32.0f);
}

static __device__ inline float tern_q3_level(const uint8_t *row, uint32_t c)
{
    const uint8_t *block = row + c / 256 * 112, *scales = block + 96;
    const uint32_t side = c % 256 / 128, part = c % 128 / 32, g = c % 256 / 16;
    const uint32_t low = scales[g % 8] >> g / 8 * 4 & 15, high = scales[8 + g % 4] >> g / 4 * 2 & 3;
    const uint32_t level = (block[32 + side * 32 + c % 32] >> part * 2 & 3) |
                           (block[c % 32] >> (side * 4 + part) & 1u) << 2;
    return tern_half_at(scales + 12) * ((float)(low | high << 4) - 32.0f) * ((float)level - 4.0f);
}

static __device__ inline float tern_q2_level(const uint8_t *row, uint32_t c, uint32_t cols)
{
    const uint8_t *block = row + c / 256 * 80, *ds = row + cols / 256 * 80 + c / 256 * 4;
    const uint32_t side = c % 256 / 128, part = c % 128 / 32, both = block[c % 256 / 16];
    const uint32_t level = block[16 + side * 32 + c % 32] >> part * 2 & 3;
    return tern_half_at(ds) * (float)(both & 15) * (float)level - tern_half_at(ds + 2) * (float)(both >> 4);
}

/* Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL. */
static __device__ inline float tern_block_level(uint32_t format, const uint8_t *row, uint32_t c, uint32_t cols)
{
    const int8_t steps[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    const bool fifths = format == TERN_GPU_Q5_0 || format == TERN_GPU_Q5_1;
    const bool least = format == TERN_GPU_Q4_1 || format == TERN_GPU_Q5_1;
    const uint32_t block = c / 32, at = cols / 2 + (fifths ? cols / 8 : 0);
    uint32_t level = row[block * 16 + c % 16] >> c % 32 / 16 * 4 & 15;
    if (fifths) level |= (*(const uint32_t *)(row + cols / 2 + block * 4) >> c % 32 & 1u) << 4;
    if (least) return (float)level * tern_half_at(row + at + block * 4) + tern_half_at(row + at + block * 4 + 2);
    const float number = format == TERN_GPU_IQ4_NL ? (float)steps[level] : (float)level - (fifths ? 16.0f : 8.0f);
    return number * tern_half_at(row + at + block * 2);
}

/* A byte e in place of d: 2^(e - 128) times twice the numbers of E2M1; 0 for e = 0, as on the other GPUs. */
static __device__ inline float tern_mxfp4_level(const uint8_t *row, uint32_t c, uint32_t cols)
{
    const uint32_t block = c / 32, level = row[block * 16 + c % 16] >> c % 32 / 16 * 4 & 15, e = row[cols / 2 + block];
    const uint32_t size = level & 7, twice = size < 4 ? size : size == 4 ? 4 : size == 5 ? 6 : size == 6 ? 8 : 12;
    const float half = __uint_as_float(e << 23) * 0.5f;
    return (level & 8 ? -(float)twice : (float)twice) * half;
}

/* Whether tern_element knows the format. */
static inline bool tern_has_element(uint32_t format) { return format <= TERN_GPU_MXFP4; }

static __device__ inline float tern_element(uint32_t format, const uint8_t *row, uint32_t c, uint32_t cols)
{
    switch (format) {
    case TERN_GPU_TERNARY: return (float)(row[c / 128 * 32 + c % 32] >> (6 - c % 128 / 32 * 2) & 3) - 1.0f;
    case TERN_GPU_F32: return ((const float *)row)[c];
    case TERN_GPU_F16: return tern_half_at(row + 2 * c);
    case TERN_GPU_BF16: return __uint_as_float((uint32_t)((const uint16_t *)row)[c] << 16);
    case TERN_GPU_Q8_0: return (float)(int8_t)row[c] * tern_half_at(row + cols + c / 32 * 2);
    case TERN_GPU_Q6_K: return tern_q6_level(row, c, cols);
    case TERN_GPU_Q4_K: return tern_k_level(row, c, 144, false);
    case TERN_GPU_Q5_K: return tern_k_level(row, c, 176, true);
    case TERN_GPU_Q3_K: return tern_q3_level(row, c);
    case TERN_GPU_Q2_K: return tern_q2_level(row, c, cols);
    case TERN_GPU_MXFP4: return tern_mxfp4_level(row, c, cols);
    case TERN_GPU_Q2_0:
        return ((float)(row[c / 4] >> c % 4 * 2 & 3) - 1.0f) * tern_half_at(row + cols / 4 + c / 64 * 2);
    case TERN_GPU_Q1_0:
        return ((float)(row[c / 8] >> c % 8 & 1) * 2.0f - 1.0f) * tern_half_at(row + cols / 8 + c / 128 * 2);
    default: return tern_block_level(format, row, c, cols);
    }
}

#endif
