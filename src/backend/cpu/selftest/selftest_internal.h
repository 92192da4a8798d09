/* The trials of the self test: each runs one kernel on a small problem and leaves what it gives in `out`. */
#ifndef TERN_BACKEND_CPU_SELFTEST_SELFTEST_INTERNAL_H
#define TERN_BACKEND_CPU_SELFTEST_SELFTEST_INTERNAL_H

#include "backend/cpu/cpu_internal.h"

enum { ROWS = 5, COLS = 512, TOKENS = 3, LUT_COLS = 320, BYTES = ROWS * COLS * 4 + 64 };

/* One small problem, and memory for two answers. */
typedef struct tern_selftest__trial {
    _Alignas(64) float x[TOKENS][COLS];
    _Alignas(64) int8_t q[TOKENS][COLS];
    _Alignas(64) uint8_t w[BYTES];
    _Alignas(64) uint8_t answer[2][BYTES];
    int32_t sums[TOKENS];
    size_t row_bytes;
    const tern_cpu_kernels *kernels;
    tern_status status; /* of making the problem */
    tern_error *err;
} tern_selftest__trial;

/* ---- products.c */
void tern_selftest__ternary(tern_selftest__trial *t, tern_ternary_fn fn, tern_encoding_id id, void *out);
/* Columns in any order, a number that is not a multiple of four. */
void tern_selftest__columns(tern_selftest__trial *t, tern_columns_fn fn, int32_t *out);
/* Each plane: a group and the half behind it. */
void tern_selftest__screen(tern_selftest__trial *t, tern_screen_fn fn, int32_t *out);
/* One unit, with q as its inputs. */
void tern_selftest__rsr(tern_selftest__trial *t, uint32_t n_tokens, tern_rsr_i8_fn fn, void *out);
/* Any bytes are codes (but bit 0 of signs, which is 1): those that no matrix has find zeros. */
void tern_selftest__lut(tern_selftest__trial *t, uint32_t width, tern_lut_fn fn, tern_lut_tables_fn tables, void *out);
void tern_selftest__dense(tern_selftest__trial *t, tern_dense_fn fn, tern_encoding_id id, void *out);
void tern_selftest__blocks(tern_selftest__trial *t, tern_blocks_fn fn, tern_encoding_id id, void *out);
/* Both ways to read a; every tile has an edge. */
void tern_selftest__gemm(tern_selftest__trial *t, tern_gemm_fn fn, float *out);
void tern_selftest__decode(tern_selftest__trial *t, tern_decode_fn fn, tern_encoding_id id, float *out);

/* ---- rows.c */
/* Over each type of cache, the values of one beside the keys of the one before. */
void tern_selftest__attention(tern_selftest__trial *t, const tern_cpu_kernels *k, float *out);
void tern_selftest__quantize(tern_selftest__trial *t, tern_quantize_fn fn, uint8_t *out);
void tern_selftest__quantize_blocks(tern_selftest__trial *t, tern_quantize_blocks_fn fn, uint8_t *out);
void tern_selftest__rope(tern_selftest__trial *t, tern_rope_fn fn, void *out);
void tern_selftest__conv(tern_selftest__trial *t, tern_conv_fn fn, void *out);
void tern_selftest__delta(tern_selftest__trial *t, tern_delta_fn fn, float *out);
void tern_selftest__conv_backward(tern_selftest__trial *t, tern_conv_backward_fn fn, float *out);
void tern_selftest__delta_backward(tern_selftest__trial *t, tern_delta_backward_fn fn, float *out);
void tern_selftest__product(tern_selftest__trial *t, tern_product_fn fn, void *out);
void tern_selftest__softmax(tern_selftest__trial *t, const tern_cpu_kernels *k, float *out);
void tern_selftest__cross_entropy(tern_selftest__trial *t, tern_cross_entropy_fn fn, float *out);
void tern_selftest__norm_backward(tern_selftest__trial *t, const tern_cpu_kernels *k, float *out);
/* Few bits everywhere; any two bytes are a bf16. */
void tern_selftest__update(tern_selftest__trial *t, tern_update_fn fn, uint8_t *out);
void tern_selftest__exponent(tern_selftest__trial *t, tern_requantize_exponent_fn fn, uint32_t *out);

#endif
