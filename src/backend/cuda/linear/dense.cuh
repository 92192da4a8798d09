// Units of rows of weights times f32 rows that lie in shared memory.
#ifndef TERN_BACKEND_CUDA_LINEAR_DENSE_CUH
#define TERN_BACKEND_CUDA_LINEAR_DENSE_CUH

#include "backend/cuda/linear/units.cuh"

enum { ROWS = 2 }; // of weights, of a warp at a time

// Where vector j of four columns lies.
static __device__ __forceinline__ uint32_t place_of(uint32_t j)
{
    return j ^ ((j >> 3 ^ j >> 5) & 7);
}

template <int F, int NT>
static __device__ __forceinline__ void multiply_units(float (&sums)[ROWS][NT], const uint8_t *const *rows,
                                                      const Linear &l, const float *xs, uint32_t width, uint32_t i)
{
    constexpr int N = Format<F>::columns;
    Unit u[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) u[r] = load_unit<F>(rows[r], i, l.cols, l.row_bytes);
#pragma unroll
    for (int part = 0; part < Format<F>::parts; part++) {
        const uint32_t first = column_of<F>(i, part) / 4;
        float v[ROWS][N];
#pragma unroll
        for (int r = 0; r < ROWS; r++) numbers_of<F>(u[r], i, part, v[r]);
#pragma unroll
        for (int t = 0; t < NT; t++)
#pragma unroll
            for (int k = 0; k < N / 4; k++) {
                const float4 x = *(const float4 *)(xs + t * width + place_of(first + k) * 4);
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    sums[r][t] +=
                        v[r][4 * k] * x.x + v[r][4 * k + 1] * x.y + (v[r][4 * k + 2] * x.z + v[r][4 * k + 3] * x.w);
            }
    }
}

#endif
