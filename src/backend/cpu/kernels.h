/* The CPU kernels: one slot for each function of ops/ref, filled at run time by the best level that the CPU has. */
#ifndef TERN_BACKEND_CPU_KERNELS_H
#define TERN_BACKEND_CPU_KERNELS_H

#include "base/cpu.h"
#include "ops/ref/backward.h"
#include "ops/ref/blocks.h"
#include "ops/ref/columns.h"
#include "ops/ref/gemm.h"
#include "ops/ref/lut.h"
#include "ops/ref/recurrent/recurrent.h"
#include "ops/ref/ref.h"
#include "ops/ref/rotated/hadamard.h"
#include "ops/ref/rsr.h"
#include "ops/ref/update.h"

#define TERN_CPU_INT8_SLOT(X, name, NAME, elements, bytes)   X(int8_##name, tern_blocks_fn)
#define TERN_CPU_DENSE_SLOT(X, name, NAME, elements, bytes)  X(name, tern_dense_fn)
#define TERN_CPU_DECODE_SLOT(X, name, NAME, elements, bytes) X(decode_##name, tern_decode_fn)
#define TERN_CPU_STORE_SLOT(X, name, NAME, elements, bytes)  X(kv_store_##name, tern_kv_store_fn)

/* X(slot, function type): what a table of kernels holds; the scalar level is tern_ref_<slot>. */
#define TERN_CPU_SLOT_LIST(X)                                                                                          \
    X(i2_s, tern_ternary_fn)                                                                                           \
    X(tq2_0, tern_ternary_fn)                                                                                          \
    X(tq1_0, tern_ternary_fn)                                                                                          \
    X(t160, tern_ternary_fn)                                                                                           \
    X(columns, tern_columns_fn)                                                                                        \
    X(rsr_i8, tern_rsr_i8_fn)                                                                                          \
    X(rsr_i8x4, tern_rsr_i8x4_fn)                                                                                      \
    X(lut2, tern_lut_fn)                                                                                               \
    X(lut3, tern_lut_fn)                                                                                               \
    X(lut5, tern_lut_fn)                                                                                               \
    X(lut2_tables, tern_lut_tables_fn)                                                                                 \
    X(lut3_tables, tern_lut_tables_fn)                                                                                 \
    X(lut5_tables, tern_lut_tables_fn)                                                                                 \
    X(f32, tern_dense_fn)                                                                                              \
    X(f16, tern_dense_fn)                                                                                              \
    X(bf16, tern_dense_fn)                                                                                             \
    TERN_ENCODING_INT8_LIST(TERN_CPU_INT8_SLOT, X)                                                                     \
    X(quantize_blocks, tern_quantize_blocks_fn)                                                                        \
    TERN_ENCODING_BLOCK_LIST(TERN_CPU_DENSE_SLOT, X)                                                                   \
    X(screen, tern_screen_fn)                                                                                          \
    X(rms_norm, tern_rms_norm_fn)                                                                                      \
    X(quantize, tern_quantize_fn)                                                                                      \
    X(relu2, tern_gate_fn)                                                                                             \
    X(silu, tern_gate_fn)                                                                                              \
    X(gelu, tern_gate_fn)                                                                                              \
    X(swiglu_oai, tern_limited_gate_fn)                                                                                \
    X(swiglu_clamped, tern_limited_gate_fn)                                                                            \
    X(add, tern_add_fn)                                                                                                \
    X(softcap_row, tern_softcap_fn)                                                                                    \
    X(sigmoid, tern_gate_fn)                                                                                           \
    X(hadamard, tern_hadamard_fn)                                                                                      \
    X(hadamard_inverse, tern_hadamard_fn)                                                                              \
    X(conv, tern_conv_fn)                                                                                              \
    X(delta, tern_delta_fn)                                                                                            \
    X(conv_backward, tern_conv_backward_fn)                                                                            \
    X(delta_backward, tern_delta_backward_fn)                                                                          \
    X(rope_halves, tern_rope_fn)                                                                                       \
    X(rope_adjacent, tern_rope_fn)                                                                                     \
    TERN_CACHE_TYPE_LIST(TERN_CPU_STORE_SLOT, X)                                                                       \
    X(attention, tern_attention_fn)                                                                                    \
    X(gemm, tern_gemm_fn)                                                                                              \
    X(decode_i8, tern_decode_fn)                                                                                       \
    X(decode_f16, tern_decode_fn)                                                                                      \
    X(decode_bf16, tern_decode_fn)                                                                                     \
    TERN_ENCODING_BLOCK_LIST(TERN_CPU_DECODE_SLOT, X)                                                                  \
    X(decode_i2_s, tern_decode_fn)                                                                                     \
    X(decode_tq2_0, tern_decode_fn)                                                                                    \
    X(decode_tq1_0, tern_decode_fn)                                                                                    \
    X(decode_t160, tern_decode_fn)                                                                                     \
    X(product, tern_product_fn)                                                                                        \
    X(softmax, tern_softmax_fn)                                                                                        \
    X(softmax_backward, tern_softmax_backward_fn)                                                                      \
    X(cross_entropy, tern_cross_entropy_fn)                                                                            \
    X(rms_norm_backward, tern_rms_norm_backward_fn)                                                                    \
    X(norm_weight_backward, tern_norm_weight_backward_fn)                                                              \
    X(relu2_backward, tern_gate_backward_fn)                                                                           \
    X(silu_backward, tern_gate_backward_fn)                                                                            \
    X(gelu_backward, tern_gate_backward_fn)                                                                            \
    X(sigmoid_backward, tern_gate_backward_fn)                                                                         \
    X(rope_halves_backward, tern_rope_fn)                                                                              \
    X(rope_adjacent_backward, tern_rope_fn)                                                                            \
    X(dropout, tern_dropout_fn)                                                                                        \
    X(fake_quantize, tern_fake_quantize_fn)                                                                            \
    X(update, tern_update_fn)                                                                                          \
    X(sum_run, tern_sum_run_fn)                                                                                        \
    X(requantize_exponent, tern_requantize_exponent_fn)                                                                \
    X(requantize_units, tern_requantize_units_fn)                                                                      \
    X(requantize_codes, tern_requantize_codes_fn)                                                                      \
    X(requantize_blend, tern_requantize_blend_fn)

