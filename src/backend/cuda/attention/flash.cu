/* Attention of many tokens over pages, with an online softmax (FlashAttention-2, Dao 2023), on tensor cores.
 *
 * A block has 64 queries of a head, a warp 16 of them. Several groups of four warps take the tiles of keys in turns,
 * and what they have is merged in the end. Queries and weights are two halves each, keys and values of an f32 cache
 * too, so that all is nearly as in f32. While a tile of keys is multiplied its values arrive, and the next keys while
 * they are. Products that add to the same sums stand eight apart, so that none waits for the one before. */
#include "backend/cuda/attention/cache.cuh"
#include "backend/cuda/attention/flash.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/linear/common.cuh"

enum { WARPS = 4, THREADS = WARPS * 32, QUERIES = WARPS * 16, PAGE = TERN_CUDA_PAGE }; /* of a group */
enum { FEW_BLOCKS = 264 }; /* two for each processor of an H200 */

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

/* Waits for the other warps of this one's group. */
static __device__ __forceinline__ void group_wait()
{
    asm volatile("bar.sync %0,%1;" ::"r"(1 + threadIdx.x / THREADS), "n"((int)THREADS) : "memory");
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

/* Rows of DIM halves, in shared memory STRIDE apart: eight rows begin in different banks. Queries are every group's. */
template <int DIM, int TILE, int FORM> struct Tiles {
    static constexpr int stride = DIM + 8;
    static constexpr int queries = QUERIES * stride, keys = TILE * stride, group = (FORM == HALVES ? 2 : 4) * keys;
    static constexpr size_t bytes(int groups)
    {
        return sizeof(__half) * (2 * queries + groups * group);
    }
    __half *q, *k, *v; /* the second halves lie behind the first */

    __device__ __forceinline__ explicit Tiles(__half *memory)
        : q(memory), k(memory + 2 * queries + threadIdx.x / THREADS * group), v(k + group / 2)
    {
    }
};

/* A thread's part of the block's queries. What lies behind the last row of now is multiplied and never written. */
template <int DIM, int GROUPS> struct Queries {
    static constexpr int step = GROUPS * THREADS / (DIM / 2); /* rows at once */
    float2 x[QUERIES / step];

    __device__ __forceinline__ void fetch(const tern_cuda_attention &p, uint32_t t0, uint32_t head)
    {
        const uint32_t d = threadIdx.x % (DIM / 2) * 2, first = t0 + threadIdx.x / (DIM / 2);
        const float *q = p.q.data + (size_t)first * p.q.stride + head * p.head_dim + d;
#pragma unroll
        for (int i = 0; i < QUERIES / step; i++) {
            const bool is_there = first + i * step < p.count.most && d < p.head_dim;
            x[i] = is_there ? *(const float2 *)(q + (size_t)i * step * p.q.stride) : make_float2(0, 0);
        }
    }

    __device__ __forceinline__ void store(__half *out, int stride, float scale) const
    {
        out += threadIdx.x / (DIM / 2) * stride + threadIdx.x % (DIM / 2) * 2;
#pragma unroll
        for (int i = 0; i < QUERIES / step; i++) {
            const float a = x[i].x * scale, b = x[i].y * scale;
            *(uint32_t *)(out + i * step * stride) = two_halves(a, b);
            *(uint32_t *)(out + (QUERIES + i * step) * stride) = two_halves(rest_of(a), rest_of(b));
        }
    }
};

/* Four numbers of a cache: of floats from number `at` on, of blocks those from column d of row `at` on. */
template <int FORM>
static __device__ __forceinline__ float4 four_of(tern_cuda_cache cache, size_t at, uint32_t d, uint32_t head_dim)
{
    if (FORM == FLOATS) return *(const float4 *)((const float *)cache.data + at);
    return tern_block_four(cache.bits, tern_block_row(cache, at, head_dim), head_dim, d);
}

/* Positions at .. at + TILE - 1 of a cache, at being a page's first; zeros from `to` on: what lies there is no number
 * of this sequence. A thread has the same elements of every few positions. */
template <int DIM, int TILE, int FORM>
static __device__ __forceinline__ void load_tile(const tern_cuda_attention &p, tern_cuda_cache cache,
                                                 const uint32_t *pages, uint32_t kv, uint32_t at, uint32_t to,
                                                 __half *out)
{
    constexpr int stride = DIM + 8, each = FORM == HALVES ? 8 : 4, step = THREADS / (DIM / each);
    static_assert(PAGE % step == 0 && TILE % PAGE == 0, "a thread's rows lie alike in every page");
    const uint32_t i = threadIdx.x % THREADS, first = i / (DIM / each), d = i % (DIM / each) * each;
    const uint32_t unit = FORM == BLOCKS ? 1 : p.head_dim, start = FORM == BLOCKS ? 0 : d; /* rows, or numbers */
    const bool is_there = d < p.head_dim;
    out += first * stride + d;
#pragma unroll
    for (int page = 0; page < TILE / PAGE; page++) {
        const uint32_t position = at + page * PAGE;
        const size_t from =
            position < to ? tern_cache_at(pages[position / PAGE], kv, first, p.n_kv_heads, unit) + start : 0;
#pragma unroll
        for (int row = 0; row < PAGE; row += step) {
            const bool is_here = is_there && position + first + row < to;
            __half *h = out + (page * PAGE + row) * stride;
            const size_t element = is_here ? from + row * unit : 0;
            if (FORM != HALVES) {
                float4 x = four_of<FORM>(cache, element, is_here ? d : 0, p.head_dim);
                if (!is_here) x = make_float4(0, 0, 0, 0);
                *(uint2 *)h = make_uint2(two_halves(x.x, x.y), two_halves(x.z, x.w));
                *(uint2 *)(h + TILE * stride) =
                    make_uint2(two_halves(rest_of(x.x), rest_of(x.y)), two_halves(rest_of(x.z), rest_of(x.w)));
            } else {
                copy16_or_zeros(shared_address(h), (const __half *)cache.data + element, is_here);
            }
        }
    }
    copies_commit();
}

/* c (eight or fewer of 16 x 8) += a times b's pairs of columns. */
template <int PAIRS>
static __device__ __forceinline__ void multiply_pairs(float (*c)[4], const uint32_t (&a)[4],
                                                      const uint32_t (&b)[PAIRS][4])
{
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        mma_f16(c[2 * j], a, b[j][0], b[j][1]);
        mma_f16(c[2 * j + 1], a, b[j][2], b[j][3]);
    }
}

