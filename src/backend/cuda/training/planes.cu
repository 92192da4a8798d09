/* Numbers become halves: rows as they lie, and what a product sums over down the columns through tiles of shared
 * memory. */
#include "backend/cuda/training/planes.cuh"

#include <cuda_bf16.h>

#include "backend/cuda/device.cuh"
#include "backend/cuda/unpack.cuh"

enum { THREADS = 256, SIDE = 64, GROUP = 128, GROUP_BYTES = 32 };

typedef float Tile[SIDE][SIDE + 1]; /* [c][t] */

static bool is_ternary(uint32_t format)
{
    return format == TERN_GPU_TERNARY;
}

uint32_t tern_cuda_weight_planes(uint32_t format)
{
    return is_ternary(format) || format == TERN_GPU_F16 || format == TERN_GPU_BF16 || format == TERN_GPU_MXFP4 ? 1 : 2;
}

float tern_cuda_weight_times(uint32_t format)
{
    return is_ternary(format) || format == TERN_GPU_F16 ? 1.0f : 64.0f;
}

/* 2^(14 - exponent of the largest), kept among numbers whose inverse is one too. */
static __device__ __forceinline__ float factor_of(float most, float *inverse)
{
    const int power = min(max(2 * 127 + 14 - (int)(__float_as_uint(most) >> 23 & 255), 1), 253);
    *inverse = __uint_as_float((uint32_t)(254 - power) << 23);
    return __uint_as_float((uint32_t)power << 23);
}

/* The planes that numbers become. */
enum { ONE_HALF, TWO_HALVES, ONE_BF16 };

/* Two neighbours; two halves: the 11 leading bits and, a plane further, what is left. */
template <int FORM> static __device__ __forceinline__ void halves_of(float x, float y, uint32_t &first, uint32_t &rest)
{
    constexpr bool TWO = FORM == TWO_HALVES;
    if (FORM == ONE_BF16) {
        const __nv_bfloat162 h = __floats2bfloat162_rn(x, y);
        first = *(const uint32_t *)&h;
        rest = 0;
        return;
    }
    const uint32_t leading = 0xffffe000u;
    const float a = TWO ? __uint_as_float(__float_as_uint(x) & leading) : x;
    const float b = TWO ? __uint_as_float(__float_as_uint(y) & leading) : y;
    const __half2 h = __floats2half2_rn(a, b), l = __floats2half2_rn(x - a, y - b);
    first = *(const uint32_t *)&h;
    rest = *(const uint32_t *)&l;
}

/* Eight columns; to: a multiple of 8. */
template <int FORM> static __device__ __forceinline__ void store_eight(const planes &p, size_t to, const float (&x)[8])
{
    uint32_t first[4], rest[4];
#pragma unroll
    for (int i = 0; i < 4; i++) halves_of<FORM>(x[2 * i], x[2 * i + 1], first[i], rest[i]);
    *(uint4 *)(p.data + to) = make_uint4(first[0], first[1], first[2], first[3]);
    if (FORM == TWO_HALVES) *(uint4 *)(p.data + p.plane + to) = make_uint4(rest[0], rest[1], rest[2], rest[3]);
}

static __device__ __forceinline__ float number_at(const tern_cuda_floats &f, uint32_t t, uint32_t c)
{
    const float x = f.from.data[(size_t)t * f.from.stride + c] * (f.by ? f.by[t] : 1.0f);
    return f.along ? x * f.along[c] : x;
}

/* Columns c to c + 3 of a row, c a multiple of 4; zeros beyond the last. */
template <bool ALIGNED>
static __device__ __forceinline__ float4 four_at(const tern_cuda_floats &f, uint32_t t, uint32_t c)
{
    const float4 x = tern_four_of<ALIGNED>(f.from.data + (size_t)t * f.from.stride, c, f.cols);
    const float by = f.by ? f.by[t] : 1.0f;
    float4 y = make_float4(x.x * by, x.y * by, x.z * by, x.w * by);
    if (!f.along) return y;
    const float4 along = tern_four_of<false>(f.along, c, f.cols);
    return make_float4(y.x * along.x, y.y * along.y, y.z * along.z, y.w * along.w);
}