/* Levels in the order of preference, later beats earlier: X(LEVEL, "name", needed feature bits). kernels.def lists the
 * kernels: KERNEL(slot, LEVEL) stands for the function tern_cpu__<slot>_<LEVEL>. */
#define TERN_CPU_LEVEL_LIST(X)                                                                                         \
    X(sse41, "sse4.1", TERN_CPU_SSE41)                                                                                 \
    X(avx2, "avx2", TERN_CPU_AVX2)                                                                                     \
    X(avxvnni, "avx-vnni", TERN_CPU_AVX2 | TERN_CPU_AVX_VNNI)                                                          \
    X(avx512, "avx512-vnni", TERN_CPU_AVX2 | TERN_CPU_AVX512 | TERN_CPU_AVX512_VNNI)                                   \
    X(avx512vbmi, "avx512-vbmi", TERN_CPU_AVX2 | TERN_CPU_AVX512 | TERN_CPU_AVX512_VNNI | TERN_CPU_AVX512_VBMI)        \
    X(amx, "amx-int8",                                                                                                 \
      TERN_CPU_AVX2 | TERN_CPU_AVX512 | TERN_CPU_AVX512_VNNI | TERN_CPU_AVX512_VBMI | TERN_CPU_AMX_INT8)               \
    X(neon, "neon", TERN_CPU_NEON)                                                                                     \
    X(dotprod, "neon-dotprod", TERN_CPU_NEON | TERN_CPU_NEON_DOTPROD)                                                  \
    X(i8mm, "neon-i8mm", TERN_CPU_NEON | TERN_CPU_NEON_DOTPROD | TERN_CPU_NEON_I8MM)                                   \
    X(simd128, "simd128", TERN_CPU_SIMD128)

typedef struct tern_cpu_kernels {
#define TERN_CPU_SLOT(slot, type) type slot;
    TERN_CPU_SLOT_LIST(TERN_CPU_SLOT)
#undef TERN_CPU_SLOT
#define TERN_CPU_SLOT(slot, type) const char *slot##_level;
    TERN_CPU_SLOT_LIST(TERN_CPU_SLOT)
#undef TERN_CPU_SLOT
} tern_cpu_kernels;

/* Declares every kernel with its slot's type, so that a wrong signature does not compile. */
#define KERNEL(slot, level) extern __typeof__(*((tern_cpu_kernels *)0)->slot) tern_cpu__##slot##_##level;
#include "backend/cpu/kernels.def"
#undef KERNEL

/* A kernel of kernels.def, for who goes through them all; fn has the slot's type. */
typedef struct tern_cpu_kernel {
    const char *slot, *level;
    uint32_t needed; /* tern_cpu_feature bits */
    void (*fn)(void);
} tern_cpu_kernel;

/* In the order of kernels.def, up to one whose slot is NULL. */
extern const tern_cpu_kernel tern_cpu__kernels[];

/* Fills every slot with the best kernel for a set of tern_cpu_feature bits (a subset of the machine's). */
void tern_cpu_kernels_choose(uint32_t features, tern_cpu_kernels *out);

#endif