/* Scores of 16 queries with a tile of keys. */
template <int DIM, int TILE, int FORM>
static __device__ __forceinline__ void multiply_keys(float (&s)[TILE / 8][4], Tiles<DIM, TILE, FORM> m)
{
    const uint32_t warp = threadIdx.x / 32 % WARPS, lane = threadIdx.x % 32;
    const uint32_t q = shared_address(m.q + (warp * 16 + lane % 16) * m.stride + lane / 16 * 8);
    const uint32_t k = shared_address(m.k + (lane / 16 * 8 + lane % 8) * m.stride + lane / 8 % 2 * 8);
#pragma unroll
    for (int j = 0; j < TILE / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) s[j][i] = 0;
#pragma unroll
    for (int d = 0; d < DIM / 16; d++) {
        uint32_t high[4], low[4], b[TILE / 16][4];
        load_matrices(high, q + d * 32);
        load_matrices(low, q + m.queries * 2 + d * 32);
#pragma unroll
        for (int j = 0; j < TILE / 16; j++) load_matrices(b[j], k + j * 16 * m.stride * 2 + d * 32);
        multiply_pairs(s, high, b);
        multiply_pairs(s, low, b);
        if (FORM == HALVES) continue;
#pragma unroll
        for (int j = 0; j < TILE / 16; j++) load_matrices(b[j], k + m.keys * 2 + j * 16 * m.stride * 2 + d * 32);
        multiply_pairs(s, high, b);
    }
}

/* What a lane knows of a query of its two: the positions that it sees, and its softmax so far. Scores are times
 * log2(e). */
struct Row {
    uint32_t t, low, high; /* high: one after the last; 0: no query */
    float most, sum;
    bool is_mine; /* of a run that was multiplied */
};