/* int8 rows without their scales. */
typedef struct levels {
    tern_cuda_count count;
    tern_cuda_q8 q;
    uint32_t cols;
} levels;

template <bool ALIGNED> static __device__ __forceinline__ float4 four_at(const levels &f, uint32_t t, uint32_t c)
{
    const int8_t *row = f.q.data + (size_t)t * f.q.stride + c;
    if (!ALIGNED || c + 4 > f.cols)
        return make_float4(c < f.cols ? row[0] : 0, c + 1 < f.cols ? row[1] : 0, c + 2 < f.cols ? row[2] : 0,
                           c + 3 < f.cols ? row[3] : 0);
    const char4 x = *(const char4 *)row;
    return make_float4(x.x, x.y, x.z, x.w);
}

/* The largest magnitude of a chunk, of which each of eight lanes has eight numbers. */
static __device__ __forceinline__ float most_of_chunk(const float (&x)[8])
{
    float most = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) most = fmaxf(most, fabsf(x[i]));
#pragma unroll
    for (int k = 4; k > 0; k /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, k));
    return most;
}

static __device__ __forceinline__ void multiply_by(float (&x)[8], float factor)
{
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] *= factor;
}

/* Eight lanes have a chunk of a row. */
template <bool ALIGNED> static __global__ void __launch_bounds__(THREADS) split_rows(tern_cuda_floats f, planes out)
{
    const uint32_t chunks = (out.ld + CHUNK - 1) / CHUNK, unit = blockIdx.x * (THREADS / 8) + threadIdx.x / 8;
    const uint32_t t = unit / chunks, chunk = unit % chunks, c = chunk * CHUNK + threadIdx.x % 8 * 8;
    const bool is_there = t < tern_rows_now(f.count);
    float inverse;
    float4 a = make_float4(0, 0, 0, 0), b = a;
    if (is_there) a = four_at<ALIGNED>(f, t, c), b = four_at<ALIGNED>(f, t, c + 4);
    float x[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    multiply_by(x, factor_of(most_of_chunk(x), &inverse));
    if (!is_there) return;
    if (threadIdx.x % 8 == 0) out.inverse[(size_t)chunk * f.count.most + t] = inverse;
    if (c < out.ld) store_eight<TWO_HALVES>(out, (size_t)t * out.ld + c, x);
}

void tern_cuda_split_rows(const tern_cuda_floats *f, planes out, cudaStream_t stream)
{
    const uint32_t units = f->count.most * ((out.ld + CHUNK - 1) / CHUNK), each = THREADS / 8;
    if (tern_is_aligned(f->from)) split_rows<true><<<(units + each - 1) / each, THREADS, 0, stream>>>(*f, out);
    else split_rows<false><<<(units + each - 1) / each, THREADS, 0, stream>>>(*f, out);
}

/* A thread has eight columns of a row. */
template <bool ALIGNED> static __global__ void __launch_bounds__(THREADS) round_rows(tern_cuda_floats f, planes out)
{
    const uint32_t eights = out.ld / 8, unit = blockIdx.x * THREADS + threadIdx.x, t = unit / eights;
    const uint32_t c = unit % eights * 8;
    if (t >= tern_rows_now(f.count)) return;
    const float4 a = four_at<ALIGNED>(f, t, c), b = four_at<ALIGNED>(f, t, c + 4);
    const float x[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    store_eight<ONE_BF16>(out, (size_t)t * out.ld + c, x);
}

void tern_cuda_round_rows_bf16(const tern_cuda_floats *f, planes out, cudaStream_t stream)
{
    const uint32_t units = f->count.most * (out.ld / 8), blocks = (units + THREADS - 1) / THREADS;
    if (tern_is_aligned(f->from)) round_rows<true><<<blocks, THREADS, 0, stream>>>(*f, out);
    else round_rows<false><<<blocks, THREADS, 0, stream>>>(*f, out);
}

/* The largest magnitudes of 32 columns and 64 rows; the bits of floats that are not negative are in their order. */
static __global__ void __launch_bounds__(THREADS) find_most(tern_cuda_floats f, uint32_t *most)
{
    __shared__ float lines[THREADS / 32][32];
    const uint32_t c = blockIdx.x * 32 + threadIdx.x % 32, line = threadIdx.x / 32, n = tern_rows_now(f.count);
    float x = 0;
#pragma unroll
    for (uint32_t i = 0; i < SIDE; i += THREADS / 32) {
        const uint32_t t = blockIdx.y * SIDE + line + i;
        if (t < n && c < f.cols) x = fmaxf(x, fabsf(number_at(f, t, c)));
    }
    lines[line][threadIdx.x % 32] = x;
    __syncthreads();
    if (line > 0 || c >= f.cols) return;
#pragma unroll
    for (uint32_t i = 1; i < THREADS / 32; i++) x = fmaxf(x, lines[i][threadIdx.x % 32]);
    atomicMax(most + c, __float_as_uint(x));
}

/* What numbers of a tile are multiplied with: nothing, a power of two of their chunk, or of their row. */
enum { AS_THEY_ARE, BY_CHUNK, BY_ROW };

/* Rows c0 .. of planes, columns t0 ..: each eight lanes have a row's 64; `most` of rows. */
template <int FORM, int FACTORS = AS_THEY_ARE>
static __device__ __forceinline__ void store_tile(const planes &out, const Tile &tile, uint32_t c0, uint32_t cols,
                                                  uint32_t t0, const uint32_t *most = NULL)
{
#pragma unroll
    for (uint32_t i = 0; i < SIDE; i += THREADS / 8) {
        const uint32_t at = i + threadIdx.x / 8, c = c0 + at, t = threadIdx.x % 8 * 8;
        float x[8], inverse = 1;
#pragma unroll
        for (uint32_t k = 0; k < 8; k++) x[k] = tile[at][t + k];
        if (FACTORS == BY_CHUNK) multiply_by(x, factor_of(most_of_chunk(x), &inverse));
        if (FACTORS == BY_ROW) multiply_by(x, factor_of(c < cols ? __uint_as_float(most[c]) : 0, &inverse));
        if (c >= cols) continue;
        if (FACTORS == BY_CHUNK && t == 0) out.inverse[(size_t)(t0 / CHUNK) * cols + c] = inverse;
        if (FACTORS == BY_ROW && t == 0 && t0 == 0) out.inverse[c] = inverse;
        if (t0 + t < out.ld) store_eight<FORM>(out, (size_t)c * out.ld + t0 + t, x);
    }
}

/* Rows become columns. */
template <typename From, bool ALIGNED, int FORM, int FACTORS>
static __global__ void __launch_bounds__(THREADS) turn(From f, planes out, const uint32_t *most)
{
    __shared__ Tile tile;
    const uint32_t c0 = blockIdx.x * SIDE, t0 = blockIdx.y * SIDE, n = tern_rows_now(f.count);
    const uint32_t row = threadIdx.x / 16, c = threadIdx.x % 16 * 4;
    float4 x[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t t = t0 + row + 16 * i;
        x[i] = t < n ? four_at<ALIGNED>(f, t, c0 + c) : make_float4(0, 0, 0, 0);
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        tile[c][row + 16 * i] = x[i].x, tile[c + 1][row + 16 * i] = x[i].y;
        tile[c + 2][row + 16 * i] = x[i].z, tile[c + 3][row + 16 * i] = x[i].w;
    }
    __syncthreads();
    store_tile<FORM, FACTORS>(out, tile, c0, f.cols, t0, most);
}

static dim3 tiles_of(uint32_t cols, uint32_t rows)
{
    return dim3((cols + SIDE - 1) / SIDE, (rows + SIDE - 1) / SIDE);
}

void tern_cuda_split_columns(const tern_cuda_floats *f, planes out, cudaStream_t stream)
{
    const dim3 grid = tiles_of(f->cols, out.ld);
    if (tern_is_aligned(f->from))
        turn<tern_cuda_floats, true, TWO_HALVES, BY_CHUNK><<<grid, THREADS, 0, stream>>>(*f, out, NULL);
    else turn<tern_cuda_floats, false, TWO_HALVES, BY_CHUNK><<<grid, THREADS, 0, stream>>>(*f, out, NULL);
}

void tern_cuda_split_whole_columns(const tern_cuda_floats *f, planes out, uint32_t *most, cudaStream_t stream)
{
    const dim3 parts((f->cols + 31) / 32, (f->count.most + SIDE - 1) / SIDE), grid = tiles_of(f->cols, out.ld);
    cudaMemsetAsync(most, 0, f->cols * sizeof *most, stream);
    find_most<<<parts, THREADS, 0, stream>>>(*f, most);
    if (tern_is_aligned(f->from))
        turn<tern_cuda_floats, true, TWO_HALVES, BY_ROW><<<grid, THREADS, 0, stream>>>(*f, out, most);
    else turn<tern_cuda_floats, false, TWO_HALVES, BY_ROW><<<grid, THREADS, 0, stream>>>(*f, out, most);
}

void tern_cuda_round_columns_bf16(const tern_cuda_floats *f, planes out, cudaStream_t stream)
{
    const dim3 grid = tiles_of(f->cols, out.ld);
    if (tern_is_aligned(f->from))
        turn<tern_cuda_floats, true, ONE_BF16, AS_THEY_ARE><<<grid, THREADS, 0, stream>>>(*f, out, NULL);
    else turn<tern_cuda_floats, false, ONE_BF16, AS_THEY_ARE><<<grid, THREADS, 0, stream>>>(*f, out, NULL);
}

template <int FORM>
static void turn_levels(tern_cuda_count count, tern_cuda_q8 q, uint32_t cols, planes out, cudaStream_t stream)
{
    const levels f = {count, q, cols};
    const dim3 grid = tiles_of(cols, out.ld);
    if (((size_t)q.data & 3) == 0 && q.stride % 4 == 0)
        turn<levels, true, FORM, AS_THEY_ARE><<<grid, THREADS, 0, stream>>>(f, out, NULL);
    else turn<levels, false, FORM, AS_THEY_ARE><<<grid, THREADS, 0, stream>>>(f, out, NULL);
}

void tern_cuda_split_levels(tern_cuda_count count, tern_cuda_q8 q, uint32_t cols, planes out, cudaStream_t stream)
{
    turn_levels<ONE_HALF>(count, q, cols, out, stream);
}

void tern_cuda_round_levels_bf16(tern_cuda_count count, tern_cuda_q8 q, uint32_t cols, planes out, cudaStream_t stream)
{
    turn_levels<ONE_BF16>(count, q, cols, out, stream);
}

/* FORMAT -1: that of the weight. */
template <int FORMAT, int FORM>
static __global__ void __launch_bounds__(THREADS)
    split_weight(tern_cuda_weight w, uint32_t first, uint32_t n, float times, planes out)
{
    __shared__ Tile tile;
    const uint32_t c0 = blockIdx.x * SIDE, r0 = blockIdx.y * SIDE, lane = threadIdx.x % SIDE, c = c0 + lane;
    const uint32_t format = FORMAT < 0 ? w.format : (uint32_t)FORMAT;
    for (uint32_t i = threadIdx.x / SIDE; i < SIDE; i += THREADS / SIDE) {
        const bool is_there = r0 + i < n && c < w.cols;
        const uint8_t *row = w.data + (size_t)(first + r0 + i) * w.row_bytes;
        tile[lane][i] = is_there ? tern_element(format, row, c, w.cols) * times : 0;
    }
    __syncthreads();
    store_tile<FORM>(out, tile, c0, w.cols, r0);
}

/* Four codes of one column, a byte each, as numbers code - 1. Their upper bytes are 0xbc, 0 or 0x3c of halves, and
 * 0xbf, 0 or 0x3f of bf16, whose lower ones are 0x80 or 0. */
template <int FORM> static __device__ __forceinline__ uint2 numbers_of_codes(uint32_t v)
{
    const bool bf16 = FORM == ONE_BF16;
    const uint32_t upper = bf16 ? 0x003f00bfu : 0x003c00bcu, lower = bf16 ? 0x00800080u : 0;
    return make_uint2(__byte_perm(upper, lower, (v << 4 & 0x3030u) | (v & 0x0303u) | 0x0404u),
                      __byte_perm(upper, lower, (v >> 12 & 0x3030u) | (v >> 16 & 0x0303u) | 0x0404u));
}

/* A block has a group of 128 columns and 64 rows: bytes are turned before they are taken apart. */
template <int FORM>
static __global__ void __launch_bounds__(THREADS)
    split_codes(tern_cuda_weight w, uint32_t first, uint32_t n, planes out)
{
    __shared__ __align__(8) uint8_t bytes[GROUP_BYTES][SIDE + 8];
    const uint32_t r0 = blockIdx.y * SIDE, c0 = blockIdx.x * GROUP;
    const uint32_t r = threadIdx.x / 4, at = threadIdx.x % 4 * 8;
    uint2 word = make_uint2(0, 0);
    if (r0 + r < n) word = *(const uint2 *)(w.data + (size_t)(first + r0 + r) * w.row_bytes + c0 / 4 + at);
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        bytes[at + i][r] = (uint8_t)(word.x >> 8 * i);
        bytes[at + 4 + i][r] = (uint8_t)(word.y >> 8 * i);
    }
    __syncthreads();
#pragma unroll
    for (uint32_t i = 0; i < GROUP; i += THREADS / 8) { /* a quarter of the group */
        const uint32_t c = threadIdx.x / 8, to = threadIdx.x % 8 * 8, shift = 6 - i / 32 * 2, M = 0x03030303u;
        if (c0 + i + c >= w.cols || r0 + to >= out.ld) continue;
        const uint2 v = *(const uint2 *)&bytes[c][to];
        const uint2 a = numbers_of_codes<FORM>(v.x >> shift & M), b = numbers_of_codes<FORM>(v.y >> shift & M);
        *(uint4 *)(out.data + (size_t)(c0 + i + c) * out.ld + r0 + to) = make_uint4(a.x, a.y, b.x, b.y);
    }
}

void tern_cuda_split_weight(const tern_cuda_weight *w, uint32_t first, uint32_t n, planes out, cudaStream_t stream)
{
    const dim3 grid = tiles_of(w->cols, out.ld);
    const float times = tern_cuda_weight_times(w->format);
    switch (w->format) {
    case TERN_GPU_TERNARY:
        split_codes<ONE_HALF><<<dim3((w->cols + GROUP - 1) / GROUP, grid.y), THREADS, 0, stream>>>(*w, first, n, out);
        break;
    case TERN_GPU_F16:
        split_weight<TERN_GPU_F16, ONE_HALF><<<grid, THREADS, 0, stream>>>(*w, first, n, times, out);
        break;
    case TERN_GPU_BF16:
        split_weight<TERN_GPU_BF16, ONE_HALF><<<grid, THREADS, 0, stream>>>(*w, first, n, times, out);
        break;
    case TERN_GPU_MXFP4:
        split_weight<TERN_GPU_MXFP4, ONE_HALF><<<grid, THREADS, 0, stream>>>(*w, first, n, times, out);
        break;
    case TERN_GPU_F32:
        split_weight<TERN_GPU_F32, TWO_HALVES><<<grid, THREADS, 0, stream>>>(*w, first, n, times, out);
        break;
    default: split_weight<-1, TWO_HALVES><<<grid, THREADS, 0, stream>>>(*w, first, n, times, out);
    }
}

void tern_cuda_round_weight_bf16(const tern_cuda_weight *w, uint32_t first, uint32_t n, planes out, cudaStream_t stream)
{
    const dim3 grid = tiles_of(w->cols, out.ld), groups((w->cols + GROUP - 1) / GROUP, grid.y);
    switch (w->format) {
    case TERN_GPU_TERNARY: split_codes<ONE_BF16><<<groups, THREADS, 0, stream>>>(*w, first, n, out); break;
    case TERN_GPU_F16: split_weight<TERN_GPU_F16, ONE_BF16><<<grid, THREADS, 0, stream>>>(*w, first, n, 1, out); break;
    case TERN_GPU_F32: split_weight<TERN_GPU_F32, ONE_BF16><<<grid, THREADS, 0, stream>>>(*w, first, n, 1, out); break;
    default: split_weight<-1, ONE_BF16><<<grid, THREADS, 0, stream>>>(*w, first, n, 1, out);
    }
}
