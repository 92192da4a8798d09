/* Arguments and launches of the kernels: plain structs, for C and for CUDA's C++. Pointers are to device memory;
 * strides count elements. Every function only launches, on `stream`, and may be captured in a graph. */
#ifndef TERN_BACKEND_CUDA_KERNELS_H
#define TERN_BACKEND_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of a step: *n of them (a word of the parameter COUNTS or GROUPS, read by the device), each `times` over; at most
 * `most`, for which a launch has room. They begin at row *first * times, which only LINEAR, ADD and SCALE look at. */
typedef struct tern_cuda_count {
    const uint32_t *n;
    uint32_t times, most;
    uint32_t usual;        /* tern_graph_usual_rows */
    const uint32_t *first; /* NULL: at row 0 */
} tern_cuda_count;

typedef struct tern_cuda_rows {
    float *data; /* NULL: there are none */
    uint32_t stride;
} tern_cuda_rows;

/* int8 rows, each with 1 / its scale and the sum of its numbers. */
typedef struct tern_cuda_q8 {
    int8_t *data;
    float *inv_scales;
    int32_t *sums;
    uint32_t stride; /* bytes; zeros beyond the columns */
} tern_cuda_q8;

/* A weight in a layout of backend/gpu/layout.h, in one slice. */
typedef struct tern_cuda_weight {
    const uint8_t *data;
    const float *row_scales; /* [rows], of ternary ones; NULL: `scale` for all */
    float scale;
    uint32_t format; /* tern_gpu_format */
    uint32_t rows, cols, row_bytes;
} tern_cuda_weight;

/* ---- rows */
typedef struct tern_cuda_embed {
    tern_cuda_count count;
    tern_cuda_weight table;
    const int32_t *ids;
    tern_cuda_rows out;
} tern_cuda_embed;
cudaError_t tern_cuda_run_embed(const tern_cuda_embed *p, cudaStream_t stream);

typedef struct tern_cuda_norm {
    tern_cuda_count count;
    tern_cuda_rows x, residual, out;
    const float *weight;  /* [group] */
    uint32_t cols, group; /* columns of x; columns that are normed together */
    float eps;
} tern_cuda_norm;
cudaError_t tern_cuda_run_norm(const tern_cuda_norm *p, cudaStream_t stream);

typedef struct tern_cuda_quantize {
    tern_cuda_count count;
    tern_cuda_rows x;
    const float *norm; /* [cols]: x is normed with it first; NULL: not */
    uint32_t cols;
    float eps;
    tern_cuda_q8 out;
} tern_cuda_quantize;
cudaError_t tern_cuda_run_quantize(const tern_cuda_quantize *p, cudaStream_t stream);

/* GATE, ADD, SCALE, GATHER and COMBINE: element by element. */
typedef struct tern_cuda_elements {
    tern_cuda_count count;
    tern_cuda_rows a, b, out; /* COMBINE: b is the residual */
    uint32_t cols;
    const uint32_t *index; /* GATHER: [rows]; COMBINE: the routes, pairs of expert and weight */
    uint32_t activation;   /* GATE: tern_activation */
    bool one_gate;         /* GATE: a has one column, for all of out */
    uint32_t n_routes;     /* COMBINE */
    float limit, scale, softcap;
} tern_cuda_elements;
cudaError_t tern_cuda_run_gate(const tern_cuda_elements *p, cudaStream_t stream);
cudaError_t tern_cuda_run_add(const tern_cuda_elements *p, cudaStream_t stream);
cudaError_t tern_cuda_run_scale(const tern_cuda_elements *p, cudaStream_t stream);
cudaError_t tern_cuda_run_gather(const tern_cuda_elements *p, cudaStream_t stream);
cudaError_t tern_cuda_run_combine(const tern_cuda_elements *p, cudaStream_t stream);

typedef struct tern_cuda_route {
    tern_cuda_count count;
    tern_cuda_rows logits;
    uint32_t n_experts, n_routes;
    uint32_t rule;    /* tern_route_rule */
    uint32_t *routes; /* [rows][n_routes] pairs */
} tern_cuda_route;
cudaError_t tern_cuda_run_route(const tern_cuda_route *p, cudaStream_t stream);

/* ---- linear */
enum { TERN_CUDA_MAX_PARTS = 3 };

/* Scratch of a LINEAR in 16 bits: its rows, and weights in blocks that become f16, so many bytes at a time. */
enum { TERN_CUDA_UNPACKED_BYTES = 32 << 20 };
typedef struct tern_cuda_half_rows {
    void *rows;      /* 16-bit numbers, zeros from the columns up to `stride`, a multiple of 8 */
    float *scales;   /* [rows]: what they are to be multiplied with */
    uint8_t *weight; /* TERN_CUDA_UNPACKED_BYTES */
    uint32_t stride;
} tern_cuda_half_rows;