template <int N> static __device__ __forceinline__ void cap_scores(float (&s)[N][4], float cap)
{
    const float turn = 2.0f / cap, most = cap * TERN_LOG2E;
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) s[j][i] = most - __fdividef(most + most, exp2_of(s[j][i] * turn) + 1.0f);
}

/* Positions that a query of the lane does not see have no score. */
template <int N>
static __device__ __forceinline__ void hide_scores(float (&s)[N][4], const Row (&row)[2], const bool (&in_run)[2],
                                                   uint32_t at)
{
    const bool all = in_run[0] && in_run[1] && at >= row[0].low && at >= row[1].low && at + N * 8 <= row[0].high &&
                     at + N * 8 <= row[1].high;
    if (__all_sync(0xffffffffu, all)) return;
    at += threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t position = at + j * 8 + i % 2;
            if (!in_run[i / 2] || position < row[i / 2].low || position >= row[i / 2].high) s[j][i] = -INFINITY;
        }
}

/* Scores become weights; gives by what the sums so far are multiplied. */
template <int N> static __device__ __forceinline__ float soften(Row &row, float (&s)[N][4], int half)
{
    float top = row.most, total = 0;
#pragma unroll
    for (int j = 0; j < N; j++) top = fmaxf(top, fmaxf(s[j][half * 2], s[j][half * 2 + 1]));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
    const float less = top == -INFINITY ? 0 : top, keep = exp2_of(row.most - less);
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float &x = s[j][half * 2 + i];
            x = exp2_of(x - less);
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

template <int DIM, int TILE, int FORM>
static __device__ __forceinline__ void add_values(float (&o)[DIM / 8][4], const float (&s)[TILE / 8][4],
                                                  Tiles<DIM, TILE, FORM> m)
{
    constexpr int pairs = 4; /* of columns of values at once */
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t v = shared_address(m.v + lane % 16 * m.stride + lane / 16 * 8);
#pragma unroll
    for (int k = 0; k < TILE / 16; k++) {
        uint32_t high[4], low[4], b[pairs][4];
        weights_of(high, s[2 * k], s[2 * k + 1], false);
        weights_of(low, s[2 * k], s[2 * k + 1], true);
#pragma unroll
        for (int d = 0; d < DIM / 8; d += 2 * pairs) {
            const uint32_t at = v + k * 16 * m.stride * 2 + d * 16;
#pragma unroll
            for (int j = 0; j < pairs; j++) load_transposed(b[j], at + j * 32);
            multiply_pairs(o + d, high, b);
            multiply_pairs(o + d, low, b);
            if (FORM == HALVES) continue;
#pragma unroll
            for (int j = 0; j < pairs; j++) load_transposed(b[j], at + m.keys * 2 + j * 32);
            multiply_pairs(o + d, high, b);
        }
    }
}

/* What a lane knows of the block's rows: where two of them are, and whose. */
struct Places {
    uint32_t position[2], sequence[2];

    __device__ __forceinline__ Places(const tern_cuda_attention &p, uint32_t t0)
    {
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t t = t0 + threadIdx.x % 32 + 32 * i;
            position[i] = t < p.count.most ? p.place.positions[t] : 0;
            sequence[i] = t < p.count.most ? p.place.sequences[t] : 0;
        }
    }

    /* The bits of row i of the block, for a whole warp. */
    static __device__ __forceinline__ uint32_t of(const uint32_t (&x)[2], uint32_t i)
    {
        const uint32_t low = __shfl_sync(0xffffffffu, x[0], i % 32), high = __shfl_sync(0xffffffffu, x[1], i % 32);
        return i < 32 ? low : high;
    }
};

/* Rows of one sequence, one after the other, from `first` of the block's on: what they see together. */
struct Run {
    uint32_t first, end, from, to;
    const uint32_t *pages;
};

