/* GATED_DELTA in chunks of 64 rows (the WY form of arXiv:2406.06484, with the decays of arXiv:2412.06464). For a chunk
 * whose state before it is S, with g_t the product of the decays of its rows up to t:
 *
 *   A[t][s] = beta_t (g_t / g_s) (k_t . k_s), s < t          U = (1 + A)^-1 (beta V), W = (1 + A)^-1 (beta g K)
 *   P[t][s] = (g_t / g_s) (q_t . k_s), s <= t                D = U - W S: what each row adds is k_t d_t^T
 *   out_t = g_t S^T q_t + sum over s of P[t][s] d_s          S after row t = g_t S + sum over s of (g_t / g_s) k_s
 * d_s^T
 *
 * U, W and P need no state: one kernel makes those of all chunks at once, another walks the chunks of a run. g is kept
 * as a sum of logarithms in f64, so that quotients have the digits of f32. */
#include "backend/cuda/launch.cuh"
#include "backend/cuda/recurrent/copies.cuh"
#include "backend/cuda/recurrent/delta.cuh"

enum { THREADS = 256, CHUNK = TERN_CUDA_DELTA_CHUNK, PAD = 4, ROWS = 16 };

/* Rows in shared memory, and the numbers of a thread: each of 16 x 16 threads has EACH x EACH products of rows. */
enum { EACH = CHUNK / 16, SQUARE = CHUNK + PAD };
template <int KEYS> struct tile {
    static constexpr int stride = KEYS + PAD, floats = CHUNK * stride;
};

/* The rates of the rows of a chunk. */
struct rates {
    double logs[CHUNK]; /* ln g */
    float betas[CHUNK];
};

static __device__ __forceinline__ float quotient(const rates &r, uint32_t t, uint32_t s)
{
    return tern_exp((float)(r.logs[t] - r.logs[s]));
}

/* By the whole block; rows from m on have no effect. To be followed by a barrier. */
static __device__ inline void load_rates(const tern_cuda_delta &p, rates &r, uint32_t first, uint32_t m, uint32_t head)
{
    if (threadIdx.x >= 32) return;
    const uint32_t t = 2 * threadIdx.x;
    double own[2];
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        own[i] = t + i < m ? (double)log_decay(p, first + t + i, head) : 0;
        r.betas[t + i] = t + i < m ? beta_of(p, first + t + i, head) : 0;
    }
    double sum = own[0] + own[1];
#pragma unroll
    for (uint32_t d = 1; d < 32; d *= 2) {
        const double before = __shfl_up_sync(0xffffffffu, sum, d);
        if (threadIdx.x >= d) sum += before;
    }
    r.logs[t] = sum - own[1];
    r.logs[t + 1] = sum;
}

/* Rows first .. first + m - 1 of a head of `dim` columns, from column c0 on, and zeros up to CHUNK rows of KEYS; to be
 * waited for. */
template <int KEYS, bool ALIGNED>
static __device__ inline void ask_tile(float *to, const float *from, size_t stride, uint32_t m, uint32_t c0,
                                       uint32_t dim)
{
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < CHUNK * (KEYS / 4); i += THREADS) {
        const uint32_t t = i / (KEYS / 4), c = i % (KEYS / 4) * 4;
        float *at = to + t * tile<KEYS>::stride + c;
        const float *row = from + t * stride;
        if (ALIGNED) ask_four(at, t < m && c0 + c < dim ? row + c0 + c : from, t < m && c0 + c < dim);
        else *(float4 *)at = t < m ? tern_four_of<false>(row, c0 + c, dim) : make_float4(0, 0, 0, 0);
    }
}

/* Whether a step has one run at most. */
static __host__ __device__ __forceinline__ bool is_one_run(const tern_cuda_runs &r)
{
    return r.positions && r.n_sequences == 1;
}

