/* Arguments and launches of the kernels of recurrent layers, and of the ops beside them: plain structs, as in
 * kernels.h. */
#ifndef TERN_BACKEND_CUDA_RECURRENT_RECURRENT_H
#define TERN_BACKEND_CUDA_RECURRENT_RECURRENT_H

#include "backend/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TERN_CUDA_CONV_TAPS = 8,      /* TERN_CONV_MAX_TAPS */
    TERN_CUDA_DELTA_CHUNK = 64,   /* rows of a chunk: TERN_DELTA_CHUNK */
    TERN_CUDA_DELTA_KEYS = 256,   /* of a head, at most */
    TERN_CUDA_DELTA_VALUES = 512, /* TERN_DELTA_MAX_VALUES */
    TERN_CUDA_CHUNK_KEYS = 128    /* of heads that chunks have, at most */
};

/* SPLIT and its backward, which goes the other way. */
typedef struct tern_cuda_split {
    tern_cuda_count count;
    tern_cuda_rows whole, first, second;
    uint32_t cols, head_dim; /* of a half */
} tern_cuda_split;
cudaError_t tern_cuda_run_split(const tern_cuda_split *p, cudaStream_t stream);
cudaError_t tern_cuda_run_split_backward(const tern_cuda_split *p, cudaStream_t stream);

typedef struct tern_cuda_hadamard {
    tern_cuda_count count;
    tern_cuda_rows x, out;
    const float *signs;                     /* [cols]; NULL: all are 1 */
    uint32_t cols, block;                   /* block: a power of two that divides cols */
    uint32_t n_heads, n_kv_heads, head_dim; /* n_heads 0: columns stay in order; the inverse goes back to it */
    float scale;                            /* 1 / sqrt(block) */
    bool inverse;
} tern_cuda_hadamard;
/* The largest block that there is a kernel for. */
enum { TERN_CUDA_HADAMARD_BLOCK = 8192 };
cudaError_t tern_cuda_run_hadamard(const tern_cuda_hadamard *p, cudaStream_t stream);

/* Which rows are of one sequence, and where its state is. The rows of a sequence follow each other: they are a run. */
typedef struct tern_cuda_runs {
    const uint32_t *sequences; /* [rows]: of training, the first row of each row's document */
    const uint32_t *positions; /* [rows]; NULL: training, where every run begins with zeros */
    const uint32_t *before;    /* [sequences]: the state that each goes on from */
    const uint32_t *after;     /* [rows]: where what the row leaves is written, or TERN_NO_STATE */
    uint32_t n_sequences;
} tern_cuda_runs;

typedef struct tern_cuda_conv {
    tern_cuda_count count;
    tern_cuda_runs runs;
    tern_cuda_rows x, out;
    const float *weight; /* [cols] rows of weight_stride floats */
    float *state;        /* [states][taps - 1][cols]; NULL: training */
    uint32_t cols, taps, weight_stride;
} tern_cuda_conv;
cudaError_t tern_cuda_run_conv(const tern_cuda_conv *p, cudaStream_t stream);

/* GATED_DELTA, VARLEN_GATED_DELTA. */
typedef struct tern_cuda_delta {
    tern_cuda_count count;
    tern_cuda_runs runs;
    tern_cuda_rows q, k, v, a, b, out;
    const float *decay, *dt; /* [n_heads] */
    float *state; /* [states] of state_stride floats, [n_heads][keys][values]; of training, before each chunk of rows of
                   * the step */
    size_t state_stride;
    uint32_t n_heads, n_key_heads, keys, values;
    bool log_decay;   /* decay has A_log: -e^A_log */
    bool tiled;       /* head h has head h % n_key_heads of keys instead of h / (n_heads / n_key_heads) */
    uint32_t chunked; /* runs of at least so many rows are computed in chunks, others row by row; UINT32_MAX: none */
    uint32_t slice;   /* columns of values that a block of chunks has: 16 or 32 */
    /* Scratch of chunks (delta_chunks.cu), for each row and head; keys are tern_cuda_chunk_keys. */
    float *w;      /* [rows][n_heads][keys] */
    float *u;      /* [rows][n_heads][values] */
    float *scores; /* [rows][n_heads][TERN_CUDA_DELTA_CHUNK] */
} tern_cuda_delta;
cudaError_t tern_cuda_run_delta(const tern_cuda_delta *p, cudaStream_t stream);
/* The keys of w: 64 or 128. */
static inline uint32_t tern_cuda_chunk_keys(uint32_t keys)
{
    return keys <= 64 ? 64 : 128;
}

/* VARLEN_CONV_BACKWARD. */
typedef struct tern_cuda_conv_backward {
    tern_cuda_conv forward; /* its out: dy */
    tern_cuda_rows dx;
    float *dweight; /* [cols][taps], added to; NULL: frozen */
    float *parts;   /* scratch: [parts of the rows][taps][cols] */
} tern_cuda_conv_backward;
cudaError_t tern_cuda_run_conv_backward(const tern_cuda_conv_backward *p, cudaStream_t stream);
/* Parts of so many rows. */
uint32_t tern_cuda_conv_parts(uint32_t rows);

/* VARLEN_GATED_DELTA_BACKWARD, of heads of up to TERN_CUDA_BACKWARD_VALUES values. */
enum { TERN_CUDA_BACKWARD_VALUES = 128 };
typedef struct tern_cuda_delta_backward {
    tern_cuda_delta forward; /* its out: dy */
    tern_cuda_rows dq, dk, dv, da, db;
    float *ddecay, *ddt; /* [n_heads], added to; NULL: frozen */
    float *states;       /* scratch: [n_heads] of states_each floats, tern_cuda_delta_states */
    size_t states_each;
    float *parts; /* scratch: [rows][n_heads][2][keys], of dq and dk */
} tern_cuda_delta_backward;
cudaError_t tern_cuda_run_delta_backward(const tern_cuda_delta_backward *p, cudaStream_t stream);
/* The keys that lanes have: 64, 128 or 256. */
static inline uint32_t tern_cuda_lane_keys(uint32_t keys)
{
    return keys <= TERN_CUDA_CHUNK_KEYS ? tern_cuda_chunk_keys(keys) : TERN_CUDA_DELTA_KEYS;
}
/* The states before the rows of a chunk, as lanes have them. */
static inline size_t tern_cuda_delta_states(uint32_t keys, uint32_t values)
{
    return (size_t)TERN_CUDA_DELTA_CHUNK * tern_cuda_lane_keys(keys) * ((values + 15) / 16 * 16);
}

#ifdef __cplusplus
}
#endif

#endif
