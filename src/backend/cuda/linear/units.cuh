// Rows of dense weights by units, as backend/gpu/encodings has them: what one load of 16 bytes begins (of floats, the
// load itself), in parts of EIGHT or SIXTEEN neighbouring columns. Layouts: backend/gpu/layout.h. TERNARY gives codes
// -1, 0, 1.
#ifndef TERN_BACKEND_CUDA_LINEAR_UNITS_CUH
#define TERN_BACKEND_CUDA_LINEAR_UNITS_CUH

#include <cstring>

#include "backend/cuda/linear/common.cuh"

// As it is stored; which of these a format uses is its own.
struct Unit {
    uint4 a, b, c, scales;
    float d, least;
};

template <int F> struct Format {
    static constexpr bool floats = F == TERN_GPU_F32 || F == TERN_GPU_F16 || F == TERN_GPU_BF16;
    static constexpr bool halves = F == TERN_GPU_F16 || F == TERN_GPU_BF16;
    static constexpr bool pairs = F == TERN_GPU_Q3_K || F == TERN_GPU_Q2_K;
    static constexpr bool k4 = F == TERN_GPU_Q4_K || F == TERN_GPU_Q5_K;
    static constexpr bool few = F == TERN_GPU_Q2_0 || F == TERN_GPU_Q1_0;
    static constexpr bool fifths = F == TERN_GPU_Q5_0 || F == TERN_GPU_Q5_1;
    static constexpr bool lows = F == TERN_GPU_Q4_1 || F == TERN_GPU_Q5_1; // they have a least number
    static constexpr int columns = floats ? 8 : 16;                        // of a part
    static constexpr int parts = floats || F == TERN_GPU_Q8_0                                  ? 1
                                 : F == TERN_GPU_Q6_K || pairs || few || F == TERN_GPU_TERNARY ? 4
                                                                                               : 2;
};

// A T of device memory that nobody writes; on the host, for tests, of its own.
template <class T> static __host__ __device__ __forceinline__ T read_only(const uint8_t *p)
{
#ifdef __CUDA_ARCH__
    return __ldg((const T *)p);
#else
    return *(const T *)p;
#endif
}

static __host__ __device__ __forceinline__ uint16_t bits16(const uint8_t *p)
{
    return read_only<unsigned short>(p);
}

static __host__ __device__ __forceinline__ uint32_t bits32(const uint8_t *p)
{
    return read_only<unsigned int>(p);
}

static __host__ __device__ __forceinline__ float half_at(const uint8_t *p)
{
    return __half2float(__ushort_as_half(bits16(p)));
}

static __host__ __device__ __forceinline__ float2 halves_of(uint32_t v)
{
    return __half22float2(*(const __half2 *)&v);
}

static __host__ __device__ __forceinline__ uint4 cached16(const uint8_t *p)
{
    return read_only<uint4>(p);
}

// 16 bytes that are read once.
static __host__ __device__ __forceinline__ uint4 streamed16(const uint8_t *p)
{
#ifdef __CUDA_ARCH__
    return stream16(p);
#else
    return cached16(p);
#endif
}

static __host__ __device__ __forceinline__ float float_of(uint32_t bits)
{
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
#endif
}

// Scale and least number of blocks of 32, in `from` on.
template <int F>
static __host__ __device__ __forceinline__ void load_block_scale(Unit &u, const uint8_t *row, uint32_t i, uint32_t from)
{
    if (Format<F>::lows) {
        const float2 both = halves_of(bits32(row + from + i * 4));
        u.d = both.x;
        u.least = both.y;
    } else if (F == TERN_GPU_MXFP4) {
        u.d = float_of((uint32_t)read_only<unsigned char>(row + from + i) << 23) * 0.5f; // half its scale
    } else {
        u.d = half_at(row + from + i * 2);
    }
}

