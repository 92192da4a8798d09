/* Gradients of norms, and those that are sums over rows: of norm weights, biases and embedding tables. */
#include "backend/cuda/device.cuh"
#include "backend/cuda/training/training.h"

enum { THREADS = 256, WARPS = THREADS / 32, COLUMNS = 32, LINES = 32 };
enum { NARROW = 512, MOST_PARTS = 512, MOST_SHARED = 48 << 10 };

/* Over a team, of a warp or of the block; the rooms take turns, so that one barrier is enough. */
template <int TEAM> static __device__ __forceinline__ float2 team_sum(float2 x, float2 (&room)[WARPS])
{
    x = make_float2(tern_warp_sum(x.x), tern_warp_sum(x.y));
    if (TEAM == 32) return x;
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
    __syncthreads();
    float2 sum = make_float2(0, 0);
    for (uint32_t i = 0; i < WARPS; i++) sum.x += room[i].x, sum.y += room[i].y;
    return sum;
}

/* The gradient of four numbers; its terms may cancel out. */
static __device__ __forceinline__ float4 four_backward(float4 x, float4 dy, float4 w, float r, float k)
{
    return make_float4(__fsub_rn(__fmul_rn(__fmul_rn(dy.x, w.x), r), __fmul_rn(x.x, k)),
                       __fsub_rn(__fmul_rn(__fmul_rn(dy.y, w.y), r), __fmul_rn(x.y, k)),
                       __fsub_rn(__fmul_rn(__fmul_rn(dy.z, w.z), r), __fmul_rn(x.z, k)),
                       __fsub_rn(__fmul_rn(__fmul_rn(dy.w, w.w), r), __fmul_rn(x.w, k)));
}

template <bool ALIGNED> static __device__ __forceinline__ void put_four(float *row, uint32_t c, uint32_t end, float4 x)
{
    if (ALIGNED && c + 4 <= end) {
        *(float4 *)(row + c) = x;
        return;
    }
    const float all[4] = {x.x, x.y, x.z, x.w};
    for (uint32_t i = 0; i < 4 && c + i < end; i++) row[c + i] = all[i];
}

static __host__ __device__ uint32_t four_times(uint32_t n)
{
    return (n + 3) / 4 * 4;
}

/* A row and group. A thread has the same columns of all of them, and adds up their part of the weight's gradient in
 * `sums`. */
template <int TEAM, bool ALIGNED>
static __device__ __forceinline__ void group_backward(const tern_cuda_norm_backward &p, uint32_t t, uint32_t first,
                                                      float *sums, float2 (&room)[WARPS])
{
    const uint32_t lane = threadIdx.x % TEAM * 4, n = p.group;
    const float *x_row = p.x.data + (size_t)t * p.x.stride + first;
    const float *dy_row = p.dy.data + (size_t)t * p.dy.stride + first;
    float2 both = make_float2(0, 0); /* of squares, and of products with the gradient */
#pragma unroll 4
    for (uint32_t c = lane; c < n; c += TEAM * 4) {
        const float4 x = tern_four_of<ALIGNED>(x_row, c, n), dy = tern_four_of<ALIGNED>(dy_row, c, n),
                     w = tern_four_of<ALIGNED>(p.weight, c, n);
        both.x += x.x * x.x + x.y * x.y + (x.z * x.z + x.w * x.w);
        both.y += dy.x * w.x * x.x + dy.y * w.y * x.y + (dy.z * w.z * x.z + dy.w * w.w * x.w);
    }
    both = team_sum<TEAM>(both, room);
    const float r = 1.0f / sqrtf(both.x / (float)n + p.eps), k = r * r * r * (both.y / (float)n);
#pragma unroll 4
    for (uint32_t c = lane; c < n; c += TEAM * 4) {
        const float4 x = tern_four_of<ALIGNED>(x_row, c, n), dy = tern_four_of<ALIGNED>(dy_row, c, n);
        if (p.out.data) {
            float4 dx = four_backward(x, dy, tern_four_of<ALIGNED>(p.weight, c, n), r, k);
            if (p.residual.data) {
                const float *residual = p.residual.data + (size_t)t * p.residual.stride + first;
                const float4 more = tern_four_of<ALIGNED>(residual, c, n);
                dx.x += more.x, dx.y += more.y, dx.z += more.z, dx.w += more.w;
            }
            put_four<ALIGNED>(p.out.data + (size_t)t * p.out.stride + first, c, n, dx);
        }
        if (!p.dweight) continue;
        float4 sum = *(const float4 *)(sums + c);
        sum.x += dy.x * (x.x * r), sum.y += dy.y * (x.y * r), sum.z += dy.z * (x.z * r), sum.w += dy.w * (x.w * r);
        *(float4 *)(sums + c) = sum;
    }
}

/* A team takes every so many rows and groups; of the weight's gradient a block has a part. */
template <int TEAM, bool ALIGNED>
static __global__ void __launch_bounds__(THREADS) norm_backward(tern_cuda_norm_backward p, bool fits)
{
    extern __shared__ __align__(16) float shared[];
    __shared__ float2 rooms[2][WARPS];
    constexpr uint32_t TEAMS = THREADS / TEAM;
    const uint32_t groups = p.cols / p.group, n = tern_rows_now(p.count) * groups, each = four_times(p.group);
    const uint32_t team = threadIdx.x / TEAM, lane = threadIdx.x % TEAM * 4;
    float *part = p.parts + (size_t)blockIdx.x * each, *sums = fits ? shared + team * each : part;
    for (uint32_t c = lane; p.dweight && c < p.group; c += TEAM * 4) *(float4 *)(sums + c) = make_float4(0, 0, 0, 0);
    uint32_t turn = 0;
    for (uint32_t i = blockIdx.x * TEAMS + team; i < n; i += gridDim.x * TEAMS, turn ^= 1)
        group_backward<TEAM, ALIGNED>(p, i / groups, i % groups * p.group, sums, rooms[turn]);
    if (!p.dweight || !fits) return;
    __syncthreads();
    for (uint32_t c = threadIdx.x; c < p.group; c += THREADS) {
        float sum = 0;
        for (uint32_t k = 0; k < TEAMS; k++) sum += shared[k * each + c];
        part[c] = sum;
    }
}

