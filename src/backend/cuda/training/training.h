/* Arguments of the kernels of training (ops/operands.h says what each op computes): plain structs, for C and for CUDA's
 * C++. Every function only launches, on `stream`, and may be captured in a graph. */
#ifndef TERN_BACKEND_CUDA_TRAINING_H
#define TERN_BACKEND_CUDA_TRAINING_H

#include "backend/cuda/kernels.h"
#include "ops/activation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a part of scratch memory, so that the next one is aligned. */
static inline size_t tern_cuda_rounded(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* tern_train_params of ops/params.h and tern_dtype of ops/dtype.h, which are not C++. */
typedef struct tern_cuda_train_params {
    float loss_weight, blend;
    uint32_t seed;
    float clip, keep, blend1, beta2, blend2, root, eps, pace, lr, momentum, decay;
    uint32_t dropout_seed;
    float next_blend;
} tern_cuda_train_params;

typedef enum tern_cuda_stored { TERN_CUDA_F32, TERN_CUDA_BF16, TERN_CUDA_M8, TERN_CUDA_V8 } tern_cuda_stored;

/* DROPOUT, FAKE_QUANTIZE, SOFTCAP_BACKWARD, GATE_BACKWARD, CROSS_ENTROPY. */
typedef struct tern_cuda_train_rows {
    tern_cuda_count count;
    tern_cuda_rows a, b, c, out, second; /* second: dup of GATE_BACKWARD */
    tern_cuda_rows residual;             /* SOFTCAP_BACKWARD, GATE_BACKWARD */
    uint32_t cols, activation, stream, threshold;
    float factor, scale, softcap, limit;
    bool one_gate; /* GATE_BACKWARD: a and out have one column, for all of b */
    const int32_t *labels;
    const tern_cuda_train_params *params;
} tern_cuda_train_rows;
cudaError_t tern_cuda_run_dropout(const tern_cuda_train_rows *p, cudaStream_t stream);
cudaError_t tern_cuda_run_fake_quantize(const tern_cuda_train_rows *p, cudaStream_t stream);
cudaError_t tern_cuda_run_softcap_backward(const tern_cuda_train_rows *p, cudaStream_t stream);
cudaError_t tern_cuda_run_gate_backward(const tern_cuda_train_rows *p, cudaStream_t stream);
cudaError_t tern_cuda_run_cross_entropy(const tern_cuda_train_rows *p, cudaStream_t stream);

/* RMS_NORM_BACKWARD: rows of groups of `group` columns. */
typedef struct tern_cuda_norm_backward {
    tern_cuda_count count;
    tern_cuda_rows x, dy, residual, out; /* data NULL: not there */
    const float *weight;                 /* [group] */
    float *dweight;                      /* [group]; NULL: not wanted */
    float *parts;                        /* scratch: tern_cuda_norm_bytes */
    uint32_t cols, group;
    float eps;
} tern_cuda_norm_backward;
cudaError_t tern_cuda_run_norm_backward(const tern_cuda_norm_backward *p, cudaStream_t stream);
/* A norm whose weight's gradient is wanted. */
size_t tern_cuda_norm_bytes(uint32_t most, uint32_t cols, uint32_t group);

/* BIAS_BACKWARD, EMBED_BACKWARD: the gradient is added to. */
typedef struct tern_cuda_row_sums {
    tern_cuda_count count;
    tern_cuda_rows dy;
    const int32_t *ids;
    float *sums; /* [cols], or [n_rows][cols] */
    uint32_t cols, n_rows;
} tern_cuda_row_sums;
cudaError_t tern_cuda_run_bias_backward(const tern_cuda_row_sums *p, cudaStream_t stream);
cudaError_t tern_cuda_run_embed_backward(const tern_cuda_row_sums *p, cudaStream_t stream);

/* LINEAR_DX and LINEAR_DW: products of planes of halves (planes.cuh). */
typedef struct tern_cuda_gradient {
    tern_cuda_count count;
    tern_cuda_rows dy, x; /* x: of LINEAR_DW, data NULL: q8 */
    tern_cuda_q8 q8;
    tern_cuda_weight weight; /* of LINEAR_DX */
    tern_cuda_rows residual, out;
    uint32_t n_rows, cols; /* of the weight */
    uint8_t *scratch;      /* tern_cuda_gradient_bytes of it */
    bool bf16;             /* both factors are rounded to it */
} tern_cuda_gradient;
cudaError_t tern_cuda_run_linear_dx(const tern_cuda_gradient *p, cudaStream_t stream);
cudaError_t tern_cuda_run_linear_dw(const tern_cuda_gradient *p, cudaStream_t stream);
size_t tern_cuda_dx_bytes(uint32_t most, uint32_t n_rows, uint32_t cols);
size_t tern_cuda_dw_bytes(uint32_t most, uint32_t n_rows, uint32_t cols);

/* LINEAR_DX, LINEAR_DW and BIAS_BACKWARD with a route. */
typedef struct tern_cuda_routed {
    tern_cuda_count count;  /* routed rows */
    const uint32_t *routes; /* [rows] pairs of expert and weight */
    uint32_t n_experts;     /* at most TERN_MAX_EXPERTS */
    uint32_t each;          /* routed rows of a row of x, or of out of LINEAR_DX; 1 where that side is routed */
    tern_cuda_rows dy, x;   /* x: of LINEAR_DW, data NULL: q8 */
    tern_cuda_q8 q8;
    tern_cuda_weight weight; /* of LINEAR_DX */
    tern_cuda_rows residual, out;
    uint32_t n_rows, cols; /* of an expert's matrix */
    uint8_t *scratch;      /* tern_cuda_routed_bytes of it; cols 0: not LINEAR_DX */
} tern_cuda_routed;
cudaError_t tern_cuda_run_routed_dx(const tern_cuda_routed *p, cudaStream_t stream);
cudaError_t tern_cuda_run_routed_dw(const tern_cuda_routed *p, cudaStream_t stream);
cudaError_t tern_cuda_run_routed_bias(const tern_cuda_routed *p, cudaStream_t stream);
size_t tern_cuda_routed_bytes(uint32_t most, uint32_t n_experts, uint32_t cols);

/* ROUTE_BACKWARD and COMBINE_BACKWARD. */
typedef struct tern_cuda_choice {
    tern_cuda_count count;           /* tokens, or routed rows */
    tern_cuda_rows logits, residual; /* ROUTE_BACKWARD */
    tern_cuda_rows y, dout;          /* COMBINE_BACKWARD */
    tern_cuda_rows dweights, out;    /* of COMBINE_BACKWARD, data NULL: not wanted */
    const uint32_t *routes;
    uint32_t n_experts, n_routes, cols;
    uint32_t rule; /* tern_route_rule */
} tern_cuda_choice;
cudaError_t tern_cuda_run_route_backward(const tern_cuda_choice *p, cudaStream_t stream);
cudaError_t tern_cuda_run_combine_backward(const tern_cuda_choice *p, cudaStream_t stream);

/* LINEAR of a head in f16 for many rows: its rows are planes as they lie. */
typedef struct tern_cuda_head {
    tern_cuda_count count;
    tern_cuda_rows x, residual, out;
    tern_cuda_weight weight;
    uint8_t *scratch; /* tern_cuda_head_bytes */
} tern_cuda_head;
cudaError_t tern_cuda_run_head(const tern_cuda_head *p, cudaStream_t stream);
size_t tern_cuda_head_bytes(uint32_t most, uint32_t cols);

/* VARLEN_ATTENTION and its backward: heads of at most 256, on tensor cores of at most 128. */
enum { TERN_CUDA_TRAIN_DIM = 256, TERN_CUDA_TILE_DIM = 128 };
typedef struct tern_cuda_varlen {
    tern_cuda_count count;
    tern_cuda_rows q, k, v, out, statistics;
    tern_cuda_rows dout, dq, dk, dv;
    const uint32_t *starts;
    const float *sinks;
    float *dsinks, *deltas; /* deltas: scratch [rows][n_heads] */
    float *of_heads;        /* scratch behind them: dk, then dv of each head, [rows][n_heads * head_dim] */
    uint32_t n_heads, n_kv_heads, head_dim, window;
    float scale, softcap;
    /* bf16: factors of products are rounded to it; heads of at most TERN_CUDA_TILE_DIM. Scratch then: the rows rounded,
     * heads padded to a tile's columns; and what the backward needs of each query, [n_heads][rows] */
    bool bf16;
    uint16_t *q16, *k16, *v16, *dout16;
    struct float4 *queries;
} tern_cuda_varlen;
cudaError_t tern_cuda_run_varlen(const tern_cuda_varlen *p, cudaStream_t stream);
cudaError_t tern_cuda_run_varlen_backward(const tern_cuda_varlen *p, cudaStream_t stream);
/* Scratch of the backward; and of rounded rows, behind it. */
size_t tern_cuda_varlen_bytes(uint32_t most, uint32_t n_heads, uint32_t n_kv_heads, uint32_t head_dim);
size_t tern_cuda_varlen_rounded_bytes(uint32_t most, uint32_t n_heads, uint32_t n_kv_heads, uint32_t head_dim,
                                      bool backward);
/* Places the rounded rows. */
void tern_cuda_varlen_place_rounded(tern_cuda_varlen *p, uint8_t *scratch, bool backward);

/* SUM_SQUARES, UPDATE and REQUANTIZE: the same bits as ops/ref/update.h. */
typedef struct tern_cuda_update {
    uint64_t n;
    uint32_t rows, cols, row_bytes, stream;
    tern_cuda_stored w_type, m_type, v_type;
    void *w, *m, *v;
    float *g, *m_scales, *v_scales;
    const tern_cuda_train_params *params;
    bool adamw, decays, ternary, clears;
    float threshold, clamp;
    uint8_t *out;     /* codes, or f32 */
    float *scales;    /* [rows] behind codes */
    float *result;    /* of SUM_SQUARES */
    uint32_t *totals; /* scratch: sums of runs; of REQUANTIZE TERN_CUDA_TOTALS words, behind those of the one before */
    uint32_t first, first_codes; /* of the blocks of a launch */
} tern_cuda_update;

/* Elements that a block of a launch takes: of SUM_SQUARES a run, of others a part, which is small where an op is alone,
 * so that there are blocks for all processors; and bytes of codes. */
enum {
    TERN_CUDA_RUN = 4096,
    TERN_CUDA_PART = 16384,
    TERN_CUDA_SMALL_PART = 2048,
    TERN_CUDA_CODES = 4096,
    TERN_CUDA_TOTALS = 8
};

/* Ops of one kind that do not depend on each other, in one launch: a table on the device, in the order of `first`. */
typedef struct tern_cuda_updates {
    const tern_cuda_update *all; /* [n], on the device */
    uint32_t *totals;            /* of REQUANTIZE, the first one's */
    uint32_t n, each, blocks, code_blocks;
} tern_cuda_updates;
cudaError_t tern_cuda_run_sum_squares(const tern_cuda_updates *p, cudaStream_t stream);
cudaError_t tern_cuda_run_update(const tern_cuda_updates *p, cudaStream_t stream);
cudaError_t tern_cuda_run_requantize(const tern_cuda_updates *p, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
