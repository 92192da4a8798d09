/* Attention over pages. Few tokens of a sequence: each one's positions are cut into splits, whose sums another kernel
 * adds where there are several. Many: on tensor cores (flash.h); what that lacks by tiles of queries against a page at
 * a time, f32 throughout. */
#include "backend/cuda/attention/cache.cuh"
#include "backend/cuda/attention/flash.h"
#include "backend/cuda/attention/tile.cuh"
#include "backend/cuda/launch.cuh"

enum { MOST_DIM = 512 };

/* ---- few tokens: a block has up to four heads that share keys, and a split of the positions; a warp eight of each 64
 * positions, its lanes LANE_DIM numbers of a head each and
 * then one of the 32 scores */
enum { SPLIT_WARPS = 8, SPLIT_THREADS = SPLIT_WARPS * 32, HEADS = 4, OWN = 8, CHUNK = SPLIT_WARPS * OWN };

/* The part of a token's positions that a split has; splits beyond those that are needed have none. */
struct range {
    uint32_t from, to, n_splits;
};

static __device__ range part_of(const tern_cuda_attention &p, uint32_t position, uint32_t part)
{
    const uint32_t first = tern_first_seen(p.window, position);
    const uint32_t chunks = (position + CHUNK - first) / CHUNK, most = min(p.splits, chunks);
    const uint32_t each = (chunks + most - 1) / most, n = (chunks + each - 1) / each;
    return {min(first + part * each * CHUNK, position + 1), min(first + (part + 1) * each * CHUNK, position + 1), n};
}

template <typename Words> static __device__ __forceinline__ void load_words(uint32_t *to, const void *from)
{
    *(Words *)to = *(const Words *)from;
}

/* The N numbers of a head from this lane's first on, as the cache has them. */
template <int N, int FORM> struct lane_row {
    static constexpr int words = FORM == FLOATS ? N : N / 2, bytes = FORM == FLOATS ? 4 : 2;
    __align__(16) uint32_t raw[words];

    __device__ __forceinline__ float number(int i) const
    {
        if (FORM == FLOATS) return __uint_as_float(raw[i]);
        return __half2float(((const __half *)raw)[i]);
    }
    /* where heads are a multiple of N numbers */
    __device__ __forceinline__ void load(const void *row, uint32_t head_dim)
    {
        const uint32_t d = threadIdx.x % 32 * N;
        const uint8_t *from = (const uint8_t *)row + (d < head_dim ? d * bytes : 0);
        if (words == 1) load_words<uint32_t>(raw, from);
        if (words == 2) load_words<uint2>(raw, from);
#pragma unroll
        for (int i = 0; i < words / 4; i++) load_words<uint4>(raw + 4 * i, from + 16 * i);
#pragma unroll
        for (int i = 0; i < words; i++)
            if (d >= head_dim) raw[i] = 0;
    }
    __device__ __forceinline__ void load_by_number(const void *row, uint32_t head_dim)
    {
#pragma unroll
        for (int i = 0; i < N; i++) {
            const uint32_t d = threadIdx.x % 32 * N + i;
            if (FORM == FLOATS) raw[i] = d < head_dim ? ((const uint32_t *)row)[d] : 0;
            else ((__half *)raw)[i] = d < head_dim ? ((const __half *)row)[d] : __float2half(0);
        }
    }
};

/* The same of rows of blocks: a block's 16 codes of a half lie side by side, so that N of them are N bytes, whatever
 * their bits are. N is 2, or a multiple of 4 that divides 16. */
template <int N> struct lane_row<N, BLOCKS> {
    static constexpr int words = N < 4 ? 1 : N / 4;
    uint32_t raw[words];
    float scale;

    __device__ __forceinline__ float number(int i) const
    {
        return tern_block_number(raw[i / 4], i % 4, scale);
    }
    __device__ __forceinline__ void load(const uint8_t *row, uint32_t bits, uint32_t head_dim)
    {
        const uint32_t mine = threadIdx.x % 32 * N, d = mine < head_dim ? mine : 0;
        const uint8_t *codes = row + tern_block_codes_at(bits, head_dim, d);
        if (N < 4) raw[0] = *(const uint16_t *)codes;
#pragma unroll
        for (int i = 0; i < N / 4; i++) raw[i] = ((const uint32_t *)codes)[i];
        scale = mine < head_dim ? tern_block_scale(row, d) : 0;
    }
    /* once they are there */
    __device__ __forceinline__ void centre(uint32_t bits)
    {
#pragma unroll
        for (int i = 0; i < words; i++) raw[i] = tern_block_centred(bits, raw[i], threadIdx.x % 32 * N);
    }
};

