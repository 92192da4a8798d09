/* The kernels of a screened head: its copy, the bounds, and the rows that are left (screen.h). */
#include "backend/cuda/linear/screen.h"

#include "backend/cuda/launch.cuh"
#include "backend/cuda/linear/units.cuh"
#include "backend/cuda/sample/choose.cuh"
#include "backend/cuda/unpack.cuh"

enum { THREADS = 256, WARPS = THREADS / 32, BLOCK = 32, EXACT_BLOCKS = 512 };

struct block_threads {
    static constexpr uint32_t threads = THREADS;
    static __device__ void sync() { __syncthreads(); }
    static __device__ bool all(bool x) { return __syncthreads_and(x); }
};

/* ---- the copy */

/* A warp for each row, a lane for each column of a block of Q8_0. */
static __global__ void __launch_bounds__(THREADS) build(tern_cuda_screen_table s)
{
    const uint32_t row = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32, cols = s.table.cols;
    if (row >= s.table.rows) return;
    const uint8_t *from = s.table.data + (size_t)row * s.table.row_bytes;
    uint8_t *to = s.copy + (size_t)row * s.copy_bytes;
    float missed = 0, all = 0, copied = 0;
    for (uint32_t c = lane; c < cols; c += BLOCK) {
        const float w = tern_element(s.table.format, from, c, cols);
        const __half d = __float2half_rn(tern_warp_max(fabsf(w)) / 127.0f);
        const float scale = __half2float(d);
        const float q = scale > 0 ? fminf(fmaxf(rintf(w / scale), -127.0f), 127.0f) : 0.0f, u = q * scale;
        to[c] = (uint8_t)(int8_t)q;
        if (lane == 0) *(__half *)(to + cols + c / BLOCK * 2) = d;
        missed += (w - u) * (w - u);
        all += w * w;
        copied += u * u;
    }
    const float rounding = (float)(cols + 64) * 0x1p-24f, slack = 1.0f + 2 * rounding;
    const float error = sqrtf(tern_warp_sum(missed)) + rounding * (sqrtf(tern_warp_sum(all)) + sqrtf(tern_warp_sum(copied)));
    if (lane == 0) s.errors[row] = error < 1e30f ? error * slack * 1.0001f : __uint_as_float(0x7f800000u);
}

cudaError_t tern_cuda_screen_build(const tern_cuda_screen_table *s, cudaStream_t stream)
{
    build<<<(s->table.rows + WARPS - 1) / WARPS, THREADS, 0, stream>>>(*s);
    return cudaGetLastError();
}

/* ---- a step */

/* A block for each row that may be screened: what the step wants, and |x|. */
static __global__ void __launch_bounds__(THREADS) plan(tern_cuda_screened p)
{
    __shared__ float room[32];
    const uint32_t t = blockIdx.x, rows = min(p.counts[1], p.full.count.most), n_top = p.counts[2];
    const tern_cuda_wanted &more = *p.more;
    const uint32_t wanted = n_top + more.n_pinned;
    const bool screens = rows <= TERN_CUDA_SCREEN_ROWS && n_top && n_top <= TERN_CUDA_SCREEN_WANTED &&
                         more.n_pinned <= TERN_CUDA_SCREEN_WANTED && wanted <= TERN_CUDA_SCREEN_WANTED &&
                         wanted <= p.full.weight[0].rows && !(more.tail > 0);
    if (t == 0 && threadIdx.x == 0) {
        p.plan->rows = screens ? rows : 0;
        p.plan->full_rows = screens ? 0 : rows;
        p.plan->wanted = wanted;
    }
    if (!screens || t >= rows) return;
    const float *x = p.full.x.data + (size_t)t * p.full.x.stride;
    float sum = 0;
    for (uint32_t c = threadIdx.x; c < p.full.weight[0].cols; c += THREADS) sum += x[c] * x[c];
    sum = tern_block_sum(sum, room);
    if (threadIdx.x == 0) p.plan->norms[t] = sqrtf(sum) * (1.0f + (float)(p.full.weight[0].cols + 64) * 0x1p-24f);
}

/* How far the full logit may lie from its estimate; what a bias and its sum are rounded by with it. */
static __device__ __forceinline__ float bound(const tern_cuda_screened &p, float norm, uint32_t r, float estimate)
{
    return (norm * p.errors[r] + fabsf(estimate) * 0x1p-21f) * (1.0f + 0x1p-20f);
}

/* The least that a row's logit is; none where that is not known. */
struct least_of {
    const tern_cuda_screened &p;
    const float *logits;
    float norm;
    __device__ candidate at(uint32_t r) const
    {
        const float estimate = __ldcg(logits + r);
        const uint32_t key = key_of(estimate - bound(p, norm, r, estimate));
        return key == NOT_FINITE ? 0 : (candidate)key << 32 | (uint32_t)~r;
    }
};

static __global__ void __launch_bounds__(THREADS) find_least(const __grid_constant__ tern_cuda_screened p)
{
    __shared__ candidate room[32];
    const uint32_t t = blockIdx.y, n = p.full.weight[0].rows, each = (n + gridDim.x - 1) / gridDim.x;
    if (t >= p.plan->rows) return;
    const id_range range = {min(blockIdx.x * each, n), min((blockIdx.x + 1) * each, n)};
    const least_of of = {p, p.full.out.data + (size_t)t * p.full.out.stride, p.plan->norms[t]};
    find_best<block_threads>(of, range, p.plan->wanted, room, p.plan->found[t][blockIdx.x]);
}

