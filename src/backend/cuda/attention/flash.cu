/* Attention of many tokens over pages, with an online softmax (FlashAttention-2, Dao 2023), on tensor cores.
 *
 * A block has 64 queries of a head, a warp 16 of them. Queries and weights are two halves each, keys and values of an
 * f32 cache too, so that all is nearly as in f32. While a tile of keys is multiplied its values arrive, and the next
 * keys while they are. */
#include "backend/cuda/attention/cache.cuh"
#include "backend/cuda/attention/flash.h"
#include "backend/cuda/linear/common.cuh"

enum { WARPS = 4, THREADS = WARPS * 32, QUERIES = WARPS * 16, PAGE = TERN_CUDA_PAGE };

static __device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}

static __device__ __forceinline__ void load_transposed(uint32_t (&r)[4], uint32_t from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}

/* 16 bytes, or as many zeros. */
static __device__ __forceinline__ void copy16_or_zeros(uint32_t to, const void *from, bool is_there)
{
    asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0) : "memory");
}

static __device__ __forceinline__ uint32_t two_halves(float a, float b)
{
    const __half2 h = __floats2half2_rn(a, b);
    return *(const uint32_t *)&h;
}

static __device__ __forceinline__ float rest_of(float x)
{
    return x - __half2float(__float2half_rn(x));
}

/* Rows of DIM halves, in shared memory STRIDE apart: eight rows begin in different banks. */
template <int DIM, int TILE, bool F32> struct Tiles {
    static constexpr int stride = DIM + 8;
    static constexpr int queries = QUERIES * stride, keys = TILE * stride;
    static constexpr size_t bytes = sizeof(__half) * (2 * queries + (F32 ? 4 : 2) * keys);
    __half *q, *k, *v; /* the second halves lie behind the first */

    __device__ __forceinline__ explicit Tiles(__half *memory)
        : q(memory), k(memory + 2 * queries), v(memory + 2 * queries + (F32 ? 2 : 1) * keys)
    {
    }
};

template <int DIM, int TILE, bool F32>
static __device__ __forceinline__ void load_queries(const tern_cuda_attention &p, Tiles<DIM, TILE, F32> s, uint32_t t0,
                                                    uint32_t n, uint32_t head)
{
    constexpr int each = THREADS / (DIM / 2); /* rows at once */
    const uint32_t d = threadIdx.x % (DIM / 2) * 2, first = threadIdx.x / (DIM / 2);
    const float *q = p.q.data + (size_t)t0 * p.q.stride + head * p.head_dim + d;
#pragma unroll 16
    for (uint32_t i = first; i < QUERIES; i += each) {
        const bool is_there = t0 + i < n && d < p.head_dim;
        const float x = is_there ? q[(size_t)i * p.q.stride] * p.scale : 0;
        const float y = is_there ? q[(size_t)i * p.q.stride + 1] * p.scale : 0;
        *(uint32_t *)(s.q + i * s.stride + d) = two_halves(x, y);
        *(uint32_t *)(s.q + s.queries + i * s.stride + d) = two_halves(rest_of(x), rest_of(y));
    }
}

/* Positions at .. at + TILE - 1 of a cache; zeros from `to` on: what lies there is no number of this sequence. */
template <int DIM, int TILE, bool F32>
static __device__ __forceinline__ void load_tile(const tern_cuda_attention &p, tern_cuda_cache cache,
                                                 const uint32_t *pages, uint32_t kv, uint32_t at, uint32_t to,
                                                 __half *out)
{
    constexpr int stride = DIM + 8, each = F32 ? 4 : 8;
    for (uint32_t i = threadIdx.x; i < TILE * DIM / each; i += THREADS) {
        const uint32_t row = i / (DIM / each), d = i % (DIM / each) * each, position = at + row;
        const bool is_there = position < to && d < p.head_dim;
        const size_t from =
            is_there ? tern_cache_at(pages[position / PAGE], kv, position, p.n_kv_heads, p.head_dim) + d : 0;
        __half *h = out + row * stride + d;
        if (F32) {
            float4 x = make_float4(0, 0, 0, 0);
            if (is_there) x = *(const float4 *)((const float *)cache.data + from);
            *(uint2 *)h = make_uint2(two_halves(x.x, x.y), two_halves(x.z, x.w));
            *(uint2 *)(h + TILE * stride) =
                make_uint2(two_halves(rest_of(x.x), rest_of(x.y)), two_halves(rest_of(x.z), rest_of(x.w)));
        } else {
            copy16_or_zeros(shared_address(h), (const __half *)cache.data + from, is_there);
        }
    }
    copies_commit();
}

