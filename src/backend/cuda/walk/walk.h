/* One kernel for many ops of a graph of one token: it walks over steps, plain data in device memory, and between two of
 * them all blocks wait for each other. Usable from C and from CUDA's C++. */
#ifndef TERN_BACKEND_CUDA_WALK_WALK_H
#define TERN_BACKEND_CUDA_WALK_WALK_H

#include "backend/cuda/linear/product.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TERN_CUDA_WALK_DIM = 256,
    TERN_CUDA_WALK_SPLITS = 32,
    TERN_CUDA_WALK_HEADS = 4,
    TERN_CUDA_WALK_GRANULE = 4096, /* bytes of weights that are waited for together */
    TERN_CUDA_WALK_GRANULES = 56,  /* of the ring, at most; 8 at least */
    TERN_CUDA_WALK_LEAST_GRANULES = 8,
    TERN_CUDA_WALK_ROWS = 512, /* of out in a pass, at most */
    TERN_CUDA_WALK_ANY = -1
};

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
    uint32_t norm_slot;  /* ternary: where the norm's weights lie in shared memory; not where the step before has its */
    uint32_t rows, each; /* of out; of a block at most */
    uint32_t pass;       /* ternary: rows of out whose weights are in the ring at a time */
} tern_cuda_walk_linear;

/* ROPE_ATTENTION. A unit is up to four heads that share keys; of each, the positions are cut into splits, which the
 * blocks of the first ones add. */
typedef struct tern_cuda_walk_attention {
    tern_cuda_rope rope;
    tern_cuda_attention attention; /* of row 0; partials: [n_heads][splits][head_dim + 2], all bits set between steps */
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
    uint32_t times;        /* all of them, so often; it ends early once there is nothing to do */
    uint32_t blocks;       /* all of which run at once */
    uint32_t shared_bytes; /* of steps: the ring comes first, the slots of norms last */
    uint32_t n_norms;
    uint32_t norm_bytes[2]; /* of the slots, whole 16 bytes */
    uint32_t granules;      /* of the ring; 0: there are no weights for it */
    /* The format of its DENSE steps, TERN_CUDA_WALK_ANY where they differ. Kernels of one format call no functions,
     * which would cost them registers. */
    int format;
    bool f32_caches;
    uint32_t n_dense;
    const uint32_t *count;       /* 0: nothing to do */
    unsigned long long *arrived; /* device: how often blocks have waited; a multiple of `blocks` between launches */
} tern_cuda_walk;
cudaError_t tern_cuda_run_walk(const tern_cuda_walk *walk, cudaStream_t stream);

/* Shared memory that a step needs besides the ring, the norms and what every one has. */
uint32_t tern_cuda_step_shared(const tern_cuda_step *step);

#ifdef __cplusplus
}
#endif

#endif
