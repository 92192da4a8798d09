// Preprocessing on the GPU: patterns of columns, a segmented radix sort by them (CUB), groups counted and written.
#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>

#include "matrix.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };

// plus | minus << 16 of each column of each block, and the column's number.
static __global__ void patterns(const int8_t *codes, uint32_t rows, uint32_t cols, uint32_t k, uint32_t *keys,
                                uint16_t *columns)
{
    const uint32_t c = blockIdx.x * THREADS + threadIdx.x, b = blockIdx.y;
    if (c >= cols) return;
    uint32_t key = 0;
    for (uint32_t r = 0; r < k && b * k + r < rows; r++) {
        const int code = codes[(size_t)(b * k + r) * cols + c];
        key |= (code > 0) << r | (code < 0) << (r + 16);
    }
    keys[(size_t)b * cols + c] = key;
    columns[(size_t)b * cols + c] = (uint16_t)c;
}

static __device__ bool begins(const uint32_t *keys, uint32_t i)
{
    return keys[i] && (i == 0 || keys[i - 1] != keys[i]);
}

// Groups of each block; a CUDA block has one.
static __global__ void count_groups(const uint32_t *all, uint32_t cols, uint32_t *counts)
{
    __shared__ uint32_t total;
    const uint32_t *keys = all + (size_t)blockIdx.x * cols;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    uint32_t n = 0;
    for (uint32_t i = threadIdx.x; i < cols; i += THREADS) n += begins(keys, i);
    atomicAdd(&total, n);
    __syncthreads();
    if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

static __global__ void write_groups(rsr_matrix m, const uint32_t *all)
{
    __shared__ uint32_t sums[WARPS];
    const uint32_t *keys = all + (size_t)blockIdx.x * m.cols, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t before = m.first[blockIdx.x];
    for (uint32_t from = 0; from < m.cols; from += THREADS) {
        const uint32_t i = from + threadIdx.x;
        const bool is_first = i < m.cols && begins(keys, i);
        const uint32_t all_first = __ballot_sync(~0u, is_first);
        if (lane == 0) sums[warp] = __popc(all_first);
        __syncthreads();
        uint32_t at = before + __popc(all_first & ((1u << lane) - 1));
        for (uint32_t w = 0; w < WARPS; w++) before += sums[w], at += w < warp ? sums[w] : 0;
        __syncthreads();
        if (!is_first) continue;
        uint32_t end = i + 1;
        while (end < m.cols && keys[end] == keys[i]) end++;
        m.words[at] = {(uint16_t)i, (uint16_t)(end - i), (uint16_t)keys[i], (uint16_t)(keys[i] >> 16)};
        m.fours[at] = {(int)i, (int)end, (int)(keys[i] & 0xffff), 0};
        m.starts[at] = i;
        m.masks[at] = keys[i];
    }
}

template <typename T> static T *device(size_t n)
{
    void *p = NULL;
    CUDA(cudaMalloc(&p, (n ? n : 1) * sizeof(T)));
    return (T *)p;
}

static __global__ void begin_blocks(int *begins, uint32_t blocks, uint32_t cols)
{
    const uint32_t b = blockIdx.x * THREADS + threadIdx.x;
    if (b <= blocks) begins[b] = (int)(b * cols);
}

static void sort_columns(rsr_matrix *m, const uint32_t *keys, uint32_t *sorted, const uint16_t *columns)
{
    const int n = (int)(m->blocks * m->cols), blocks = (int)m->blocks;
    int *begins = device<int>(m->blocks + 1);
    begin_blocks<<<m->blocks / THREADS + 1, THREADS>>>(begins, m->blocks, m->cols);
    size_t bytes = 0;
    CUDA(cub::DeviceSegmentedRadixSort::SortPairs(NULL, bytes, keys, sorted, columns, m->columns, n, blocks, begins,
                                                  begins + 1));
    uint8_t *room = device<uint8_t>(bytes);
    CUDA(cub::DeviceSegmentedRadixSort::SortPairs(room, bytes, keys, sorted, columns, m->columns, n, blocks, begins,
                                                  begins + 1));
    CUDA(cudaFree(room));
    CUDA(cudaFree(begins));
}

static void add_up(const uint32_t *counts, rsr_matrix *m)
{
    size_t bytes = 0;
    CUDA(cub::DeviceScan::ExclusiveSum(NULL, bytes, counts, m->first, m->blocks + 1));
    uint8_t *room = device<uint8_t>(bytes);
    CUDA(cub::DeviceScan::ExclusiveSum(room, bytes, counts, m->first, m->blocks + 1));
    CUDA(cudaMemcpy(&m->groups, m->first + m->blocks, sizeof m->groups, cudaMemcpyDeviceToHost));
    CUDA(cudaFree(room));
}

rsr_matrix rsr_make(const int8_t *codes, uint32_t rows, uint32_t cols, uint32_t k)
{
    rsr_matrix m = {k, rows, cols, (rows + k - 1) / k};
    const size_t n = (size_t)m.blocks * cols;
    uint32_t *keys = device<uint32_t>(n), *sorted = device<uint32_t>(n), *counts = device<uint32_t>(m.blocks + 1);
    uint16_t *columns = device<uint16_t>(n);
    m.columns = device<uint16_t>(n);
    m.first = device<uint32_t>(m.blocks + 1);
    patterns<<<dim3((cols + THREADS - 1) / THREADS, m.blocks), THREADS>>>(codes, rows, cols, k, keys, columns);
    sort_columns(&m, keys, sorted, columns);
    CUDA(cudaMemset(counts, 0, (m.blocks + 1) * sizeof *counts));
    count_groups<<<m.blocks, THREADS>>>(sorted, cols, counts);
    add_up(counts, &m);
    m.words = device<group_word>(m.groups);
    m.fours = device<group_four>(m.groups);
    m.starts = device<uint32_t>(m.groups);
    m.masks = device<uint32_t>(m.groups);
    write_groups<<<m.blocks, THREADS>>>(m, sorted);
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaFree(keys));
    CUDA(cudaFree(sorted));
    CUDA(cudaFree(counts));
    CUDA(cudaFree(columns));
    return m;
}

void rsr_free(rsr_matrix *m)
{
    CUDA(cudaFree(m->columns));
    CUDA(cudaFree(m->first));
    CUDA(cudaFree(m->words));
    CUDA(cudaFree(m->fours));
    CUDA(cudaFree(m->starts));
    CUDA(cudaFree(m->masks));
}

size_t rsr_bytes(const rsr_matrix *m)
{
    return (size_t)m->blocks * (m->cols * sizeof *m->columns + sizeof *m->first) + m->groups * sizeof *m->words;
}
