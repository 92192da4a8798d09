/* One kernel for many ops of a graph of one token: it walks over steps, plain data in device memory, and between two of
 * them all blocks wait for each other. Usable from C and from CUDA's C++. */
#ifndef TERN_BACKEND_CUDA_WALK_WALK_H
#define TERN_BACKEND_CUDA_WALK_WALK_H

#include "backend/cuda/linear/product.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TERN_CUDA_WALK_DIM = 256, TERN_CUDA_WALK_SPLITS = 32, TERN_CUDA_WALK_HEADS = 4, TERN_CUDA_WALK_ANY = -1 };

typedef enum tern_cuda_step_kind {
    TERN_CUDA_STEP_EMBED,
    TERN_CUDA_STEP_NORM,
    TERN_CUDA_STEP_QUANTIZE,
    TERN_CUDA_STEP_ADD,
    TERN_CUDA_STEP_SCALE,
    TERN_CUDA_STEP_GATE,
    TERN_CUDA_STEP_TERNARY, /* products of ternary weights and int8 */
    TERN_CUDA_STEP_DENSE,   /* of others, and of ternary weights and f32 */
    TERN_CUDA_STEP_ATTENTION,
    TERN_CUDA_STEP_SAMPLE
} tern_cuda_step_kind;

/* A product; x may be normed first, and then quantised for ternary weights. */
typedef struct tern_cuda_walk_linear {
    tern_cuda_product product;
    const float *norm; /* [cols]; NULL: none */
    float eps;
    uint32_t rows, each; /* of out; of a block at most */
} tern_cuda_walk_linear;

/* ROPE_ATTENTION. A unit is up to four heads that share keys; of each, the positions are cut into splits, and the block
 * that ends last adds them. */
typedef struct tern_cuda_walk_attention {
    tern_cuda_rope rope;
    tern_cuda_attention attention; /* of row 0; partials: [n_heads][splits][head_dim + 2] */
    uint32_t *done;                /* [units], zeros between steps */
    uint32_t units, unit_parts;    /* of all; of a head of keys */
} tern_cuda_walk_attention;

typedef struct tern_cuda_step {
    uint32_t kind;    /* tern_cuda_step_kind */
    uint32_t goes_on; /* it does not read what the step before writes: no wait between them */
    union {
        tern_cuda_embed embed;
        tern_cuda_norm norm;
        tern_cuda_quantize quantize;
        tern_cuda_elements elements;
        tern_cuda_walk_linear linear;
        tern_cuda_walk_attention attention;
        tern_cuda_sample sample;
        uint8_t whole[504]; /* with the words above, whole copies of 16 bytes */
    } of;
} tern_cuda_step;

/* A launch. */
typedef struct tern_cuda_walk {
    const tern_cuda_step *steps; /* device */
    uint32_t n_steps;
    uint32_t times;  /* all of them, so often; it ends early once there is nothing to do */
    uint32_t blocks; /* all of which run at once */
    uint32_t shared_bytes;
    /* Of its steps, TERN_CUDA_WALK_ANY where they differ: the format of DENSE ones, and the numbers of a head in a
     * lane. Kernels of one kind call no functions, which would cost them registers. */
    int format, numbers;
    uint32_t n_dense, n_attention;
    const uint32_t *count;       /* 0: nothing to do */
    unsigned long long *arrived; /* device: how often blocks have waited; a multiple of `blocks` between launches */
} tern_cuda_walk;
cudaError_t tern_cuda_run_walk(const tern_cuda_walk *walk, cudaStream_t stream);

/* Shared memory that a step needs besides what every one has. */
uint32_t tern_cuda_step_shared(const tern_cuda_step *step);

#ifdef __cplusplus
}
#endif

#endif
