/* Ops on the one row of a walk, its columns shared among all blocks. */
#ifndef TERN_BACKEND_CUDA_WALK_ROWS_CUH
#define TERN_BACKEND_CUDA_WALK_ROWS_CUH

#include "backend/cuda/unpack.cuh"
#include "backend/cuda/walk/block.cuh"

static __device__ __forceinline__ void walk_embed(const walker &w, const tern_cuda_embed &p)
{
    w.wait();
    const uint32_t id = (uint32_t)__ldcg(p.ids);
    if (id >= p.table.rows) return;
    const float scale = p.table.format != TERN_GPU_TERNARY ? 1.0f
                        : p.table.row_scales               ? p.table.row_scales[id]
                                                           : p.table.scale;
    const uint8_t *row = p.table.data + (size_t)id * p.table.row_bytes;
    for (uint32_t c = blockIdx.x * WALK_THREADS + threadIdx.x; c < p.table.cols; c += gridDim.x * WALK_THREADS)
        p.out.data[c] = tern_element(p.table.format, row, c, p.table.cols) * scale;
}

/* A block for each run of columns that is normed together. */
static __device__ __forceinline__ void walk_norm(const walker &w, const tern_cuda_norm &p)
{
    w.wait();
    for (uint32_t run = blockIdx.x; run < p.cols / p.group; run += gridDim.x) {
        const uint32_t first = run * p.group;
        float squares = 0;
        walk_sync();
        for (uint32_t c = threadIdx.x; c < p.group; c += WALK_THREADS) {
            const float x = __ldcg(p.x.data + first + c);
            squares += x * x;
        }
        const float r = 1.0f / sqrtf(walk_sum(squares, w.room->floats[0]) / (float)p.group + p.eps);
        for (uint32_t c = threadIdx.x; c < p.group; c += WALK_THREADS) {
            const float y = __ldcg(p.x.data + first + c) * r * p.weight[c];
            p.out.data[first + c] = p.residual.data ? y + __ldcg(p.residual.data + first + c) : y;
        }
    }
}

/* By one block. */
static __device__ __forceinline__ void walk_quantize(const walker &w, const tern_cuda_quantize &p)
{
    w.wait();
    if (blockIdx.x) return;
    float squares = 0, r = 1.0f, most = 1e-5f;
    int total = 0;
    if (threadIdx.x == 0) w.room->sum = 0;
    for (uint32_t c = threadIdx.x; c < p.cols; c += WALK_THREADS)
        squares += __ldcg(p.x.data + c) * __ldcg(p.x.data + c);
    if (p.norm) r = 1.0f / sqrtf(walk_sum(squares, w.room->floats[0]) / (float)p.cols + p.eps);
    for (uint32_t c = threadIdx.x; c < p.cols; c += WALK_THREADS)
        most = fmaxf(most, fabsf(finite_of(p.norm ? __ldcg(p.x.data + c) * r * p.norm[c] : __ldcg(p.x.data + c))));
    walk_sum_and_max(squares, most, w.room->floats + 1);
    const float scale = __fdiv_rn(127.0f, most);
    for (uint32_t c = threadIdx.x; c < p.out.stride; c += WALK_THREADS) {
        const float x = c < p.cols ? __ldcg(p.x.data + c) : 0;
        const float v = c < p.cols ? finite_of(p.norm ? x * r * p.norm[c] : x) : 0;
        const int level = max(-128, min(127, __float2int_rn(v * scale)));
        p.out.data[c] = (int8_t)level;
        total += level;
    }
    atomicAdd(&w.room->sum, total);
    walk_sync();
    if (threadIdx.x) return;
    p.out.inv_scales[0] = __fdiv_rn(1.0f, scale);
    p.out.sums[0] = w.room->sum;
}

static __device__ __forceinline__ float element_of(uint32_t kind, const tern_cuda_elements &p, uint32_t c)
{
    const float a = __ldcg(p.a.data + (p.one_gate ? 0 : c));
    if (kind == TERN_CUDA_STEP_ADD) return a + __ldcg(p.b.data + c);
    if (kind == TERN_CUDA_STEP_GATE) return tern_gate(p.activation, a, __ldcg(p.b.data + c), p.limit);
    return p.softcap > 0 ? tern_softcap(a * p.scale, p.softcap) : a * p.scale;
}

static __device__ __forceinline__ void walk_elements(const walker &w, uint32_t kind, const tern_cuda_elements &p)
{
    w.wait();
    for (uint32_t c = blockIdx.x * WALK_THREADS + threadIdx.x; c < p.cols; c += gridDim.x * WALK_THREADS)
        p.out.data[c] = element_of(kind, p, c);
}

#endif