/* A block for each row: what a wanted logit is at least. */
static __global__ void __launch_bounds__(THREADS) find_threshold(const __grid_constant__ tern_cuda_screened p)
{
    __shared__ candidate room[32], found[MOST];
    const uint32_t t = blockIdx.x, wanted = p.plan->wanted;
    const tern_cuda_wanted &more = *p.more;
    if (t >= p.plan->rows) return;
    const found_in_slices of = {&p.plan->found[t][0][0], wanted};
    find_best<block_threads>(of, {0, TERN_CUDA_SCREEN_SLICES * wanted}, wanted, room, found);
    if (threadIdx.x) return;
    const candidate last = found[wanted - 1], highest = found[more.n_pinned];
    const float least = last ? logit_of((uint32_t)(last >> 32)) : -__uint_as_float(0x7f800000u);
    const float near = highest ? logit_of((uint32_t)(highest >> 32)) - more.reach * (1.0f + 0x1p-20f) : least;
    p.plan->thresholds[t] = more.reach > 0 ? fminf(least, near) : least;
}

template <int F> static __device__ float full(const tern_cuda_screened &p, const float *x, uint32_t r)
{
    const tern_cuda_weight &w = p.full.weight[0];
    const uint8_t *row = w.data + (size_t)r * w.row_bytes;
    float sum = 0;
#pragma unroll 4
    for (uint32_t i = threadIdx.x % 32; i < units_of<F>(w.cols, w.row_bytes); i += 32) {
        float v[8];
        floats_of(F, load_unit<F>(row, i, w.cols, w.row_bytes), v);
#pragma unroll
        for (int k = 0; k < 8; k++) sum = fmaf(v[k], i * 8 + k < w.cols ? x[i * 8 + k] : 0.0f, sum);
    }
    sum = tern_warp_sum(sum);
    return p.full.bias[0] ? sum + p.full.bias[0][r] : sum;
}

static __device__ float full_of(const tern_cuda_screened &p, const float *x, uint32_t r)
{
    switch (p.full.weight[0].format) {
    case TERN_GPU_F32: return full<TERN_GPU_F32>(p, x, r);
    case TERN_GPU_F16: return full<TERN_GPU_F16>(p, x, r);
    default: return full<TERN_GPU_BF16>(p, x, r);
    }
}

static __device__ bool is_pinned(const uint32_t *pinned, uint32_t n, uint32_t r)
{
    for (uint32_t i = 0; i < n; i++)
        if (pinned[i] == r) return true;
    return false;
}

/* A lane for each row of the table: those of the warp that may be wanted are then computed by all of it. */
static __global__ void __launch_bounds__(THREADS) compute(const __grid_constant__ tern_cuda_screened p)
{
    __shared__ uint32_t pinned[TERN_CUDA_SCREEN_WANTED];
    const uint32_t t = blockIdx.y, n = p.full.weight[0].rows, lane = threadIdx.x % 32;
    if (t >= p.plan->rows) return;
    const tern_cuda_wanted &more = *p.more;
    if (threadIdx.x < more.n_pinned) pinned[threadIdx.x] = more.pinned[threadIdx.x];
    __syncthreads();
    const float *x = p.full.x.data + (size_t)t * p.full.x.stride, norm = p.plan->norms[t];
    const float threshold = p.plan->thresholds[t];
    float *logits = p.full.out.data + (size_t)t * p.full.out.stride;
    for (uint32_t first = (blockIdx.x * WARPS + threadIdx.x / 32) * 32; first < n; first += gridDim.x * THREADS) {
        const uint32_t r = first + lane;
        const float estimate = r < n ? logits[r] : 0;
        const bool out = estimate + bound(p, norm, min(r, n - 1), estimate) < threshold;
        const bool left = r < n && (!out || is_pinned(pinned, more.n_pinned, r));
        if (r < n && !left) logits[r] = -__uint_as_float(0x7f800000u);
        for (uint32_t rest = __ballot_sync(~0u, left); rest; rest &= rest - 1) {
            const uint32_t k = __ffs(rest) - 1;
            const float logit = full_of(p, x, first + k);
            if (lane == k) logits[r] = logit;
        }
    }
}

cudaError_t tern_cuda_run_screened(const tern_cuda_screened *p, cudaStream_t stream)
{
    const uint32_t rows = p->estimate.count.most, blocks = (p->full.weight[0].rows + THREADS - 1) / THREADS;
    plan<<<rows, THREADS, 0, stream>>>(*p);
    cudaError_t e = tern_cuda_run_linear(&p->estimate, stream);
    if (!e) e = tern_cuda_run_linear(&p->full, stream);
    if (e) return e;
    find_least<<<dim3(TERN_CUDA_SCREEN_SLICES, rows), THREADS, 0, stream>>>(*p);
    find_threshold<<<rows, THREADS, 0, stream>>>(*p);
    compute<<<dim3(blocks < EXACT_BLOCKS ? blocks : EXACT_BLOCKS, rows), THREADS, 0, stream>>>(*p);
    return cudaGetLastError();
}