/* Scores of 16 queries with a tile of keys. */
template <int DIM, int TILE, bool F32>
static __device__ __forceinline__ void multiply_keys(float (&s)[TILE / 8][4], Tiles<DIM, TILE, F32> m)
{
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t q = shared_address(m.q + (warp * 16 + lane % 16) * m.stride + lane / 16 * 8);
    const uint32_t k = shared_address(m.k + (lane / 16 * 8 + lane % 8) * m.stride + lane / 8 % 2 * 8);
#pragma unroll
    for (int j = 0; j < TILE / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) s[j][i] = 0;
#pragma unroll
    for (int d = 0; d < DIM / 16; d++) {
        uint32_t high[4], low[4];
        load_matrices(high, q + d * 32);
        load_matrices(low, q + m.queries * 2 + d * 32);
#pragma unroll
        for (int j = 0; j < TILE / 8; j += 2) {
            uint32_t b[4];
            load_matrices(b, k + j * 8 * m.stride * 2 + d * 32);
            mma_f16(s[j], high, b[0], b[1]);
            mma_f16(s[j + 1], high, b[2], b[3]);
            mma_f16(s[j], low, b[0], b[1]);
            mma_f16(s[j + 1], low, b[2], b[3]);
            if (!F32) continue;
            load_matrices(b, k + m.keys * 2 + j * 8 * m.stride * 2 + d * 32);
            mma_f16(s[j], high, b[0], b[1]);
            mma_f16(s[j + 1], high, b[2], b[3]);
        }
    }
}

/* What a lane knows of its two queries: the positions that they see, and their softmax so far. */
struct Row {
    uint32_t t, low, high; /* high: one after the last; 0: no query */
    float most, sum;
    bool is_mine; /* of a run that was multiplied */
};

/* Scores become weights; gives by what the sums so far are multiplied. */
template <int TILE>
static __device__ __forceinline__ float soften(const tern_cuda_attention &p, Row &row, float (&s)[TILE / 8][4],
                                               int half, uint32_t at, bool in_run)
{
    const uint32_t column = at + threadIdx.x % 4 * 2;
    float top = row.most, total = 0;
#pragma unroll
    for (int j = 0; j < TILE / 8; j++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t position = column + j * 8 + i;
            float &x = s[j][half * 2 + i];
            if (p.softcap > 0) x = tern_softcap(x, p.softcap);
            if (!in_run || position < row.low || position >= row.high) x = -INFINITY;
            top = fmaxf(top, x);
        }
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
    const bool none = top == -INFINITY;
    const float keep = none ? 1.0f : exp2_of((row.most - top) * TERN_LOG2E), less = none ? 0 : top;
#pragma unroll
    for (int j = 0; j < TILE / 8; j++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float &x = s[j][half * 2 + i];
            x = exp2_of((x - less) * TERN_LOG2E);
            total += x;
        }
    row.sum = row.sum * keep + total;
    row.most = top;
    return keep;
}

/* The weights of 16 positions as a matrix's fragment, their first halves or what those leave. */
static __device__ __forceinline__ void weights_of(uint32_t (&a)[4], const float (&x)[4], const float (&y)[4], bool rest)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float u = i < 2 ? x[2 * i] : y[2 * i - 4], v = i < 2 ? x[2 * i + 1] : y[2 * i - 3];
        a[i] = rest ? two_halves(rest_of(u), rest_of(v)) : two_halves(u, v);
    }
}