/* All of them are asked for before any is there. `at` counts numbers, of blocks rows. */
template <int N, int FORM>
static __device__ __forceinline__ void load_rows(lane_row<N, FORM> (&rows)[OWN], tern_cuda_cache c,
                                                 const size_t (&at)[OWN], uint32_t head_dim)
{
    const uint8_t *data = (const uint8_t *)c.data;
    if constexpr (FORM == BLOCKS) {
#pragma unroll
        for (int j = 0; j < OWN; j++) rows[j].load(tern_block_row(c, at[j], head_dim), c.bits, head_dim);
    } else if (head_dim % N == 0) {
#pragma unroll
        for (int j = 0; j < OWN; j++) rows[j].load(data + at[j] * (FORM == FLOATS ? 4 : 2), head_dim);
    } else {
#pragma unroll
        for (int j = 0; j < OWN; j++) rows[j].load_by_number(data + at[j] * (FORM == FLOATS ? 4 : 2), head_dim);
    }
}

template <int N, int FORM>
static __device__ __forceinline__ void centre_rows(lane_row<N, FORM> (&rows)[OWN], tern_cuda_cache c)
{
    if constexpr (FORM == BLOCKS) {
#pragma unroll
        for (int j = 0; j < OWN; j++) rows[j].centre(c.bits);
    }
}

static_assert(HEADS * OWN == 32, "a lane for each head and position");

/* The sum over all lanes of x[lane], of 2 HALF numbers: numbers are halved while lanes are, so that none is added
 * twice. */
template <int HALF> static __device__ __forceinline__ float sum_for_lane(const float (&x)[2 * HALF])
{
    const bool upper = threadIdx.x & HALF;
    float sums[HALF];
#pragma unroll
    for (int i = 0; i < HALF; i++)
        sums[i] = (upper ? x[i + HALF] : x[i]) + __shfl_xor_sync(0xffffffffu, upper ? x[i] : x[i + HALF], HALF);
    if constexpr (HALF == 1) return sums[0];
    else return sum_for_lane<HALF / 2>(sums);
}

/* Over the OWN lanes of a head. */
static __device__ __forceinline__ float max_of_head(float x)
{
#pragma unroll
    for (int k = OWN / 2; k; k >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, k));
    return x;
}

static __device__ __forceinline__ float sum_of_head(float x)
{
#pragma unroll
    for (int k = OWN / 2; k; k >>= 1) x += __shfl_xor_sync(0xffffffffu, x, k);
    return x;
}

/* The scaled queries of n_heads heads, and zeros for the others. */
template <int LANE_DIM>
static __device__ __forceinline__ void load_queries(float (&q)[HEADS][LANE_DIM], const tern_cuda_attention &p,
                                                    uint32_t t, uint32_t head0, uint32_t n_heads)
{
#pragma unroll
    for (int h = 0; h < HEADS; h++)
#pragma unroll
        for (int i = 0; i < LANE_DIM; i++) {
            const uint32_t d = threadIdx.x % 32 * LANE_DIM + i;
            q[h][i] = h < n_heads && d < p.head_dim
                          ? p.q.data[(size_t)t * p.q.stride + (head0 + h) * p.head_dim + d] * p.scale
                          : 0;
        }
}

/* Products of this lane's numbers alone, for each head and key. */
template <int LANE_DIM, int FORM>
static __device__ __forceinline__ void score_keys(float (&scores)[HEADS * OWN], const float (&q)[HEADS][LANE_DIM],
                                                  const lane_row<LANE_DIM, FORM> (&k)[OWN])
{
#pragma unroll
    for (int j = 0; j < OWN; j++)
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            float x = 0;
#pragma unroll
            for (int i = 0; i < LANE_DIM; i++) x = fmaf(q[h][i], k[j].number(i), x);
            scores[h * OWN + j] = x;
        }
}

