/* Ops on rows: embedding, norms, the int8 quantiser, and what goes element by element. */
#include "backend/cuda/launch.cuh"
#include "backend/cuda/rows/levels.cuh"
#include "backend/cuda/unpack.cuh"

enum { THREADS = 256 };

/* One block for each row; a row beyond those of the step ends at once. */
static dim3 rows_grid(tern_cuda_count c, uint32_t x)
{
    return dim3(x, c.most);
}

static __global__ void embed(tern_cuda_embed p)
{
    const uint32_t t = blockIdx.y, c = blockIdx.x * THREADS + threadIdx.x;
    tern_follow();
    if (t >= tern_rows_now(p.count) || c >= p.table.cols) return;
    const uint32_t id = (uint32_t)p.ids[t];
    if (id >= p.table.rows) return;
    float v = tern_element(p.table.format, p.table.data + (size_t)id * p.table.row_bytes, c, p.table.cols);
    if (p.table.format == TERN_GPU_TERNARY) v *= p.table.row_scales ? p.table.row_scales[id] : p.table.scale;
    p.out.data[(size_t)t * p.out.stride + c] = v;
}

cudaError_t tern_cuda_run_embed(const tern_cuda_embed *p, cudaStream_t stream)
{
    return tern_launch(embed, rows_grid(p->count, (p->table.cols + THREADS - 1) / THREADS), THREADS, 0, stream, *p);
}

static __device__ float norm_factor(const float *x, uint32_t cols, float eps, float *room)
{
    float sum = 0;
    for (uint32_t c = threadIdx.x; c < cols; c += THREADS) sum += x[c] * x[c];
    return 1.0f / sqrtf(tern_block_sum(sum, room) / (float)cols + eps);
}

/* One block for each run of columns that is normed together. */
static __global__ void norm(tern_cuda_norm p)
{
    __shared__ float room[32];
    const uint32_t t = blockIdx.y, first = blockIdx.x * p.group;
    tern_follow();
    if (t >= tern_rows_now(p.count)) return;
    const float *x = p.x.data + (size_t)t * p.x.stride + first;
    const float r = norm_factor(x, p.group, p.eps, room);
    float *out = p.out.data + (size_t)t * p.out.stride + first;
    for (uint32_t c = threadIdx.x; c < p.group; c += THREADS) {
        float y = x[c] * r * p.weight[c];
        if (p.residual.data) y += p.residual.data[(size_t)t * p.residual.stride + first + c];
        out[c] = y;
    }
}

/* A warp for each group of up to NARROW columns, four at a time; those of heads are such. */
enum { NARROW = 512, NARROW_FOURS = NARROW / 128 };

static __global__ void __launch_bounds__(THREADS) norm_groups(tern_cuda_norm p)
{
    const uint32_t t = blockIdx.y, group = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    const uint32_t first = group * p.group, mine = threadIdx.x % 32 * 4;
    tern_follow();
    if (t >= tern_rows_now(p.count) || first >= p.cols) return;
    const float *x = p.x.data + (size_t)t * p.x.stride + first;
    float4 held[NARROW_FOURS];
    float squares = 0;
#pragma unroll
    for (int i = 0; i < NARROW_FOURS; i++) {
        held[i] = make_float4(0, 0, 0, 0);
        if (mine + i * 128 < p.group) held[i] = *(const float4 *)(x + mine + i * 128);
        squares = squares_of(held[i], squares);
    }
    const float r = 1.0f / sqrtf(tern_warp_sum(squares) / (float)p.group + p.eps);
#pragma unroll
    for (int i = 0; i < NARROW_FOURS; i++) {
        if (mine + i * 128 >= p.group) continue;
        float4 y = product_of(held[i], __ldg((const float4 *)(p.weight + mine + i * 128)), r);
        if (p.residual.data) {
            const float4 more =
                *(const float4 *)(p.residual.data + (size_t)t * p.residual.stride + first + mine + i * 128);
            y = make_float4(y.x + more.x, y.y + more.y, y.z + more.z, y.w + more.w);
        }
        *(float4 *)(p.out.data + (size_t)t * p.out.stride + first + mine + i * 128) = y;
    }
}