template <int DIM, int TILE, bool F32>
static __device__ __forceinline__ void add_values(float (&o)[DIM / 8][4], const float (&s)[TILE / 8][4],
                                                  Tiles<DIM, TILE, F32> m)
{
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t v = shared_address(m.v + lane % 16 * m.stride + lane / 16 * 8);
#pragma unroll
    for (int k = 0; k < TILE / 16; k++) {
        uint32_t high[4], low[4];
        weights_of(high, s[2 * k], s[2 * k + 1], false);
        weights_of(low, s[2 * k], s[2 * k + 1], true);
#pragma unroll
        for (int d = 0; d < DIM / 8; d += 2) {
            uint32_t b[4];
            load_transposed(b, v + k * 16 * m.stride * 2 + d * 16);
            mma_f16(o[d], high, b[0], b[1]);
            mma_f16(o[d + 1], high, b[2], b[3]);
            mma_f16(o[d], low, b[0], b[1]);
            mma_f16(o[d + 1], low, b[2], b[3]);
            if (!F32) continue;
            load_transposed(b, v + m.keys * 2 + k * 16 * m.stride * 2 + d * 16);
            mma_f16(o[d], high, b[0], b[1]);
            mma_f16(o[d + 1], high, b[2], b[3]);
        }
    }
}

/* Rows of one sequence, one after the other, from `first` of the block's on: what they see together. */
struct Run {
    uint32_t first, end, from, to;
    const uint32_t *pages;
};

static __device__ __forceinline__ Run run_of(const tern_cuda_attention &p, uint32_t t0, uint32_t n, uint32_t first)
{
    const uint32_t lane = threadIdx.x % 32, of = p.place.sequences[first];
    unsigned long long same = 0;
    uint32_t low[2], high[2];
    Run run = {first, 0, 0xffffffffu, 0, p.place.pages + of * p.place.max_pages};
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t t = t0 + lane + 32 * i;
        const bool is_there = t < n && p.place.sequences[t] == of;
        const uint32_t position = is_there ? p.place.positions[t] : 0;
        low[i] = is_there ? tern_first_seen(p.window, position) : 0xffffffffu;
        high[i] = is_there ? position + 1 : 0;
        same |= (unsigned long long)__ballot_sync(0xffffffffu, is_there) << 32 * i;
    }
    const unsigned long long differ = ~(same >> (first - t0));
    run.end = first + (differ ? __ffsll((long long)differ) - 1 : 64);
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t t = t0 + lane + 32 * i;
        const bool in = t >= first && t < run.end;
        run.from = min(run.from, __reduce_min_sync(0xffffffffu, in ? low[i] : 0xffffffffu));
        run.to = max(run.to, __reduce_max_sync(0xffffffffu, in ? high[i] : 0));
    }
    run.from = run.from / PAGE * PAGE;
    return run;
}

template <int DIM>
static __device__ __forceinline__ void write_rows(const tern_cuda_attention &p, const Row (&row)[2],
                                                  const float (&o)[DIM / 8][4], uint32_t t, uint32_t head)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = row[half].sum;
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        if (!row[half].is_mine) continue;
        if (p.sinks) sum += tern_exp(p.sinks[head] - row[half].most);
        const float inverse = 1.0f / sum;
        float *out = p.out.data + (size_t)(t + half * 8) * p.out.stride + head * p.head_dim + threadIdx.x % 4 * 2;
#pragma unroll
        for (int d = 0; d < DIM / 8; d++) {
            if (d * 8 >= p.head_dim) break;
            out[d * 8] = o[d][half * 2] * inverse;
            out[d * 8 + 1] = o[d][half * 2 + 1] * inverse;
        }
    }
}

