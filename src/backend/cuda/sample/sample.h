/* tern_sample_params (ops/params.h) for CUDA's C++; sample_check.c holds them together. */
#ifndef TERN_BACKEND_CUDA_SAMPLE_SAMPLE_H
#define TERN_BACKEND_CUDA_SAMPLE_SAMPLE_H

#include <stdint.h>

enum { TERN_CUDA_MAX_TOP_K = 64, TERN_CUDA_MAX_ENDS = 16, TERN_CUDA_MAX_STEPS = 128 };

typedef struct tern_cuda_sampler {
    uint32_t n_done, n_tokens, top_k;
    float temperature, top_p, min_p;
    uint32_t n_ends, reserved;
    uint32_t end_ids[TERN_CUDA_MAX_ENDS];
    float draws[TERN_CUDA_MAX_STEPS];
} tern_cuda_sampler;

#endif
