/* Rows of numbers as halves for tensor cores: a float times a power of two is the sum of two halves, the first its 11
 * leading bits, but for 2^-22 of it or 2^-38 of the largest that the power is of
 * (docs/decisions/0021-products-of-floats.md): the largest of a row's chunk of A, of a whole row of B. Ternary codes,
 * int8 and f16 are halves as they are; bf16 and MXFP4 times 64 too, down to 2^-20; other weights times 64 are two.
 *
 * Or, of ops with halves, all of them as one plane of bf16, rounded to nearest even, without powers of two. */
#ifndef TERN_BACKEND_CUDA_TRAINING_PLANES_CUH
#define TERN_BACKEND_CUDA_TRAINING_PLANES_CUH

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "backend/cuda/kernels.h"

/* CHUNK: steps of a product that are summed by themselves. */
enum { PLANES = 2, CHUNK = 64 };

/* The last index is what a product sums over. */
typedef struct planes {
    __half *data;   /* [planes][rows][ld]; or bf16 */
    size_t plane;   /* numbers of one */
    uint32_t ld;    /* a multiple of 8 */
    float *inverse; /* [ld / CHUNK, rounded up][rows]: what a row's sum over a chunk is multiplied with. Of B: [rows],
                     * what a row's whole sum is multiplied with; NULL: 1. Not of bf16 */
} planes;

/* Rows or columns of what f32 values hold: row t of the step times by[t], column c times along[c]; NULL: 1. Rows that
 * are not there are zeros. */
typedef struct tern_cuda_floats {
    tern_cuda_count count;
    tern_cuda_rows from;
    uint32_t cols;
    const float *by, *along;
} tern_cuda_floats;

extern "C" {
/* Two planes [t][c] of an A; those of rows that are not there are left as they are. */
void tern_cuda_split_rows(const tern_cuda_floats *f, planes out, cudaStream_t stream);

/* Two planes [c][t] of an A. */
void tern_cuda_split_columns(const tern_cuda_floats *f, planes out, cudaStream_t stream);

/* Two planes [c][t] of a B; `most` [cols] is scratch. */
void tern_cuda_split_whole_columns(const tern_cuda_floats *f, planes out, uint32_t *most, cudaStream_t stream);

/* One plane [c][t] of int8 rows, without their scales. */
void tern_cuda_split_levels(tern_cuda_count count, tern_cuda_q8 q, uint32_t cols, planes out, cudaStream_t stream);

/* Planes [c][r] of rows first .. first + n of a weight, ternary ones without their scale. */
void tern_cuda_split_weight(const tern_cuda_weight *w, uint32_t first, uint32_t n, planes out, cudaStream_t stream);

/* One plane of bf16 with these numbers. */
void tern_cuda_round_rows_bf16(const tern_cuda_floats *f, planes out, cudaStream_t stream);
void tern_cuda_round_columns_bf16(const tern_cuda_floats *f, planes out, cudaStream_t stream);
void tern_cuda_round_levels_bf16(tern_cuda_count count, tern_cuda_q8 q, uint32_t cols, planes out, cudaStream_t stream);
void tern_cuda_round_weight_bf16(const tern_cuda_weight *w, uint32_t first, uint32_t n, planes out,
                                 cudaStream_t stream);

/* How many planes a weight of the format has, and what its numbers are multiplied with before they are split. */
uint32_t tern_cuda_weight_planes(uint32_t format);
float tern_cuda_weight_times(uint32_t format);
}

#endif