template <int DIM, int TILE, bool F32>
static __global__ void __launch_bounds__(THREADS) flash(const __grid_constant__ tern_cuda_attention p)
{
    extern __shared__ __align__(16) __half memory[];
    const Tiles<DIM, TILE, F32> tiles(memory);
    const uint32_t n = tern_rows_now(p.count), t0 = (gridDim.y - 1 - blockIdx.y) * QUERIES, head = blockIdx.x;
    const uint32_t kv = head / (p.n_heads / p.n_kv_heads), mine = t0 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    if (t0 >= n) return;
    load_queries(p, tiles, t0, n, head);
    float o[DIM / 8][4] = {}, s[TILE / 8][4];
    Row row[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint32_t t = mine + half * 8, position = t < n ? p.place.positions[t] : 0;
        row[half] = {t, t < n ? tern_first_seen(p.window, position) : 0, t < n ? position + 1 : 0, -INFINITY, 0, false};
    }
    /* a run of rows of one sequence after the other */
    for (uint32_t first = t0; first < n && first < t0 + QUERIES;) {
        if (const uint32_t brief = tern_brief_rows(p, first, n)) {
            first += brief;
            continue;
        }
        const Run run = run_of(p, t0, n, first);
        const uint32_t from = run.from, to = run.to, *pages = run.pages;
        first = run.end;
#pragma unroll
        for (int half = 0; half < 2; half++) row[half].is_mine |= row[half].t >= run.first && row[half].t < run.end;
        __syncthreads();
        load_tile<DIM, TILE, F32>(p, p.k_cache, pages, kv, from, to, tiles.k);
        load_tile<DIM, TILE, F32>(p, p.v_cache, pages, kv, from, to, tiles.v);
        for (uint32_t at = from; at < to; at += TILE) {
            copies_wait<1>();
            __syncthreads();
            multiply_keys(s, tiles);
            __syncthreads();
            if (at + TILE < to) load_tile<DIM, TILE, F32>(p, p.k_cache, pages, kv, at + TILE, to, tiles.k);
            else copies_commit();
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const bool in_run = row[half].t >= run.first && row[half].t < run.end;
                const float keep = soften<TILE>(p, row[half], s, half, at, in_run);
#pragma unroll
                for (int d = 0; d < DIM / 8; d++) o[d][half * 2] *= keep, o[d][half * 2 + 1] *= keep;
            }
            copies_wait<1>();
            __syncthreads();
            add_values(o, s, tiles);
            __syncthreads();
            if (at + TILE < to) load_tile<DIM, TILE, F32>(p, p.v_cache, pages, kv, at + TILE, to, tiles.v);
        }
    }
    write_rows<DIM>(p, row, o, mine, head);
}

template <int DIM, int TILE, bool F32> static cudaError_t start(const tern_cuda_attention *p, cudaStream_t stream)
{
    constexpr size_t bytes = Tiles<DIM, TILE, F32>::bytes;
    const cudaError_t e =
        cudaFuncSetAttribute(flash<DIM, TILE, F32>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (e != cudaSuccess) return e;
    flash<DIM, TILE, F32><<<dim3(p->n_heads, (p->count.most + QUERIES - 1) / QUERIES), THREADS, bytes, stream>>>(*p);
    return cudaGetLastError();
}

template <bool F32> static cudaError_t start_dim(const tern_cuda_attention *p, cudaStream_t stream)
{
    if (p->head_dim <= 64) return start<64, 64, F32>(p, stream);
    if (p->head_dim <= 128) return start<128, 64, F32>(p, stream);
    return start<256, 32, F32>(p, stream);
}

cudaError_t tern_cuda_flash(const tern_cuda_attention *p, cudaStream_t stream)
{
    if (p->head_dim > 256 || p->head_dim % 8 || p->k_cache.f32 != p->v_cache.f32) return cudaErrorInvalidValue;
    return p->k_cache.f32 ? start_dim<true>(p, stream) : start_dim<false>(p, stream);
}