/* LINEAR: out[t] = concat of W_p x[t] + bias_p, or gated act(W_0 x) * (W_1 x), + residual[t]. */
typedef struct tern_cuda_linear {
    tern_cuda_count count; /* rows of out */
    tern_cuda_rows x;      /* data NULL: q8 */
    tern_cuda_q8 q8;
    uint32_t n_parts;
    tern_cuda_weight weight[TERN_CUDA_MAX_PARTS];
    const float *bias[TERN_CUDA_MAX_PARTS]; /* [rows of the part]; NULL: none */
    tern_cuda_rows residual, out;
    bool gated;
    uint32_t activation; /* tern_activation */
    float limit;
    /* With a route: row r of out has expert routes[2 r]; the weights have n_experts times so many rows, biases too. */
    const uint32_t *routes; /* NULL: none */
    uint32_t n_experts;
    uint32_t x_times; /* row r of out reads row r / x_times of x: the experts of a token, or 1 */
    uint32_t *groups; /* scratch for rows that are put together by expert (product.h); NULL: none */
    uint32_t halves;  /* tern_halves: x and weights are rounded to 16 bits (ops/ref/halves/halves.h) */
    tern_cuda_half_rows rounded;
    bool is_rounded;                               /* by the norm before it */
    const struct tern_cuda_product_device *device; /* the host's: what it runs on */
    uint32_t kernel; /* of weights of one format: 1 + tern_cuda_product_kernel; 0: by the table */
} tern_cuda_linear;
/* Rounds x, where it has halves, for all products that read it. */
cudaError_t tern_cuda_round_rows(const tern_cuda_linear *p, cudaStream_t stream);

/* RMS_NORM of whole rows that writes those of the LINEAR behind it in 16 bits, too. */
typedef struct tern_cuda_rounded_norm {
    tern_cuda_norm norm;
    uint32_t halves; /* tern_halves */
    tern_cuda_half_rows rounded;
} tern_cuda_rounded_norm;
cudaError_t tern_cuda_run_rounded_norm(const tern_cuda_rounded_norm *p, cudaStream_t stream);
/* Whether there is a kernel for rows such as these. */
bool tern_cuda_can_round_norm(const tern_cuda_norm *p);

/* Whether it is multiplied by the kernels of narrow.h. */
bool tern_cuda_linear_is_narrow(const tern_cuda_linear *p);
cudaError_t tern_cuda_run_linear(const tern_cuda_linear *p, cudaStream_t stream);
/* Whether there is a kernel for weights in this format, with int8 rows or f32 ones. */
bool tern_cuda_has_linear(uint32_t format, bool q8);

/* ---- attention */
/* Where a token is and where its sequence's pages are. */
typedef struct tern_cuda_place {
    const uint32_t *positions, *sequences, *pages;
    uint32_t max_pages;
} tern_cuda_place;

typedef struct tern_cuda_cache {
    void *data; /* [pages][kv heads][32][head_dim] */
    bool f32;
    uint32_t bits; /* of a code, in rows of blocks of 32 (q8_0, q4_0: ops/dtype.h); 0: f16, or f32 */
} tern_cuda_cache;

/* ROPE, KV_WRITE, ROPE_KV: each head of q and k may be normed, is turned in place, and k and v go to the caches. */
typedef struct tern_cuda_rope {
    tern_cuda_count count;
    tern_cuda_rows q, k, v; /* NULL: not there */
    const float *q_norm, *k_norm, *table;
    float eps;
    uint32_t n_heads, n_kv_heads, head_dim, rope_dim, table_stride;
    bool adjacent, turns, back; /* turns false: KV_WRITE alone; back: by the negative angle */
    tern_cuda_cache k_cache, v_cache;
    tern_cuda_place place;
} tern_cuda_rope;
cudaError_t tern_cuda_run_rope(const tern_cuda_rope *p, cudaStream_t stream);

typedef struct tern_cuda_attention {
    tern_cuda_count count;
    tern_cuda_rows q, out;
    tern_cuda_cache k_cache, v_cache;
    tern_cuda_place place;
    uint32_t n_heads, n_kv_heads, head_dim, window;
    float scale, softcap;
    const float *sinks; /* [n_heads]; NULL: none */
    /* Rows of a sequence that follow each other are a run. Those of runs of at most `brief` have a split of their own
     * positions each, or several, whose sums are added then; the others are tiles of queries. */
    uint32_t brief, splits; /* splits 0: no run is brief; brief 0: all are */
    float *partials;        /* scratch, with several splits: [rows][n_heads][splits][head_dim + 2] */
} tern_cuda_attention;
cudaError_t tern_cuda_run_attention(const tern_cuda_attention *p, cudaStream_t stream);

/* ---- sample */
typedef struct tern_cuda_sample {
    const float *logits;
    uint32_t n_vocab;
    bool screened; /* -inf: a logit that is not wanted */
    uint32_t *counts, *positions, *tokens;
    int32_t *ids;
    void *sampler;             /* tern_sample_params */
    unsigned long long *found; /* scratch: [blocks][TERN_SAMPLE_MAX_TOP_K] */
    uint32_t *done;            /* 0 between steps */
    uint32_t each;             /* logits of a block */
} tern_cuda_sample;

/* tern_sample_row (ops/params.h). */
typedef struct tern_cuda_row_sampler {
    uint32_t zeros[2], top_k;
    float temperature, top_p, min_p;
    uint32_t zero;
    float draw;
} tern_cuda_row_sampler;

/* SAMPLE of each row of logits. */
typedef struct tern_cuda_sample_rows {
    tern_cuda_count count;
    tern_cuda_rows logits;
    uint32_t n_vocab, slices;
    bool screened;                         /* as above */
    const tern_cuda_row_sampler *samplers; /* [rows] */
    uint32_t *tokens;                      /* [rows] */
    unsigned long long *found;             /* scratch: [rows][slices][TERN_SAMPLE_MAX_TOP_K] */
} tern_cuda_sample_rows;
cudaError_t tern_cuda_run_sample_rows(const tern_cuda_sample_rows *p, cudaStream_t stream);

/* ---- measure (tensor cores: measure/dots.h): bytes read; n multiply-adds of f32 by each of 2048 * 256 threads */
cudaError_t tern_cuda_run_reads(const void *data, uint64_t bytes, uint32_t *sink, cudaStream_t stream);
cudaError_t tern_cuda_run_fmas(uint32_t n, uint32_t *sink, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