/* ---- chunks that begin in a window of 64 rows of the step */
/* The first row of the run that row t is in. */
static __device__ inline uint32_t first_of(const tern_cuda_runs &r, uint32_t t, uint32_t *room)
{
    if (!r.positions) return r.sequences[t];
    if (is_one_run(r)) return 0;
    if (threadIdx.x == 0) *room = 0;
    __syncthreads();
    for (uint32_t at = threadIdx.x; at <= t; at += THREADS)
        if (begins_run(r, at)) atomicMax(room, at);
    __syncthreads();
    return *room;
}

/* Rows from t on that are of its run, at most CHUNK: they follow each other. */
static __device__ inline uint32_t rows_from(const tern_cuda_runs &r, uint32_t t, uint32_t n)
{
    uint32_t m = 0;
#pragma unroll
    for (uint32_t step = CHUNK; step > 0; step /= 2)
        if (m + step <= CHUNK && is_of(r, t + m + step - 1, n, r.sequences[t])) m += step;
    return m;
}

/* How many rows the chunk has that begins at each row of the window; 0: none begins there. */
static __device__ inline void find_chunks(const tern_cuda_delta &p, uint32_t window, uint32_t n, uint32_t *begins,
                                          uint32_t *room)
{
    const uint32_t outer = first_of(p.runs, window, room);
    if (threadIdx.x < CHUNK) {
        const uint32_t t = window + threadIdx.x;
        uint32_t first = t, rows = 0;
        while (t < n && first > window && !begins_run(p.runs, first)) first--;
        if (t < n && first == window) first = outer;
        if (t < n && (t - first) % CHUNK == 0 && is_chunked(p, first, n)) rows = rows_from(p.runs, t, n);
        begins[threadIdx.x] = rows;
    }
    __syncthreads();
}

/* ---- U, W and P */
/* One column of (1 + A)^-1 X, in place; `a` is A transposed. Sixteen rows at a time are in registers. */
static __device__ inline void solve_column(float *x, int stride, const float *a, uint32_t m)
{
    for (uint32_t t0 = 0; t0 < m; t0 += ROWS) {
        float y[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++) y[i] = x[(t0 + i) * stride];
#pragma unroll 2
        for (uint32_t s = 0; s < t0; s++) {
            const float by = x[s * stride];
#pragma unroll
            for (int i = 0; i < ROWS; i += 4) {
                const float4 of = *(const float4 *)(a + s * SQUARE + t0 + i);
                y[i] -= of.x * by, y[i + 1] -= of.y * by, y[i + 2] -= of.z * by, y[i + 3] -= of.w * by;
            }
        }
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
#pragma unroll
            for (int s = 0; s < i; s++) y[i] -= a[(t0 + s) * SQUARE + t0 + i] * y[s];
            x[(t0 + i) * stride] = y[i];
        }
    }
}