// Unit i of a row of `cols` columns in `bytes`.
template <int F>
static __host__ __device__ __forceinline__ Unit load_unit(const uint8_t *row, uint32_t i, uint32_t cols, uint32_t bytes)
{
    using P = Format<F>;
    Unit u = {};
    if (F == TERN_GPU_F32) {
        u.a = streamed16(row + i * 32);
        if (i * 32 + 16 < bytes) u.b = streamed16(row + i * 32 + 16);
    } else if (P::halves) {
        u.a = streamed16(row + i * 16);
    } else if (F == TERN_GPU_TERNARY) {
        u.a = streamed16(row + i * 16);
    } else if (F == TERN_GPU_Q8_0) {
        u.a = streamed16(row + i * 16);
        u.d = half_at(row + cols + i / 2 * 2);
    } else if (F == TERN_GPU_Q6_K) {
        const uint8_t *block = row + i / 4 * 208;
        const uint32_t side = i / 2 % 2;
        u.a = cached16(block + (4 * side + i % 2) * 16);
        u.b = cached16(block + (4 * side + 2 + i % 2) * 16);
        u.c = cached16(block + (8 + 2 * side + i % 2) * 16);
        u.scales = cached16(block + 192);
        u.d = half_at(row + cols / 256 * 208 + i / 4 * 2);
    } else if (F == TERN_GPU_Q4_K) {
        u.a = cached16(row + (i / 8 * 9 + 1 + i % 8) * 16);
        u.b = cached16(row + i / 8 * 144);
    } else if (F == TERN_GPU_Q5_K) {
        const uint8_t *block = row + i / 8 * 176;
        u.a = cached16(block + (3 + i % 8) * 16);
        u.b = cached16(block);
        u.c = cached16(block + (1 + i % 2) * 16);
    } else if (P::pairs) {
        const uint8_t *block = row + i / 4 * (F == TERN_GPU_Q3_K ? 112 : 80);
        u.a = cached16(block + ((F == TERN_GPU_Q3_K ? 2 : 1) + i % 4) * 16);
        if (F == TERN_GPU_Q3_K) u.c = cached16(block + i % 2 * 16);
        else u.b.x = bits32(row + cols / 256 * 80 + i / 4 * 4);
        u.scales = cached16(block + (F == TERN_GPU_Q3_K ? 96 : 0));
    } else if (F == TERN_GPU_Q1_0) {
        const uint2 two = read_only<uint2>(row + i * 8);
        u.a = make_uint4(two.x, two.x >> 16, two.y, two.y >> 16);
        u.d = half_at(row + cols / 8 + i / 2 * 2);
    } else if (F == TERN_GPU_Q2_0) {
        u.a = streamed16(row + i * 16);
        u.d = half_at(row + cols / 4 + i * 2);
    } else {
        u.a = streamed16(row + i * 16);
        if (P::fifths) u.b.x = bits32(row + cols / 2 + i * 4);
        load_block_scale<F>(u, row, i, cols / 2 + (P::fifths ? cols / 8 : 0));
    }
    return u;
}

// The first column of a part.
template <int F> static __host__ __device__ __forceinline__ uint32_t column_of(uint32_t i, uint32_t part)
{
    using P = Format<F>;
    if (P::floats) return i * 8;
    if (F == TERN_GPU_Q8_0) return i * 16;
    if (F == TERN_GPU_Q6_K || P::pairs || F == TERN_GPU_TERNARY) return i / 2 * 128 + part * 32 + i % 2 * 16;
    if (P::k4) return i / 2 * 64 + part * 32 + i % 2 * 16;
    if (P::few) return i * 64 + part * 16;
    return i * 32 + part * 16;
}

// How many units a row has.
template <int F> static __host__ __device__ __forceinline__ uint32_t units_of(uint32_t cols, uint32_t bytes)
{
    if (F == TERN_GPU_TERNARY) return bytes / 16;
    const uint32_t columns = Format<F>::columns * Format<F>::parts;
    return (cols + columns - 1) / columns;
}