static bool has_narrow_groups(const tern_cuda_norm *p)
{
    return p->group % 4 == 0 && p->group <= NARROW && p->group < p->cols && tern_is_aligned(p->x) &&
           tern_is_aligned(p->out) && tern_is_aligned(p->residual) && (uintptr_t)p->weight % 16 == 0;
}

cudaError_t tern_cuda_run_norm(const tern_cuda_norm *p, cudaStream_t stream)
{
    enum { GROUPS = THREADS / 32 };
    const uint32_t groups = p->cols / p->group;
    if (has_narrow_groups(p))
        return tern_launch(norm_groups, rows_grid(p->count, (groups + GROUPS - 1) / GROUPS), THREADS, 0, stream, *p);
    return tern_launch(norm, rows_grid(p->count, groups), THREADS, 0, stream, *p);
}

static __device__ float finite(float v)
{
    if (v != v) return 0;
    return fminf(fmaxf(v, -3.402823466e38f), 3.402823466e38f);
}

/* Rows of up to THREADS * HELD columns stay in registers; of longer ones the rest is read again. */
enum { QUANTIZE_THREADS = 1024, HELD = 8, FEW_ROWS = 64 };

static __global__ void __launch_bounds__(QUANTIZE_THREADS) quantize(tern_cuda_quantize p)
{
    __shared__ float sums[32], largest[32];
    __shared__ int totals[32];
    const uint32_t t = blockIdx.y, step = blockDim.x;
    tern_follow();
    if (t >= tern_rows_now(p.count)) return;
    const float *x = p.x.data + (size_t)t * p.x.stride;
    float held[HELD], r = 1.0f, most = 1e-5f, squares = 0;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        const uint32_t c = threadIdx.x + i * step;
        held[i] = c < p.cols ? x[c] : 0;
        squares += held[i] * held[i];
    }
    for (uint32_t c = threadIdx.x + HELD * step; c < p.cols; c += step) squares += x[c] * x[c];
    if (p.norm) r = 1.0f / sqrtf(tern_block_sum(squares, sums) / (float)p.cols + p.eps);
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        const uint32_t c = threadIdx.x + i * step;
        held[i] = finite(p.norm && c < p.cols ? held[i] * r * p.norm[c] : held[i]);
        most = fmaxf(most, fabsf(held[i]));
    }
    for (uint32_t c = threadIdx.x + HELD * step; c < p.cols; c += step)
        most = fmaxf(most, fabsf(finite(p.norm ? x[c] * r * p.norm[c] : x[c])));
    const float scale = __fdiv_rn(127.0f, tern_block_max(most, largest));
    int8_t *q = p.out.data + (size_t)t * p.out.stride;
    int total = 0;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        const uint32_t c = threadIdx.x + i * step;
        const int level = max(-128, min(127, __float2int_rn(held[i] * scale)));
        if (c < p.out.stride) q[c] = (int8_t)level;
        total += level;
    }
    for (uint32_t c = threadIdx.x + HELD * step; c < p.out.stride; c += step) {
        const float v = c < p.cols ? finite(p.norm ? x[c] * r * p.norm[c] : x[c]) : 0;
        const int level = max(-128, min(127, __float2int_rn(v * scale)));
        q[c] = (int8_t)level;
        total += level;
    }
    total = tern_block_sum(total, totals);
    if (threadIdx.x) return;
    p.out.inv_scales[t] = __fdiv_rn(1.0f, scale);
    p.out.sums[t] = total;
}

/* The same of rows that can be read four floats at a time and stay in registers. */
enum { ROUNDS = 8, ROUND = THREADS * 4 };