static __device__ __forceinline__ Run run_of(const tern_cuda_attention &p, const Places &places, uint32_t t0,
                                             uint32_t n, uint32_t first)
{
    const uint32_t lane = threadIdx.x % 32, of = places.of(places.sequence, first - t0);
    unsigned long long same = 0;
    Run run = {first, 0, 0xffffffffu, 0, p.place.pages + of * p.place.max_pages};
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const bool is_its = t0 + lane + 32 * i < n && places.sequence[i] == of;
        same |= (unsigned long long)__ballot_sync(0xffffffffu, is_its) << 32 * i;
    }
    const unsigned long long differ = ~(same >> (first - t0));
    run.end = first + (differ ? __ffsll((long long)differ) - 1 : 64);
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t t = t0 + lane + 32 * i, position = places.position[i];
        const bool in = t >= first && t < run.end;
        run.from =
            min(run.from, __reduce_min_sync(0xffffffffu, in ? tern_first_seen(p.window, position) : 0xffffffffu));
        run.to = max(run.to, __reduce_max_sync(0xffffffffu, in ? position + 1 : 0));
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
        if (p.sinks) sum += exp2_of(p.sinks[head] * TERN_LOG2E - row[half].most);
        const float inverse = 1.0f / sum;
        float *out = p.out.data + (size_t)(t + half * 8) * p.out.stride + head * p.head_dim + threadIdx.x % 4 * 2;
#pragma unroll
        for (int d = 0; d < DIM / 8; d++) {
            if (d * 8 >= p.head_dim) break;
            *(float2 *)(out + d * 8) = make_float2(o[d][half * 2] * inverse, o[d][half * 2 + 1] * inverse);
        }
    }
}

/* What the last group has goes to the one before it, through the room of the queries; none uses those any more. */
template <int DIM>
static __device__ __forceinline__ void merge_groups(float *room, Row (&row)[2], float (&o)[DIM / 8][4])
{
    const uint32_t groups = blockDim.x / THREADS, group = threadIdx.x / THREADS;
    room += threadIdx.x % THREADS;
    for (uint32_t from = groups - 1; from; from--) {
        __syncthreads();
#pragma unroll
        for (int half = 0; half < 2 && group == from; half++) {
            room[(DIM / 2 + half * 2) * THREADS] = row[half].most;
            room[(DIM / 2 + half * 2 + 1) * THREADS] = row[half].sum;
#pragma unroll
            for (int i = 0; i < DIM / 4; i++) room[(half * DIM / 4 + i) * THREADS] = o[i / 2][half * 2 + i % 2];
        }
        __syncthreads();
#pragma unroll
        for (int half = 0; half < 2 && group == from - 1; half++) {
            const float other = room[(DIM / 2 + half * 2) * THREADS], most = fmaxf(row[half].most, other);
            const float less = most == -INFINITY ? 0 : most;
            const float keep = exp2_of(row[half].most - less), add = exp2_of(other - less);
            row[half].sum = row[half].sum * keep + room[(DIM / 2 + half * 2 + 1) * THREADS] * add;
            row[half].most = most;
#pragma unroll
            for (int i = 0; i < DIM / 4; i++) {
                float &x = o[i / 2][half * 2 + i % 2];
                x = x * keep + room[(half * DIM / 4 + i) * THREADS] * add;
            }
        }
    }
}