static __host__ __device__ __forceinline__ uint32_t word_of(const uint4 &v, uint32_t i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

static __host__ __device__ __forceinline__ void four_bytes(uint32_t v, float *out)
{
#pragma unroll
    for (int i = 0; i < 4; i++) out[i] = (float)(v >> 8 * i & 255);
}

// The lowest four bits, each as the fifth of a byte.
static __host__ __device__ __forceinline__ uint32_t fifths_of(uint32_t bits)
{
    return (bits & 1) << 4 | (bits & 2) << 11 | (bits & 4) << 18 | (bits & 8) << 25;
}

static __host__ __device__ __forceinline__ float signed_byte(uint32_t v, uint32_t i)
{
    return (float)(int8_t)(v >> 8 * i);
}

// Levels of IQ4_NL, or twice those of MXFP4 (ops/ref/ref_decode.c).
template <int F> static __host__ __device__ __forceinline__ float step_of(uint32_t q)
{
    if (F == TERN_GPU_MXFP4) {
        const uint32_t w = q < 8 ? q < 4 ? 0x03020100u : 0x0c080604u : q < 12 ? 0xfdfeff00u : 0xf4f8fafcu;
        return signed_byte(w, q & 3);
    }
    const uint32_t w = q < 8 ? q < 4 ? 0xbfad9881u : 0xf6eaddcfu : q < 12 ? 0x26190d01u : 0x71594535u;
    return signed_byte(w, q & 3);
}

// By what the levels of a group of Q4_K or Q5_K are multiplied, and what is then taken away.
static __host__ __device__ __forceinline__ float2 k4_scale(const uint4 &head, uint32_t group)
{
    const uint32_t shift = group % 4 * 8;
    uint32_t scale = head.y >> shift & 63, least = head.z >> shift & 63;
    if (group >= 4) {
        scale = (head.w >> shift & 15) | (head.y >> (shift + 6) & 3) << 4;
        least = (head.w >> (shift + 4) & 15) | (head.z >> (shift + 6) & 3) << 4;
    }
    const float2 ds = halves_of(head.x);
    return make_float2(ds.x * (float)scale, ds.y * (float)least);
}

// The same of 16 columns of Q3_K (whose levels are less 4) and Q2_K.
template <int F> static __host__ __device__ __forceinline__ float2 pairs_scale(const Unit &u, uint32_t group)
{
    if (F == TERN_GPU_Q3_K) {
        const uint32_t low = word_of(u.scales, group % 8 / 4) >> (group % 4 * 8 + group / 8 * 4) & 15;
        const uint32_t high = u.scales.z >> (group % 4 * 8 + group / 4 * 2) & 3;
        const float d = halves_of(u.scales.w).x * ((float)(low | high << 4) - 32);
        return make_float2(d, 4 * d);
    }
    const uint32_t both = word_of(u.scales, group / 4) >> group % 4 * 8;
    const float2 ds = halves_of(u.b.x);
    return make_float2(ds.x * (float)(both & 15), ds.y * (float)(both >> 4 & 15));
}

static __host__ __device__ __forceinline__ void floats_of(int format, const Unit &u, float *v)
{
    const uint32_t w[8] = {u.a.x, u.a.y, u.a.z, u.a.w, u.b.x, u.b.y, u.b.z, u.b.w};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const uint32_t pair = w[i / 2];
        if (format == TERN_GPU_F32) v[i] = float_of(w[i]);
        else if (format == TERN_GPU_F16) v[i] = i % 2 ? halves_of(pair).y : halves_of(pair).x;
        else v[i] = float_of(i % 2 ? pair & 0xffff0000u : pair << 16);
    }
}