/* acc = acc * keep + sum over values of w * v; keep and w are those of lane h * OWN + j. */
template <int LANE_DIM, int FORM>
static __device__ __forceinline__ void add_values(float (&acc)[HEADS][LANE_DIM], float keep, float w,
                                                  const lane_row<LANE_DIM, FORM> (&v)[OWN])
{
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        const float factor = __shfl_sync(0xffffffffu, keep, h * OWN);
#pragma unroll
        for (int i = 0; i < LANE_DIM; i++) acc[h][i] *= factor;
    }
#pragma unroll
    for (int j = 0; j < OWN; j++)
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            const float weight = __shfl_sync(0xffffffffu, w, h * OWN + j);
#pragma unroll
            for (int i = 0; i < LANE_DIM; i++) acc[h][i] = fmaf(weight, v[j].number(i), acc[h][i]);
        }
}

/* The states of all warps of a block. */
struct warp_states {
    float mosts[SPLIT_WARPS][HEADS], sums[SPLIT_WARPS][HEADS], keeps[SPLIT_WARPS][HEADS];
};

/* Sets how much of each warp's sums counts beside the greatest score, which becomes mosts[0]. */
static __device__ __forceinline__ void weigh_warps(warp_states &s)
{
    if (threadIdx.x >= SPLIT_WARPS * HEADS) return;
    const uint32_t k = threadIdx.x / HEADS, h = threadIdx.x % HEADS;
    float top = -INFINITY;
    for (int i = 0; i < SPLIT_WARPS; i++) top = fmaxf(top, s.mosts[i][h]);
    s.keeps[k][h] = tern_exp(s.mosts[k][h] - top);
    __syncwarp();
    if (k == 0) s.mosts[0][h] = top;
}

/* Adds up the warps' sums: the result where there is one split, else its part for merge. */
static __device__ __forceinline__ void store_heads(const tern_cuda_attention &p, const warp_states &s,
                                                   const float *accs, uint32_t t, uint32_t head0, uint32_t n_heads)
{
    for (uint32_t i = threadIdx.x; i < n_heads * p.head_dim; i += SPLIT_THREADS) {
        const uint32_t h = i / p.head_dim, d = i % p.head_dim;
        const float top = s.mosts[0][h];
        float total = 0, x = 0;
        for (int k = 0; k < SPLIT_WARPS; k++) {
            total += s.sums[k][h] * s.keeps[k][h];
            x += accs[(k * HEADS + h) * p.head_dim + d] * s.keeps[k][h];
        }
        if (p.splits == 1) {
            if (p.sinks) total += tern_exp(p.sinks[head0 + h] - top);
            p.out.data[(size_t)t * p.out.stride + (head0 + h) * p.head_dim + d] = x / total;
            continue;
        }
        float *out = p.partials + (((size_t)t * p.n_heads + head0 + h) * p.splits + blockIdx.y) * (p.head_dim + 2);
        out[2 + d] = x;
        if (d == 0) out[0] = top, out[1] = total;
    }
}