template <int DIM, int TILE, int FORM, int GROUPS>
static __global__ void __launch_bounds__(GROUPS *THREADS) flash(const __grid_constant__ tern_cuda_attention p)
{
    extern __shared__ __align__(16) __half memory[];
    const Tiles<DIM, TILE, FORM> tiles(memory);
    const uint32_t t0 = (gridDim.y - 1 - blockIdx.y) * QUERIES, head = blockIdx.x;
    const uint32_t kv = head / (p.n_heads / p.n_kv_heads), place = threadIdx.x / 32 % WARPS * 16 + threadIdx.x % 32 / 4;
    Queries<DIM, GROUPS> queries;
    tern_follow();
    queries.fetch(p, t0, head);
    const Places places(p, t0);
    const uint32_t n = tern_rows_now(p.count);
    if (t0 >= n) return;
    float o[DIM / 8][4] = {}, s[TILE / 8][4];
    Row row[2];
    bool is_loaded = false;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint32_t t = t0 + place + half * 8, position = places.of(places.position, place + half * 8);
        row[half] = {t, t < n ? tern_first_seen(p.window, position) : 0, t < n ? position + 1 : 0, -INFINITY, 0, false};
    }
    /* a run of rows of one sequence after the other */
    for (uint32_t first = t0; first < n && first < t0 + QUERIES;) {
        if (const uint32_t brief = tern_brief_rows(p, first, n)) {
            first += brief;
            continue;
        }
        const Run run = run_of(p, places, t0, n, first);
        const uint32_t from = run.from + threadIdx.x / THREADS * TILE, to = run.to, *pages = run.pages;
        bool in_run[2];
        first = run.end;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            in_run[half] = row[half].t >= run.first && row[half].t < run.end;
            row[half].is_mine |= in_run[half];
        }
        group_wait();
        load_tile<DIM, TILE, FORM>(p, p.k_cache, pages, kv, from, to, tiles.k);
        load_tile<DIM, TILE, FORM>(p, p.v_cache, pages, kv, from, to, tiles.v);
        if (!is_loaded) queries.store(tiles.q, tiles.stride, p.scale * TERN_LOG2E);
        is_loaded = true;
        __syncthreads();
        for (uint32_t at = from; at < to; at += GROUPS * TILE) {
            copies_wait<1>();
            group_wait();
            multiply_keys(s, tiles);
            group_wait();
            if (at + GROUPS * TILE < to)
                load_tile<DIM, TILE, FORM>(p, p.k_cache, pages, kv, at + GROUPS * TILE, to, tiles.k);
            else copies_commit();
            if (p.softcap > 0) cap_scores(s, p.softcap);
            hide_scores(s, row, in_run, at);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float keep = soften(row[half], s, half);
#pragma unroll
                for (int d = 0; d < DIM / 8; d++) o[d][half * 2] *= keep, o[d][half * 2 + 1] *= keep;
            }
            copies_wait<1>();
            group_wait();
            add_values(o, s, tiles);
            group_wait();
            if (at + GROUPS * TILE < to)
                load_tile<DIM, TILE, FORM>(p, p.v_cache, pages, kv, at + GROUPS * TILE, to, tiles.v);
        }
    }
    if (GROUPS > 1) merge_groups<DIM>((float *)memory, row, o);
    if (threadIdx.x < THREADS) write_rows<DIM>(p, row, o, t0 + place, head);
}

template <int DIM, int TILE, int FORM, int GROUPS>
static cudaError_t start(const tern_cuda_attention *p, cudaStream_t stream)
{
    constexpr size_t bytes = Tiles<DIM, TILE, FORM>::bytes(GROUPS);
    const auto kernel = flash<DIM, TILE, FORM, GROUPS>;
    const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (e == cudaErrorInvalidValue && GROUPS > 1) {
        (void)cudaGetLastError();
        return start<DIM, TILE, FORM, 1>(p, stream);
    }
    if (e != cudaSuccess) return e;
    const dim3 blocks(p->n_heads, (p->count.most + QUERIES - 1) / QUERIES);
    return tern_launch(kernel, blocks, GROUPS * THREADS, bytes, stream, *p);
}

template <int DIM, int TILE, int FORM>
static cudaError_t start_groups(const tern_cuda_attention *p, cudaStream_t stream)
{
    const bool few = p->n_heads * ((p->count.most + QUERIES - 1) / QUERIES) <= FEW_BLOCKS;
    return few || FORM != HALVES || DIM > 128 ? start<DIM, TILE, FORM, 2>(p, stream)
                                              : start<DIM, TILE, FORM, 1>(p, stream);
}

template <int FORM> static cudaError_t start_dim(const tern_cuda_attention *p, cudaStream_t stream)
{
    if (p->head_dim <= 64) return start_groups<64, 64, FORM>(p, stream);
    if (p->head_dim <= 128) return start_groups<128, 64, FORM>(p, stream);
    return start_groups<256, 32, FORM>(p, stream);
}

cudaError_t tern_cuda_flash(const tern_cuda_attention *p, cudaStream_t stream)
{
    if (p->head_dim > 256 || p->head_dim % 8 || p->k_cache.f32 != p->v_cache.f32) return cudaErrorInvalidValue;
    if (p->k_cache.bits) return start_dim<BLOCKS>(p, stream);
    return p->k_cache.f32 ? start_dim<FLOATS>(p, stream) : start_dim<HALVES>(p, stream);
}