static __global__ void __launch_bounds__(THREADS) quantize_fours(const __grid_constant__ tern_cuda_quantize p)
{
    __shared__ float sums[32], largest[32];
    __shared__ int totals[32];
    const uint32_t t = blockIdx.y, mine = threadIdx.x * 4;
    tern_follow();
    if (t >= tern_rows_now(p.count)) return;
    const float *x = p.x.data + (size_t)t * p.x.stride;
    float4 held[ROUNDS];
    float r = 1.0f, most = 1e-5f, squares = 0;
    int total = 0;
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
        held[i] = make_float4(0, 0, 0, 0);
        if (mine + i * ROUND < p.cols) held[i] = *(const float4 *)(x + mine + i * ROUND);
        squares = squares_of(held[i], squares);
    }
    if (p.norm) r = 1.0f / sqrtf(tern_block_sum(squares, sums) / (float)p.cols + p.eps);
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
        if (p.norm && mine + i * ROUND < p.cols)
            held[i] = product_of(held[i], __ldg((const float4 *)(p.norm + mine + i * ROUND)), r);
        most = most_of(held[i], most);
    }
    const float scale = __fdiv_rn(127.0f, fminf(tern_block_max(most, largest), 3.402823466e38f));
    int8_t *q = p.out.data + (size_t)t * p.out.stride;
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
        const uint32_t levels = levels_of(held[i], scale);
        if (mine + i * ROUND < p.out.stride) *(uint32_t *)(q + mine + i * ROUND) = levels;
        total = __dp4a((int)levels, 0x01010101, total);
    }
    total = tern_block_sum(total, totals);
    if (threadIdx.x) return;
    p.out.inv_scales[t] = __fdiv_rn(1.0f, scale);
    p.out.sums[t] = total;
}

static bool fits_fours(const tern_cuda_quantize *p)
{
    return p->cols % 4 == 0 && p->x.stride % 4 == 0 && p->out.stride <= ROUNDS * ROUND &&
           ((uintptr_t)p->x.data | (uintptr_t)p->norm) % 16 == 0;
}

cudaError_t tern_cuda_run_quantize(const tern_cuda_quantize *p, cudaStream_t stream)
{
    const dim3 grid = rows_grid(p->count, 1);
    if (fits_fours(p)) return tern_launch(quantize_fours, grid, THREADS, 0, stream, *p);
    const int threads = p->count.usual <= FEW_ROWS ? (int)QUANTIZE_THREADS : (int)THREADS;
    return tern_launch(quantize, grid, threads, 0, stream, *p);
}

/* ---- element by element: a kernel for each, over the columns in x and the rows in y */
struct gate_of {
    static __device__ float at(const tern_cuda_elements &p, uint32_t t, uint32_t c)
    {
        return tern_gate(p.activation, p.a.data[(size_t)t * p.a.stride + (p.one_gate ? 0 : c)],
                         p.b.data[(size_t)t * p.b.stride + c], p.limit);
    }
};

struct sum_of {
    static __device__ float at(const tern_cuda_elements &p, uint32_t t, uint32_t c)
    {
        return p.a.data[(size_t)t * p.a.stride + c] + p.b.data[(size_t)t * p.b.stride + c];
    }
};

struct scaled {
    static __device__ float at(const tern_cuda_elements &p, uint32_t t, uint32_t c)
    {
        const float y = p.a.data[(size_t)t * p.a.stride + c] * p.scale;
        return p.softcap > 0 ? tern_softcap(y, p.softcap) : y;
    }
};

struct gathered {
    static __device__ float at(const tern_cuda_elements &p, uint32_t t, uint32_t c)
    {
        return p.a.data[(size_t)p.index[t] * p.a.stride + c];
    }
};

/* Products are rounded before they are added, as ops/ref/ref_experts.c has it. */
struct combined {
    static __device__ float at(const tern_cuda_elements &p, uint32_t t, uint32_t c)
    {
        const size_t first = (size_t)t * p.n_routes;
        float sum = 0;
        for (uint32_t j = 0; j < p.n_routes; j++) {
            const float w = __uint_as_float(p.index[2 * (first + j) + 1]);
            const float part = __fmul_rn(w, p.a.data[(first + j) * p.a.stride + c]);
            sum = j ? __fadd_rn(sum, part) : part;
        }
        return p.b.data ? sum + p.b.data[(size_t)t * p.b.stride + c] : sum;
    }
};