template <int LANE_DIM, int K_FORM, int V_FORM>
static __global__ void __launch_bounds__(SPLIT_THREADS, LANE_DIM <= 4 ? 2 : 1)
    split(const __grid_constant__ tern_cuda_attention p)
{
    extern __shared__ float accs[]; /* [warps][HEADS][head_dim] */
    __shared__ warp_states states;
    const uint32_t group = p.n_heads / p.n_kv_heads, parts = (group + HEADS - 1) / HEADS;
    const uint32_t kv = blockIdx.x / parts, head0 = kv * group + blockIdx.x % parts * HEADS;
    const uint32_t n_heads = min((uint32_t)HEADS, (kv + 1) * group - head0), t = blockIdx.z;
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    tern_follow();
    const uint32_t position = p.place.positions[t], n = tern_rows_now(p.count);
    const uint32_t *pages = p.place.pages + p.place.sequences[t] * p.place.max_pages;
    float q[HEADS][LANE_DIM], acc[HEADS][LANE_DIM] = {}, most = -INFINITY, sum = 0; /* of head lane / OWN */
    load_queries(q, p, t, head0, n_heads);
    if (t >= n || !tern_brief_rows(p, t, n)) return;
    const range r = part_of(p, position, blockIdx.y);
    const uint32_t unit = K_FORM == BLOCKS ? 1 : p.head_dim;
    if (blockIdx.y >= r.n_splits) return;
    for (uint32_t base = r.from + warp * OWN; base < r.to; base += CHUNK) {
        size_t at[OWN];
        float scores[HEADS * OWN];
#pragma unroll
        for (int j = 0; j < OWN; j++) {
            const uint32_t position = min(base + j, r.to - 1);
            at[j] = tern_cache_at(pages[position / TERN_CUDA_PAGE], kv, position, p.n_kv_heads, unit);
        }
        lane_row<LANE_DIM, K_FORM> k[OWN];
        lane_row<LANE_DIM, V_FORM> v[OWN];
        load_rows(k, p.k_cache, at, p.head_dim);
        load_rows(v, p.v_cache, at, p.head_dim);
        centre_rows(k, p.k_cache);
        score_keys(scores, q, k);
        centre_rows(v, p.v_cache);
        float score = sum_for_lane<HEADS * OWN / 2>(scores);
        if (p.softcap > 0) score = tern_softcap(score, p.softcap);
        if (base + lane % OWN >= r.to) score = -INFINITY;
        const float top = fmaxf(most, max_of_head(score)), keep = tern_exp(most - top), w = tern_exp(score - top);
        sum = sum * keep + sum_of_head(w);
        most = top;
        add_values(acc, keep, w, v);
    }
    if (lane % OWN == 0) states.mosts[warp][lane / OWN] = most, states.sums[warp][lane / OWN] = sum;
#pragma unroll
    for (int h = 0; h < HEADS; h++)
#pragma unroll
        for (int i = 0; i < LANE_DIM; i++)
            if (lane * LANE_DIM + i < p.head_dim)
                accs[(warp * HEADS + h) * p.head_dim + lane * LANE_DIM + i] = acc[h][i];
    __syncthreads();
    weigh_warps(states);
    __syncthreads();
    store_heads(p, states, accs, t, head0, n_heads);
}

static __global__ void merge(tern_cuda_attention p)
{
    const uint32_t head = blockIdx.x, t = blockIdx.y, step = p.head_dim + 2;
    tern_follow();
    if (t >= tern_rows_now(p.count) || !tern_brief_rows(p, t, tern_rows_now(p.count))) return;
    const uint32_t n = part_of(p, p.place.positions[t], 0).n_splits;
    const float *in = p.partials + ((size_t)t * p.n_heads + head) * p.splits * step;
    float most = -INFINITY;
    for (uint32_t i = 0; i < n; i++) most = fmaxf(most, in[i * step]);
    for (uint32_t d = threadIdx.x; d < p.head_dim; d += THREADS) {
        float x = 0, sum = p.sinks ? tern_exp(p.sinks[head] - most) : 0;
        for (uint32_t i = 0; i < n; i++) {
            const float keep = tern_exp(in[i * step] - most);
            sum += in[i * step + 1] * keep;
            x += in[i * step + 2 + d] * keep;
        }
        p.out.data[(size_t)t * p.out.stride + head * p.head_dim + d] = x / sum;
    }
}

template <int LANE_DIM, int K_FORM, int V_FORM>
static cudaError_t start_split(const tern_cuda_attention *p, cudaStream_t stream)
{
    const uint32_t group = p->n_heads / p->n_kv_heads, blocks = p->n_kv_heads * ((group + HEADS - 1) / HEADS);
    const size_t bytes = (size_t)SPLIT_WARPS * HEADS * p->head_dim * sizeof(float);
    const auto kernel = split<LANE_DIM, K_FORM, V_FORM>;
    cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (e != cudaSuccess) return e;
    e = tern_launch(kernel, dim3(blocks, p->splits, p->count.most), SPLIT_THREADS, bytes, stream, *p);
    if (e != cudaSuccess || p->splits == 1) return e;
    return tern_launch(merge, dim3(p->n_heads, p->count.most), THREADS, 0, stream, *p);
}

template <int LANE_DIM> static cudaError_t run_split(const tern_cuda_attention *p, cudaStream_t stream)
{
    if (p->k_cache.bits) return start_split<LANE_DIM, BLOCKS, BLOCKS>(p, stream);
    if (p->k_cache.f32)
        return p->v_cache.f32 ? start_split<LANE_DIM, FLOATS, FLOATS>(p, stream)
                              : start_split<LANE_DIM, FLOATS, HALVES>(p, stream);
    return p->v_cache.f32 ? start_split<LANE_DIM, HALVES, FLOATS>(p, stream)
                          : start_split<LANE_DIM, HALVES, HALVES>(p, stream);
}

