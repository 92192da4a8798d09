// Weights of any encoding times few f32 rows: out[t][r] = sum_c w[r][c] x[t][c], then the
// epilogue. Ternary weights give the sum of codes times x, times their scale.
//
// A warp has ROWS rows at a time, its lanes units of them; x lies in shared memory (in the device's, where it is too
// long), in an order in which the lanes' reads meet different banks. With a route a block has one row, and the rows of
// its expert. Sums in f32, in any order.
#include "backend/cuda/linear/dense.cuh"

enum { WARPS = 8 };

// Rows first .. first + tokens - 1 of x, and zeros up to NT rows of `width` columns.
template <int NT>
static __device__ void stage(const Linear &l, float *xs, uint32_t first, uint32_t tokens, uint32_t width)
{
    for (uint32_t t = 0; t < NT; t++) {
        const float *x = (const float *)l.x + (size_t)((first + min(t, tokens - 1)) / l.x_times) * l.x_stride;
        for (uint32_t c = threadIdx.x; c < width; c += blockDim.x) {
            xs[t * width + place_of(c / 4) * 4 + c % 4] = t < tokens && c < l.cols ? x[c] : 0;
        }
    }
    __syncthreads();
}

// The rows of a warp: neighbours of a part, or, gated, the same of both; `row` of the expert's.
struct Pair {
    Tile at;
    uint32_t part[ROWS], row[ROWS];
};

static __device__ __forceinline__ Pair pair_of(const Linear &l, uint32_t tile, uint32_t expert)
{
    Pair q;
    q.at = tile_of(l, tile, l.gated ? 1 : ROWS, expert);
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++) {
        q.part[r] = l.gated ? r : q.at.part;
        q.row[r] = q.at.first + (l.gated ? 0 : r);
    }
    return q;
}

// Among those of all experts.
static __device__ __forceinline__ uint32_t weight_row(const Linear &l, const Pair &q, int r)
{
    return (uint32_t)row_of_all(l, q.at, q.row[r]);
}

static __device__ __forceinline__ float finished(const Linear &l, const Pair &q, int r, float sum)
{
    const tern_cuda_part &part = l.parts[q.part[r]];
    const uint32_t row = weight_row(l, q, r);
    return biased(part, row, sum * scale_of(part, row));
}

// A lane for each number that comes out.
template <int NT>
static __device__ __forceinline__ void finish_pair(const Linear &l, const Pair &q, const float (&sums)[ROWS][NT],
                                                   uint32_t first_token, uint32_t tokens, uint32_t lane)
{
#pragma unroll
    for (int t = 0; t < NT; t++) {
        if (t >= tokens) break;
        if (l.gated && lane == t)
            finish(l, first_token + t, q.row[0],
                   gate_of(l, finished(l, q, 0, sums[0][t]), finished(l, q, 1, sums[1][t])));
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!l.gated && lane == r * NT + t && q.row[r] < l.parts[q.part[r]].rows)
                finish(l, first_token + t, q.at.col + q.row[r], finished(l, q, r, sums[r][t]));
        }
    }
}

template <int F, int NT>
static __global__ void __launch_bounds__(WARPS * 32)
    dense_vec(const __grid_constant__ Linear l, uint32_t width, uint32_t tiles)
{
    extern __shared__ __align__(16) float xs[];
    const uint32_t lane = threadIdx.x & 31, warps = blockDim.x / 32;
    const uint32_t count = row_count(l);
    if (blockIdx.y * NT >= count) return;
    const uint32_t first_token = first_row(l) + blockIdx.y * NT;
    const uint32_t tokens = min(count - blockIdx.y * NT, (uint32_t)NT), units = units_of<F>(l.cols, l.row_bytes);
    const uint32_t expert = l.routes ? l.routes[2 * first_token] : 0;
    if (expert >= l.n_experts) return; // none: another run's row
    stage<NT>(l, xs, first_token, tokens, width);
    for (uint32_t tile = blockIdx.x * warps + (threadIdx.x >> 5); tile < tiles; tile += gridDim.x * warps) {
        const Pair q = pair_of(l, tile, expert);
        const uint8_t *rows[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) rows[r] = l.parts[q.part[r]].w + (size_t)weight_row(l, q, r) * l.row_bytes;
        float sums[ROWS][NT] = {};
#pragma unroll(Format <F>::floats ? 4 : 1)
        for (uint32_t i = lane; i < units; i += 32) multiply_units<F, NT>(sums, rows, l, xs, width, i);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int t = 0; t < NT; t++)
#pragma unroll
                for (int k = 0; k < 5; k++) sums[r][t] += __shfl_xor_sync(~0u, sums[r][t], 16 >> k);
        finish_pair<NT>(l, q, sums, first_token, tokens, lane);
    }
}

template <int F, int NT> static cudaError_t start(const Linear *l, const tern_cuda_product_device *d, cudaStream_t s)
{
    // whole units, and the places of whole runs of 32 vectors
    const uint32_t width =
        (units_of<F>(l->cols, l->row_bytes) * Format<F>::columns * Format<F>::parts + 127) / 128 * 128;
    const size_t shared = (size_t)width * NT * sizeof(float);
    if (shared > d->shared_bytes) return cudaErrorInvalidValue;
    if (shared > 48 * 1024) {
        const cudaError_t e =
            cudaFuncSetAttribute(dense_vec<F, NT>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
        if (e != cudaSuccess) return e;
    }
    const uint32_t tiles = tiles_of(l, l->gated ? 1 : ROWS), n = d->multiprocessors;
    const uint32_t fit = (uint32_t)(d->shared_bytes / (shared + 1024)), most = n * (fit < 1 ? 1 : fit > 6 ? 6 : fit);
    const uint32_t warps = tiles / n < 2 ? 2 : tiles / n > WARPS ? WARPS : tiles / n;
    const uint32_t blocks = (tiles + warps - 1) / warps;
    const dim3 grid(blocks < most ? blocks : most, (l->n + NT - 1) / NT);
    dense_vec<F, NT><<<grid, warps * 32, shared, s>>>(*l, width, tiles);
    return cudaGetLastError();
}

template <int F> static cudaError_t start_format(const Linear *l, const tern_cuda_product_device *d, cudaStream_t s)
{
    const bool one = l->n == 1 || l->routes || (size_t)(l->cols + 127) * 16 > d->shared_bytes;
    return one ? start<F, 1>(l, d, s) : start<F, 4>(l, d, s);
}

cudaError_t tern_cuda_dense_vec(const Linear *l, const tern_cuda_product_device *d, cudaStream_t s)
{
    switch (l->format) {
#define START(format)                                                                                                  \
    case TERN_GPU_##format: return start_format<TERN_GPU_##format>(l, d, s);
        TERN_CUDA_DENSE_FORMATS(START)
        START(TERNARY)
#undef START
    default: return cudaErrorInvalidValue;
    }
}