template <typename Op> static __global__ void elements(tern_cuda_elements p)
{
    const uint32_t c = blockIdx.x * THREADS + threadIdx.x;
    tern_follow();
    if (blockIdx.y >= tern_rows_now(p.count) || c >= p.cols) return;
    const uint32_t t = tern_first_row(p.count) + blockIdx.y;
    p.out.data[(size_t)t * p.out.stride + c] = Op::at(p, t, c);
}

template <typename Op> static cudaError_t run_elements(const tern_cuda_elements *p, cudaStream_t stream)
{
    return tern_launch(elements<Op>, rows_grid(p->count, (p->cols + THREADS - 1) / THREADS), THREADS, 0, stream, *p);
}

cudaError_t tern_cuda_run_gate(const tern_cuda_elements *p, cudaStream_t stream)
{
    return run_elements<gate_of>(p, stream);
}

cudaError_t tern_cuda_run_add(const tern_cuda_elements *p, cudaStream_t stream)
{
    return run_elements<sum_of>(p, stream);
}

cudaError_t tern_cuda_run_scale(const tern_cuda_elements *p, cudaStream_t stream)
{
    return run_elements<scaled>(p, stream);
}

cudaError_t tern_cuda_run_gather(const tern_cuda_elements *p, cudaStream_t stream)
{
    return run_elements<gathered>(p, stream);
}

cudaError_t tern_cuda_run_combine(const tern_cuda_elements *p, cudaStream_t stream)
{
    return run_elements<combined>(p, stream);
}

/* ---- experts: a thread for each token, as ops/ref/ref_experts.c */
static __device__ bool precedes(float a, float b)
{
    return a >= b || b != b;
}

static __global__ void route(tern_cuda_route p)
{
    const uint32_t t = blockIdx.x * 32 + threadIdx.x, k = p.n_routes;
    if (t >= tern_rows_now(p.count)) return;
    const float *logits = p.logits.data + (size_t)t * p.logits.stride;
    uint32_t *routes = p.routes + (size_t)t * k * 2;
    uint32_t chosen[TERN_MAX_ROUTES];
    for (uint32_t e = 0, n = 0; e < p.n_experts; e++) {
        uint32_t at = n;
        while (at > 0 && !precedes(logits[chosen[at - 1]], logits[e])) at--;
        if (at >= k) continue;
        if (n < k) n++;
        for (uint32_t i = n - 1; i > at; i--) chosen[i] = chosen[i - 1];
        chosen[at] = e;
    }
    const float most = logits[chosen[0]];
    float sum = 0, kept = 0;
    for (uint32_t e = 0; e < p.n_experts && p.rule != TERN_ROUTE_SOFTMAX_TOP; e++) sum += tern_exp(logits[e] - most);
    for (uint32_t j = 0; j < k && p.rule == TERN_ROUTE_SOFTMAX_TOP; j++) sum += tern_exp(logits[chosen[j]] - most);
    for (uint32_t j = 0; j < k; j++) kept += tern_exp(logits[chosen[j]] - most) / sum;
    for (uint32_t j = 0; j < k; j++) {
        float w = tern_exp(logits[chosen[j]] - most) / sum;
        if (p.rule == TERN_ROUTE_SOFTMAX_ALL_NORMED) w /= kept;
        routes[2 * j] = chosen[j];
        routes[2 * j + 1] = __float_as_uint(w);
    }
}

cudaError_t tern_cuda_run_route(const tern_cuda_route *p, cudaStream_t stream)
{
    route<<<(p->count.most + 31) / 32, 32, 0, stream>>>(*p);
    return cudaGetLastError();
}