/* ---- many tokens */
template <uint32_t COLUMNS> static __global__ void __launch_bounds__(THREADS) tiles(tern_cuda_attention p)
{
    extern __shared__ float memory[];
    const uint32_t stride = p.head_dim + 1;
    const tile s = {memory, memory + QUERIES * stride, memory + (QUERIES + PAGE) * stride, stride};
    const uint32_t n = tern_rows_now(p.count), t0 = blockIdx.y * QUERIES;
    const uint32_t kv = blockIdx.x / (p.n_heads / p.n_kv_heads), first = t0 + threadIdx.x / 8 * 4;
    if (t0 >= n) return;
    load_tile(p, s, t0, n);
    tile_rows<COLUMNS> r;
    begin_rows(r, p, first, n);
    bool is_mine[4] = {};
    /* a run of rows of one sequence after the other */
    for (uint32_t run = t0, end; run < n && run < t0 + QUERIES; run = end) {
        const uint32_t of = p.place.sequences[run];
        uint32_t from = 0xffffffffu, to = 0;
        const bool brief = tern_brief_rows(p, run, n);
        for (end = run; end < n && end < t0 + QUERIES && p.place.sequences[end] == of; end++) {
            from = min(from, tern_first_seen(p.window, p.place.positions[end]));
            to = max(to, p.place.positions[end] + 1);
        }
        if (brief) continue;
#pragma unroll
        for (int i = 0; i < 4; i++) is_mine[i] |= first + i >= run && first + i < end;
        for (uint32_t at = from / PAGE * PAGE; at < to; at += PAGE) {
            const uint32_t page = p.place.pages[of * p.place.max_pages + at / PAGE];
            float w[4][4] = {};
            __syncthreads();
            load_page(p, p.k_cache, page, kv, to - at, s);
            __syncthreads();
            score_page(w, s, p.head_dim);
#pragma unroll
            for (int i = 0; i < 4; i++) soften_row(r, p, s, w[i], i, at, first + i >= run && first + i < end);
            __syncthreads();
            load_page(p, p.v_cache, page, kv, to - at, s);
            __syncthreads();
            add_page(r, s, p.head_dim);
        }
    }
    store_rows(r, p, first, is_mine);
}

template <uint32_t COLUMNS> static cudaError_t run_tiles(const tern_cuda_attention *p, cudaStream_t stream)
{
    const size_t bytes = ((size_t)(QUERIES + PAGE) * (p->head_dim + 1) + QUERIES * (PAGE + 1)) * sizeof(float);
    const cudaError_t e = cudaFuncSetAttribute(tiles<COLUMNS>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (e != cudaSuccess) return e;
    tiles<COLUMNS><<<dim3(p->n_heads, (p->count.most + QUERIES - 1) / QUERIES), THREADS, bytes, stream>>>(*p);
    return cudaGetLastError();
}

static cudaError_t run_brief(const tern_cuda_attention *p, cudaStream_t stream)
{
    if (p->head_dim <= 64) return run_split<2>(p, stream);
    if (p->head_dim <= 128) return run_split<4>(p, stream);
    return p->head_dim <= 256 ? run_split<8>(p, stream) : run_split<MOST_DIM / 32>(p, stream);
}

static cudaError_t run_many(const tern_cuda_attention *p, cudaStream_t stream)
{
    const cudaError_t e = tern_cuda_flash(p, stream);
    if (e != cudaErrorInvalidValue) return e;
    (void)cudaGetLastError();
    if (p->head_dim <= 64) return run_tiles<8>(p, stream);
    return p->head_dim <= 128 ? run_tiles<16>(p, stream) : run_tiles<32>(p, stream);
}

cudaError_t tern_cuda_run_attention(const tern_cuda_attention *p, cudaStream_t stream)
{
    const cudaError_t e = p->splits ? run_brief(p, stream) : cudaSuccess;
    return e || (p->splits && !p->brief) ? e : run_many(p, stream);
}