/* A and P of a chunk from the tiles of k and q. */
template <int KEYS>
static __device__ inline void multiply_rows(const tern_cuda_delta &p, const rates &r, const float *k, const float *q,
                                            float *a, uint32_t first, uint32_t m, uint32_t head)
{
    constexpr int stride = tile<KEYS>::stride;
    const uint32_t ty = threadIdx.x / 16, tx = threadIdx.x % 16;
    float kk[EACH][EACH] = {}, qk[EACH][EACH] = {};
#pragma unroll 2
    for (int d = 0; d < KEYS; d += 4) {
        float4 other[EACH];
#pragma unroll
        for (int j = 0; j < EACH; j++) other[j] = *(const float4 *)(k + (tx + 16 * j) * stride + d);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const float4 own = *(const float4 *)(k + (ty + 16 * i) * stride + d),
                         query = *(const float4 *)(q + (ty + 16 * i) * stride + d);
#pragma unroll
            for (int j = 0; j < EACH; j++) {
                const float4 o = other[j];
                kk[i][j] += (own.x * o.x + own.y * o.y) + (own.z * o.z + own.w * o.w);
                qk[i][j] += (query.x * o.x + query.y * o.y) + (query.z * o.z + query.w * o.w);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const uint32_t t = ty + 16 * i, s = tx + 16 * j;
            const float by = s <= t ? quotient(r, t, s) : 0;
            a[s * SQUARE + t] = s < t ? r.betas[t] * by * kk[i][j] : 0;
            if (t < m) p.scores[((size_t)(first + t) * p.n_heads + head) * CHUNK + s] = s <= t ? by * qk[i][j] : 0;
        }
}

/* Column c of a tile: its rows times `by`, solved, and written to rows of `out`. */
static __device__ inline void finish_column(float *x, int stride, const float *a, const float *by, uint32_t m,
                                            float *out, size_t out_stride)
{
    for (uint32_t t = 0; t < CHUNK; t++) x[t * stride] *= by[t];
    solve_column(x, stride, a, m);
    for (uint32_t t = 0; t < m; t++) out[t * out_stride] = x[t * stride];
}

template <int KEYS, bool ALIGNED>
static __device__ inline void prepare_chunk(const tern_cuda_delta &p, float *memory, rates &r, float *of_keys,
                                            uint32_t first, uint32_t m, uint32_t head)
{
    constexpr int stride = tile<KEYS>::stride;
    float *k = memory, *q = k + tile<KEYS>::floats, *a = q + tile<KEYS>::floats;
    const uint32_t c = threadIdx.x % KEYS, part = threadIdx.x / KEYS; /* part 0: of K, 1: of V, others: none */
    const size_t v_stride = (size_t)p.n_heads * p.values;
    __syncthreads();
    load_rates(p, r, first, m, head);
    ask_tile<KEYS, ALIGNED>(k, head_row(p.k, first, key_head(p, head), p.keys), p.k.stride, m, 0, p.keys);
    ask_tile<KEYS, ALIGNED>(q, head_row(p.q, first, key_head(p, head), p.keys), p.q.stride, m, 0, p.keys);
    wait_for_copies();
    __syncthreads();
    if (threadIdx.x < CHUNK) of_keys[threadIdx.x] = r.betas[threadIdx.x] * tern_exp((float)r.logs[threadIdx.x]);
    multiply_rows<KEYS>(p, r, k, q, a, first, m, head);
    for (uint32_t c0 = 0; c0 < p.values; c0 += KEYS) {
        __syncthreads();
        ask_tile<KEYS, ALIGNED>(q, head_row(p.v, first, head, p.values), p.v.stride, m, c0, p.values);
        wait_for_copies();
        __syncthreads();
        if (part == 0 && c0 == 0)
            finish_column(k + c, stride, a, of_keys, m, p.w + ((size_t)first * p.n_heads + head) * KEYS + c,
                          (size_t)p.n_heads * KEYS);
        if (part == 1 && c0 + c < p.values)
            finish_column(q + c, stride, a, r.betas, m, p.u + (size_t)first * v_stride + head * p.values + c0 + c,
                          v_stride);
    }
}

template <int KEYS, bool ALIGNED>
static __global__ void __launch_bounds__(THREADS) delta_prepare(const __grid_constant__ tern_cuda_delta p)
{
    extern __shared__ __align__(16) float memory[];
    __shared__ rates r;
    __shared__ float of_keys[CHUNK];
    __shared__ uint32_t begins[CHUNK], room;
    const uint32_t window = blockIdx.x * CHUNK;
    tern_follow();
    const uint32_t n = tern_rows_now(p.count);
    if (window >= n) return;
    find_chunks(p, window, n, begins, &room);
    for (uint32_t i = 0; i < CHUNK; i++)
        if (begins[i]) prepare_chunk<KEYS, ALIGNED>(p, memory, r, of_keys, window + i, begins[i], blockIdx.y);
}

/* ---- the chunks of a run, for COLUMNS columns of values of a head */
template <int KEYS, int COLUMNS> struct walking {
    static constexpr int fours = COLUMNS / 4, groups = THREADS / fours; /* threads: one of each four columns */
    static constexpr int rows = CHUNK / groups, keys = KEYS / groups;   /* that a thread has four columns of */
    static constexpr int floats = 2 * tile<KEYS>::floats + (KEYS + CHUNK) * COLUMNS;
};

/* Memory that threads of a block share, and the place of a thread. */
struct walk_of {
    float *tiles[2], *state, *d; /* [KEYS][COLUMNS], [CHUNK][COLUMNS] */
    uint32_t head, column, four, group;
};

/* sum of x[i] * rows[i], of four columns and four rows that follow each other. */
template <int COLUMNS> static __device__ __forceinline__ void add_four(float4 &to, float4 x, const float *rows)
{
    add_product(to, x.x, *(const float4 *)rows);
    add_product(to, x.y, *(const float4 *)(rows + COLUMNS));
    add_product(to, x.z, *(const float4 *)(rows + 2 * COLUMNS));
    add_product(to, x.w, *(const float4 *)(rows + 3 * COLUMNS));
}

/* sum over keys of the thread's rows of a tile times the state. */
template <int KEYS, int COLUMNS>
static __device__ __forceinline__ void multiply_state(const walk_of &w, const float *rows,
                                                      float4 (&sums)[walking<KEYS, COLUMNS>::rows])
{
    using W = walking<KEYS, COLUMNS>;
#pragma unroll
    for (int i = 0; i < W::rows; i++) sums[i] = make_float4(0, 0, 0, 0);
#pragma unroll 4
    for (int key = 0; key < KEYS; key += 4)
#pragma unroll
        for (int i = 0; i < W::rows; i++)
            add_four<COLUMNS>(sums[i], *(const float4 *)(rows + (w.group + i * W::groups) * tile<KEYS>::stride + key),
                              w.state + key * COLUMNS + w.four);
}

/* D = U - W S. */
template <int KEYS, int COLUMNS>
static __device__ inline void make_d(const tern_cuda_delta &p, const walk_of &w, const float *tile_w, uint32_t first,
                                     uint32_t m)
{
    using W = walking<KEYS, COLUMNS>;
    float4 sums[W::rows];
    multiply_state<KEYS, COLUMNS>(w, tile_w, sums);
#pragma unroll
    for (int i = 0; i < W::rows; i++) {
        const uint32_t t = w.group + i * W::groups;
        float4 u = make_float4(0, 0, 0, 0);
        if (t < m && w.column < p.values) {
            u = *(const float4 *)(p.u + ((size_t)(first + t) * p.n_heads + w.head) * p.values + w.column);
            u = make_float4(u.x - sums[i].x, u.y - sums[i].y, u.z - sums[i].z, u.w - sums[i].w);
        }
        *(float4 *)(w.d + t * COLUMNS + w.four) = u;
    }
}

template <int KEYS, int COLUMNS, bool ALIGNED>
static __device__ inline void put_rows(const tern_cuda_delta &p, const walk_of &w, const rates &r, const float *tile_q,
                                       uint32_t first, uint32_t m)
{
    using W = walking<KEYS, COLUMNS>;
    float4 sums[W::rows];
    multiply_state<KEYS, COLUMNS>(w, tile_q, sums);
#pragma unroll
    for (int i = 0; i < W::rows; i++) {
        const uint32_t t = w.group + i * W::groups;
        if (t >= m) continue;
        const float *scores = p.scores + ((size_t)(first + t) * p.n_heads + w.head) * CHUNK;
        float4 y = scaled_by(sums[i], tern_exp((float)r.logs[t]));
#pragma unroll 4
        for (uint32_t s = 0; s <= t; s += 4)
            add_four<COLUMNS>(y, *(const float4 *)(scores + s), w.d + s * COLUMNS + w.four);
        if (w.column < p.values)
            put_four<ALIGNED>(p.out.data + (size_t)(first + t) * p.out.stride + w.head * p.values + w.column, y);
    }
}

/* The state after row t of the chunk, whose keys are in a tile: it is kept as `kept`, and the chunk's last one goes on.
 * `by`: room for the quotients. */
template <int KEYS, int COLUMNS>
static __device__ inline void leave_row(const tern_cuda_delta &p, const walk_of &w, const rates &r, float *by,
                                        const float *tile_k, uint32_t t, uint32_t kept, bool is_last)
{
    using W = walking<KEYS, COLUMNS>;
    if (threadIdx.x < CHUNK) by[threadIdx.x] = threadIdx.x <= t ? quotient(r, t, threadIdx.x) : 0;
    __syncthreads();
    const float decay = tern_exp((float)r.logs[t]);
    float4 sums[W::keys];
#pragma unroll
    for (int i = 0; i < W::keys; i++)
        sums[i] = scaled_by(*(const float4 *)(w.state + (w.group + i * W::groups) * COLUMNS + w.four), decay);
#pragma unroll 4
    for (uint32_t s = 0; s <= t; s++) {
        const float4 d = scaled_by(*(const float4 *)(w.d + s * COLUMNS + w.four), by[s]);
#pragma unroll
        for (int i = 0; i < W::keys; i++)
            add_product(sums[i], tile_k[s * tile<KEYS>::stride + w.group + i * W::groups], d);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < W::keys; i++) {
        const uint32_t key = w.group + i * W::groups;
        if (is_last) *(float4 *)(w.state + key * COLUMNS + w.four) = sums[i];
        if (kept != NO_STATE && key < p.keys && w.column < p.values)
            *(float4 *)state_at(p, kept, w.head, key, w.column) = sums[i];
    }
}

/* Which state row t of a run is kept as. */
static __device__ __forceinline__ uint32_t kept_after(const tern_cuda_delta &p, uint32_t t, uint32_t n)
{
    if (p.runs.positions) return state_after(p.runs, t);
    return is_of(p.runs, t + 1, n, p.runs.sequences[t]) ? state_kept(p, t + 1, n) : NO_STATE;
}

/* The state before a run; of training what is kept of it. */
template <int KEYS, int COLUMNS>
static __device__ inline void begin_state(const tern_cuda_delta &p, const walk_of &w, uint32_t first, uint32_t n)
{
    using W = walking<KEYS, COLUMNS>;
    const uint32_t state = state_before(p.runs, first), kept = state_kept(p, first, n);
#pragma unroll
    for (int i = 0; i < W::keys; i++) {
        const uint32_t key = w.group + i * W::groups;
        const bool is_there = key < p.keys && w.column < p.values;
        float4 x = make_float4(0, 0, 0, 0);
        if (is_there && state != NO_STATE) x = *(const float4 *)state_at(p, state, w.head, key, w.column);
        if (is_there && kept != NO_STATE) *(float4 *)state_at(p, kept, w.head, key, w.column) = x;
        *(float4 *)(w.state + key * COLUMNS + w.four) = x;
    }
}

/* Tiles of W, q and k take turns in two places: the next is on its way while one is multiplied. */
template <int KEYS, int COLUMNS, bool ALIGNED>
static __device__ inline void walk_run(const tern_cuda_delta &p, walk_of &w, rates &r, float *by, uint32_t *kept,
                                       uint32_t first, uint32_t n)
{
    const uint32_t of = key_head(p, w.head);
    const size_t w_stride = (size_t)p.n_heads * KEYS;
    uint32_t m = rows_from(p.runs, first, n), rows;
    __syncthreads();
    ask_tile<KEYS, true>(w.tiles[0], p.w + (size_t)first * w_stride + w.head * KEYS, w_stride, m, 0, KEYS);
    begin_state<KEYS, COLUMNS>(p, w, first, n);
    for (uint32_t t = first, at = 0; m; t += CHUNK, at ^= 1) {
        float *one = w.tiles[at], *other = w.tiles[at ^ 1];
        rows = m;
        load_rates(p, r, t, rows, w.head);
        if (threadIdx.x < CHUNK) kept[threadIdx.x] = threadIdx.x < rows ? kept_after(p, t + threadIdx.x, n) : NO_STATE;
        wait_for_copies();
        __syncthreads();
        ask_tile<KEYS, ALIGNED>(other, head_row(p.q, t, of, p.keys), p.q.stride, rows, 0, p.keys);
        make_d<KEYS, COLUMNS>(p, w, one, t, rows);
        wait_for_copies();
        __syncthreads();
        ask_tile<KEYS, ALIGNED>(one, head_row(p.k, t, of, p.keys), p.k.stride, rows, 0, p.keys);
        put_rows<KEYS, COLUMNS, ALIGNED>(p, w, r, other, t, rows);
        wait_for_copies();
        __syncthreads();
        m = rows == CHUNK && is_of(p.runs, t + CHUNK, n, p.runs.sequences[t]) ? rows_from(p.runs, t + CHUNK, n) : 0;
        if (m) ask_tile<KEYS, true>(other, p.w + (size_t)(t + CHUNK) * w_stride + w.head * KEYS, w_stride, m, 0, KEYS);
        for (uint32_t i = 0; i < rows; i++) {
            if (kept[i] == NO_STATE && i + 1 < rows) continue;
            leave_row<KEYS, COLUMNS>(p, w, r, by, one, i, kept[i], i + 1 == rows);
        }
        __syncthreads();
    }
}

template <int KEYS, int COLUMNS, bool ALIGNED>
static __global__ void __launch_bounds__(THREADS) delta_chunks(const __grid_constant__ tern_cuda_delta p)
{
    using W = walking<KEYS, COLUMNS>;
    extern __shared__ __align__(16) float memory[];
    __shared__ rates r;
    __shared__ float by[CHUNK];
    __shared__ uint32_t kept[CHUNK];
    const uint32_t four = threadIdx.x % W::fours * 4;
    walk_of w = {{memory, memory + tile<KEYS>::floats},
                 memory + 2 * tile<KEYS>::floats,
                 memory + 2 * tile<KEYS>::floats + KEYS * COLUMNS,
                 blockIdx.y,
                 blockIdx.x * COLUMNS + four,
                 four,
                 threadIdx.x / W::fours};
    tern_follow();
    const uint32_t n = tern_rows_now(p.count), window = blockIdx.z * CHUNK;
    const uint32_t end = min(n, is_one_run(p.runs) ? 1 : window + CHUNK);
    for (uint32_t t = window; t < end; t++)
        if (begins_run(p.runs, t) && is_chunked(p, t, n)) walk_run<KEYS, COLUMNS, ALIGNED>(p, w, r, by, kept, t, n);
}

/* ---- launches */
static cudaError_t allow(const void *kernel, size_t bytes)
{
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

template <int KEYS, int COLUMNS, bool ALIGNED>
static cudaError_t start_walk(const tern_cuda_delta *p, uint32_t windows, cudaStream_t stream)
{
    const size_t bytes = walking<KEYS, COLUMNS>::floats * sizeof(float);
    const dim3 grid((p->values + COLUMNS - 1) / COLUMNS, p->n_heads, windows);
    const cudaError_t e = allow((const void *)delta_chunks<KEYS, COLUMNS, ALIGNED>, bytes);
    if (e != cudaSuccess) return e;
    return tern_launch(delta_chunks<KEYS, COLUMNS, ALIGNED>, grid, THREADS, bytes, stream, *p);
}

template <int KEYS, bool ALIGNED> static cudaError_t start(const tern_cuda_delta *p, cudaStream_t stream)
{
    const size_t bytes = (2 * tile<KEYS>::floats + CHUNK * SQUARE) * sizeof(float);
    const uint32_t windows = (p->count.most + CHUNK - 1) / CHUNK;
    const uint32_t walked = is_one_run(p->runs) ? 1 : windows;
    cudaError_t e = allow((const void *)delta_prepare<KEYS, ALIGNED>, bytes);
    if (e != cudaSuccess) return e;
    e = tern_launch(delta_prepare<KEYS, ALIGNED>, dim3(windows, p->n_heads), THREADS, bytes, stream, *p);
    if (e != cudaSuccess) return e;
    if (p->slice == 16) return start_walk<KEYS, 16, ALIGNED>(p, walked, stream);
    return start_walk<KEYS, 32, ALIGNED>(p, walked, stream);
}

cudaError_t tern_delta_chunks(const tern_cuda_delta *p, cudaStream_t stream)
{
    const bool aligned = has_aligned_heads(p);
    if (tern_cuda_chunk_keys(p->keys) == 64) return aligned ? start<64, true>(p, stream) : start<64, false>(p, stream);
    return aligned ? start<128, true>(p, stream) : start<128, false>(p, stream);
}
