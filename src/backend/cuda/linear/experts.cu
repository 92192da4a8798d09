/* Rows of a step put together by expert, in tiles that products read (product.h). */
#include "backend/cuda/linear/common.cuh"

enum { THREADS = TERN_CUDA_MOST_EXPERTS };

/* Sums of x over the threads up to each one, its own left out. */
static __device__ uint32_t sum_before(uint32_t x, uint32_t *room)
{
    room[threadIdx.x] = x;
    __syncthreads();
    for (uint32_t step = 1; step < THREADS; step *= 2) {
        const uint32_t more = threadIdx.x >= step ? room[threadIdx.x - step] : 0;
        __syncthreads();
        room[threadIdx.x] += more;
        __syncthreads();
    }
    return room[threadIdx.x] - x;
}

/* One block, a thread for each expert. The rows of an expert come in any order: a product's row does not depend on its
 * neighbours. */
static __global__ void __launch_bounds__(THREADS) group_rows(const __grid_constant__ Linear l, uint32_t tile_rows,
                                                                uint32_t tiles)
{
    __shared__ uint32_t counts[THREADS], next[THREADS], room[THREADS];
    const uint32_t n = row_count(l), first = first_row(l), e = threadIdx.x;
    uint32_t *experts = l.groups, *rows = l.groups + tiles;
    counts[e] = 0;
    __syncthreads();
    for (uint32_t i = e; i < n; i += THREADS) {
        const uint32_t expert = l.routes[2 * (first + i)];
        if (expert < l.n_experts) atomicAdd(&counts[expert], 1);
    }
    __syncthreads();
    const uint32_t mine = (counts[e] + tile_rows - 1) / tile_rows;
    const uint32_t from = sum_before(mine, room), used = room[THREADS - 1];
    next[e] = from * tile_rows;
    for (uint32_t t = from; t < from + mine; t++) experts[t] = e;
    for (uint32_t t = used + e; t < tiles; t += THREADS) experts[t] = UINT32_MAX;
    for (uint32_t i = counts[e]; i < mine * tile_rows; i++) rows[from * tile_rows + i] = UINT32_MAX;
    __syncthreads();
    for (uint32_t i = e; i < n; i += THREADS) {
        const uint32_t expert = l.routes[2 * (first + i)];
        if (expert < l.n_experts) rows[atomicAdd(&next[expert], 1)] = first + i;
    }
}

cudaError_t tern_cuda_group_rows(const Linear *l, uint32_t tile_rows, cudaStream_t s)
{
    group_rows<<<1, THREADS, 0, s>>>(*l, tile_rows, row_tiles_of(l, tile_rows));
    return cudaGetLastError();
}