// Levels of a part, four to a word; of those that have levels in bytes.
template <int F>
static __host__ __device__ __forceinline__ uint32_t levels_of(const Unit &u, uint32_t i, uint32_t part, int k)
{
    using P = Format<F>;
    const uint32_t NIBBLES = 0x0f0f0f0fu, PAIRS = 0x03030303u, BITS = 0x01010101u;
    if (F == TERN_GPU_Q6_K) {
        const uint32_t low = word_of(part % 2 ? u.b : u.a, k) >> part / 2 * 4 & NIBBLES;
        return low | (word_of(u.c, k) >> part * 2 & PAIRS) << 4;
    }
    if (P::pairs) {
        const uint32_t low = word_of(u.a, k) >> part * 2 & PAIRS;
        if (F == TERN_GPU_Q2_K) return low;
        return low | (word_of(u.c, k) >> (i / 2 % 2 * 4 + part) & BITS) << 2;
    }
    if (F == TERN_GPU_TERNARY) return word_of(u.a, k) >> (6 - 2 * part) & PAIRS;
    uint32_t levels = word_of(u.a, k) >> part * 4 & NIBBLES;
    if (F == TERN_GPU_Q5_K) levels |= (word_of(u.c, k) >> (i % 8 / 2 * 2 + part) & BITS) << 4;
    if (P::fifths) levels |= fifths_of(u.b.x >> (part * 16 + k * 4));
    return levels;
}

// What levels are multiplied with, and what is then taken away.
template <int F>
static __host__ __device__ __forceinline__ float2 scale_of_part(const Unit &u, uint32_t i, uint32_t part)
{
    using P = Format<F>;
    if (F == TERN_GPU_TERNARY) return make_float2(1, 1);
    if (F == TERN_GPU_Q6_K) {
        const uint32_t index = i / 2 % 2 * 8 + part * 2 + i % 2;
        const float d = u.d * signed_byte(word_of(u.scales, index / 4), index % 4);
        return make_float2(d, 32 * d);
    }
    if (P::k4) return k4_scale(u.b, i % 8 / 2 * 2 + part);
    if (P::pairs) return pairs_scale<F>(u, i / 2 % 2 * 8 + part * 2 + i % 2);
    if (P::lows) return make_float2(u.d, -u.least);
    return make_float2(u.d, F == TERN_GPU_Q4_0 ? 8 * u.d : F == TERN_GPU_Q5_0 ? 16 * u.d : 0);
}

// The numbers of a part.
template <int F>
static __host__ __device__ __forceinline__ void numbers_of(const Unit &u, uint32_t i, uint32_t part, float *v)
{
    using P = Format<F>;
    if (P::floats) {
        floats_of(F, u, v);
        return;
    }
    if (P::few) {
        const uint32_t w = word_of(u.a, part);
#pragma unroll
        for (int k = 0; k < 16; k++)
            v[k] = u.d * (F == TERN_GPU_Q2_0 ? (float)(w >> 2 * k & 3) - 1 : (float)(w >> k & 1) * 2 - 1);
        return;
    }
    const float2 by = scale_of_part<F>(u, i, part);
#pragma unroll
    for (int k = 0; k < 4; k++) {
        if (F == TERN_GPU_Q8_0) {
#pragma unroll
            for (int b = 0; b < 4; b++) v[4 * k + b] = u.d * signed_byte(word_of(u.a, k), b);
        } else if (F == TERN_GPU_IQ4_NL || F == TERN_GPU_MXFP4) {
            const uint32_t levels = levels_of<F>(u, i, part, k);
#pragma unroll
            for (int b = 0; b < 4; b++) v[4 * k + b] = u.d * step_of<F>(levels >> 8 * b & 15);
        } else {
            four_bytes(levels_of<F>(u, i, part, k), v + 4 * k);
#pragma unroll
            for (int b = 0; b < 4; b++) v[4 * k + b] = v[4 * k + b] * by.x - by.y;
        }
    }
}

// X(FORMAT) of every format in blocks, and of every format, without ternary.
#define TERN_CUDA_BLOCK_FORMATS(X)                                                                                     \
    X(Q8_0)                                                                                                            \
    X(Q6_K)                                                                                                            \
    X(Q4_K) X(Q5_K) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(IQ4_NL) X(Q3_K) X(Q2_K) X(Q2_0) X(Q1_0) X(MXFP4)
#define TERN_CUDA_DENSE_FORMATS(X) X(F32) X(F16) X(BF16) TERN_CUDA_BLOCK_FORMATS(X)

#endif