/* sums[c] += the sum of rows [n][stride], each line's in order, then those of lines. */
static __device__ void add_rows(float *sums, const float *rows, size_t stride, uint32_t n, uint32_t cols)
{
    __shared__ float lines[LINES][COLUMNS + 1];
    const uint32_t c = blockIdx.x * COLUMNS + threadIdx.x;
    float sum = 0;
#pragma unroll 8
    for (uint32_t t = threadIdx.y; t < n && c < cols; t += LINES) sum += rows[t * stride + c];
    lines[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || c >= cols) return;
    float all = 0;
    for (uint32_t i = 0; i < LINES; i++) all += lines[i][threadIdx.x];
    sums[c] += all;
}

static __global__ void __launch_bounds__(COLUMNS *LINES) add_parts(tern_cuda_norm_backward p, uint32_t n)
{
    add_rows(p.dweight, p.parts, four_times(p.group), n, p.group);
}

static dim3 columns_grid(uint32_t cols)
{
    return dim3((cols + COLUMNS - 1) / COLUMNS);
}

static uint32_t parts_of(uint32_t rows)
{
    return rows < MOST_PARTS ? rows : MOST_PARTS;
}

size_t tern_cuda_norm_bytes(uint32_t most, uint32_t cols, uint32_t group)
{
    return sizeof(float) * parts_of(most * (cols / group)) * four_times(group);
}

template <int TEAM> static void start_norm(const tern_cuda_norm_backward *p, uint32_t blocks, cudaStream_t stream)
{
    const size_t bytes = p->dweight ? sizeof(float) * (THREADS / TEAM) * four_times(p->group) : 0;
    const bool fits = bytes <= MOST_SHARED, aligned = tern_is_aligned(p->x) && tern_is_aligned(p->dy) &&
                                                      tern_is_aligned(p->residual) && tern_is_aligned(p->out) &&
                                                      ((size_t)p->weight & 15) == 0 && p->group % 4 == 0;
    if (aligned) norm_backward<TEAM, true><<<blocks, THREADS, fits ? bytes : 0, stream>>>(*p, fits);
    else norm_backward<TEAM, false><<<blocks, THREADS, fits ? bytes : 0, stream>>>(*p, fits);
}

cudaError_t tern_cuda_run_norm_backward(const tern_cuda_norm_backward *p, cudaStream_t stream)
{
    const uint32_t rows = p->count.most * (p->cols / p->group), teams = p->group <= NARROW ? WARPS : 1;
    const uint32_t all = (rows + teams - 1) / teams, blocks = p->dweight ? parts_of(all) : all;
    if (teams > 1) start_norm<32>(p, blocks, stream);
    else start_norm<THREADS>(p, blocks, stream);
    if (p->dweight) add_parts<<<columns_grid(p->group), dim3(COLUMNS, LINES), 0, stream>>>(*p, blocks);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(COLUMNS *LINES) bias_backward(tern_cuda_row_sums p)
{
    add_rows(p.sums, p.dy.data, p.dy.stride, tern_rows_now(p.count), p.cols);
}

cudaError_t tern_cuda_run_bias_backward(const tern_cuda_row_sums *p, cudaStream_t stream)
{
    bias_backward<<<columns_grid(p->cols), dim3(COLUMNS, LINES), 0, stream>>>(*p);
    return cudaGetLastError();
}

/* A row of the table belongs to the first token that has it, which adds the others, in order. */
static __global__ void embed_backward(tern_cuda_row_sums p)
{
    __shared__ uint32_t found[THREADS / 32];
    const uint32_t t = blockIdx.y, c = blockIdx.x * THREADS + threadIdx.x, n = tern_rows_now(p.count);
    if (t >= n) return;
    const int32_t id = p.ids[t];
    bool earlier = (uint32_t)id >= p.n_rows;
    for (uint32_t u = threadIdx.x; u < t && !earlier; u += THREADS) earlier = p.ids[u] == id;
    if (__syncthreads_or(earlier)) return;
    float *out = p.sums + (size_t)id * p.cols + c, sum = c < p.cols ? *out : 0;
    for (uint32_t first = t; first < n; first += THREADS) {
        const uint32_t u = first + threadIdx.x, same = __ballot_sync(~0u, u < n && p.ids[u] == id);
        if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = same;
        __syncthreads();
        for (uint32_t i = 0; i < THREADS / 32; i++)
            for (uint32_t left = found[i]; left; left &= left - 1) {
                const uint32_t from = first + i * 32 + __ffs((int)left) - 1;
                if (c < p.cols) sum = __fadd_rn(sum, p.dy.data[(size_t)from * p.dy.stride + c]);
            }
        __syncthreads();
    }
    if (c < p.cols) *out = sum;
}

cudaError_t tern_cuda_run_embed_backward(const tern_cuda_row_sums *p, cudaStream_t stream)
{
    embed_backward<<<dim3((p->cols + THREADS - 1) / THREADS, p->count.most), THREADS, 0, stream>>>(*p);
    return cudaGetLastError();
}
