// Rows of weights in blocks as f16, for kernels that the copy engine feeds: a thread for each unit of a row.
#include "backend/cuda/linear/units.cuh"

enum { THREADS = 256 };

template <int F>
static __global__ void __launch_bounds__(THREADS)
    unpack(const uint8_t *from, uint8_t *to, uint32_t rows, uint32_t cols, uint32_t row_bytes, uint32_t units)
{
    constexpr int N = Format<F>::columns;
    tern_follow();
    const uint32_t at = blockIdx.x * THREADS + threadIdx.x, row = at / units, i = at % units;
    if (row >= rows) return;
    const Unit u = load_unit<F>(from + (size_t)row * row_bytes, i, cols, row_bytes);
    uint16_t *out = (uint16_t *)to + (size_t)row * cols;
#pragma unroll
    for (int part = 0; part < Format<F>::parts; part++) {
        float v[N];
        uint32_t h[N / 2];
        numbers_of<F>(u, i, part, v);
#pragma unroll
        for (int k = 0; k < N / 2; k++) {
            const __half2 two = __floats2half2_rn(v[2 * k], v[2 * k + 1]);
            h[k] = *(const uint32_t *)&two;
        }
#pragma unroll
        for (int k = 0; k < N / 8; k++)
            *(uint4 *)(out + column_of<F>(i, part) + 8 * k) =
                make_uint4(h[4 * k], h[4 * k + 1], h[4 * k + 2], h[4 * k + 3]);
    }
}

template <int F>
static cudaError_t start(const Linear *l, const uint8_t *from, uint32_t rows, uint8_t *to, cudaStream_t s)
{
    const uint32_t units = units_of<F>(l->cols, l->row_bytes);
    const uint32_t blocks = (uint32_t)(((uint64_t)rows * units + THREADS - 1) / THREADS);
    return tern_launch(unpack<F>, blocks, THREADS, 0, s, from, to, rows, l->cols, l->row_bytes, units);
}

cudaError_t tern_cuda_unpack_halves(const Linear *l, const uint8_t *from, uint32_t rows, uint8_t *to, cudaStream_t s)
{
    switch (l->format) {
#define START(format)                                                                                                  \
    case TERN_GPU_##format: return start<TERN_GPU_##format>(l, from, rows, to, s);
        TERN_CUDA_BLOCK_FORMATS(START)
#undef START
    default: return cudaErrorInvalidValue;
    }
}
