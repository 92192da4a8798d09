/* Made by tools/wgsl (`make shaders`) from the kernels' WGSL; do not edit. For a kernel
 * NAME (the name of its file):
 *
 *   tern_gpu_NAME_uniform              its struct P
 *   tern_gpu_NAME_set(d, &uniform)     what dispatch d of a pipeline of this kernel, or of one with the same P, is told
 *   TERN_GPU_NAME_BINDING_X            which of the dispatch's bindings is var X: WGSL's @binding less 1
 *   TERN_GPU_NAME_CONST_X              the value of const X
 *   tern_gpu_NAME_overrides            the values of its overrides
 *   tern_gpu_NAME_overrides_of(p)      those that pipeline p has, given in the table, by default or computed; p must be
 *                                      a pipeline of this kernel, or of one with the same overrides
 *   tern_gpu_kernel_of(p)              which kernel it is, TERN_GPU_KERNEL_NAME */
#ifndef TERN_BACKEND_GPU_GENERATED_KERNELS_H
#define TERN_BACKEND_GPU_GENERATED_KERNELS_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "backend/gpu/program.h"

/* clang-format off */
typedef enum tern_gpu_kernel {
    TERN_GPU_KERNEL_ADD,
    TERN_GPU_KERNEL_ADD_PARTS,
    TERN_GPU_KERNEL_ATTENTION_COMBINE,
    TERN_GPU_KERNEL_ATTENTION_COOP,
    TERN_GPU_KERNEL_ATTENTION_DECODE,
    TERN_GPU_KERNEL_ATTENTION_TILED,
    TERN_GPU_KERNEL_BANDWIDTH,
    TERN_GPU_KERNEL_BIAS_GRADIENT,
    TERN_GPU_KERNEL_COLUMN_FACTORS,
    TERN_GPU_KERNEL_COMBINE,
    TERN_GPU_KERNEL_COMBINE_BACKWARD,
    TERN_GPU_KERNEL_CONV,
    TERN_GPU_KERNEL_CROSS_ENTROPY,
    TERN_GPU_KERNEL_DELTA_FACTORS,
    TERN_GPU_KERNEL_DELTA_GRADIENTS,
    TERN_GPU_KERNEL_DELTA_RATES,
    TERN_GPU_KERNEL_DOTS,
    TERN_GPU_KERNEL_EMBED,
    TERN_GPU_KERNEL_EMBED_BACKWARD,
    TERN_GPU_KERNEL_FMAS,
    TERN_GPU_KERNEL_GATE,
    TERN_GPU_KERNEL_GATE_BACKWARD,
    TERN_GPU_KERNEL_GATED_DELTA,
    TERN_GPU_KERNEL_GATHER,
    TERN_GPU_KERNEL_GROUP_ROWS,
    TERN_GPU_KERNEL_HADAMARD,
    TERN_GPU_KERNEL_KV_WRITE,
    TERN_GPU_KERNEL_LINEAR_DENSE_JOIN,
    TERN_GPU_KERNEL_LINEAR_DENSE_MAT,
    TERN_GPU_KERNEL_LINEAR_DW,
    TERN_GPU_KERNEL_LINEAR_DW_COOP,
    TERN_GPU_KERNEL_LINEAR_DX,
    TERN_GPU_KERNEL_LINEAR_FLOAT_COOP,
    TERN_GPU_KERNEL_LINEAR_FLOAT_VEC,
    TERN_GPU_KERNEL_LINEAR_GROUPED,
    TERN_GPU_KERNEL_LINEAR_PARTS,
    TERN_GPU_KERNEL_LINEAR_QUANT_VEC,
    TERN_GPU_KERNEL_LINEAR_ROUTED,
    TERN_GPU_KERNEL_LINEAR_TERNARY_COOP,
    TERN_GPU_KERNEL_LINEAR_TERNARY_F32,
    TERN_GPU_KERNEL_LINEAR_TERNARY_MAT,
    TERN_GPU_KERNEL_LINEAR_TERNARY_VEC,
    TERN_GPU_KERNEL_QUANTIZE,
    TERN_GPU_KERNEL_REQUANTIZE_BLEND,
    TERN_GPU_KERNEL_REQUANTIZE_CODES,
    TERN_GPU_KERNEL_REQUANTIZE_MAGNITUDES,
    TERN_GPU_KERNEL_REQUANTIZE_SCALE,
    TERN_GPU_KERNEL_RMS_NORM,
    TERN_GPU_KERNEL_RMS_NORM_BACKWARD,
    TERN_GPU_KERNEL_RMS_NORM_GROUPS,
    TERN_GPU_KERNEL_RMS_NORM_WEIGHT_GRADIENT,
    TERN_GPU_KERNEL_ROPE,
    TERN_GPU_KERNEL_ROPE_KV,
    TERN_GPU_KERNEL_ROUTE,
    TERN_GPU_KERNEL_ROUTE_BACKWARD,
    TERN_GPU_KERNEL_ROW_FACTORS,
    TERN_GPU_KERNEL_ROW_GATE_BACKWARD,
    TERN_GPU_KERNEL_SAMPLE_CHOOSE,
    TERN_GPU_KERNEL_SAMPLE_SLICES,
    TERN_GPU_KERNEL_SCALE,
    TERN_GPU_KERNEL_SOFTCAP_BACKWARD,
    TERN_GPU_KERNEL_SPLIT,
    TERN_GPU_KERNEL_SUM_HEADS,
    TERN_GPU_KERNEL_SUM_SQUARES,
    TERN_GPU_KERNEL_UPDATE,
    TERN_GPU_KERNEL_VARLEN_ATTENTION,
    TERN_GPU_KERNEL_VARLEN_ATTENTION_DELTA,
    TERN_GPU_KERNEL_VARLEN_ATTENTION_DKV,
    TERN_GPU_KERNEL_VARLEN_ATTENTION_DQ,
    TERN_GPU_KERNEL_VARLEN_ATTENTION_DSINKS,
    TERN_GPU_KERNEL_VARLEN_CONV,
    TERN_GPU_KERNEL_VARLEN_GATED_DELTA,
    TERN_GPU_KERNEL_WAITS,
    TERN_GPU_KERNEL_WIDEN,
} tern_gpu_kernel;

typedef struct tern_gpu_specialised {
    tern_gpu_kernel kernel, same_uniform, same_overrides; /* the first kernel with the same P, the same overrides */
    uint32_t uniform_bytes;
    const void *overrides;
} tern_gpu_specialised;

extern const tern_gpu_specialised tern_gpu_specialised_kernels[TERN_GPU_PIPELINE_COUNT];

static inline tern_gpu_kernel tern_gpu_kernel_of(tern_gpu_pipeline pipeline)
{
    return tern_gpu_specialised_kernels[pipeline].kernel;
}

static inline void tern_gpu_set_uniform(tern_gpu_dispatch *d, tern_gpu_kernel same, const void *uniform, size_t bytes)
{
    assert(tern_gpu_specialised_kernels[d->pipeline].same_uniform == same);
    memcpy(d->uniform, uniform, bytes);
}

/* rows/add.wgsl */
typedef struct tern_gpu_add_uniform {
    uint32_t cols;
    uint32_t count_word;
    uint32_t token_rows;
    uint32_t a_first;
    uint32_t a_stride;
    uint32_t b_first;
    uint32_t b_stride;
    uint32_t out_first;
    uint32_t out_stride;
    uint32_t first_word;
} tern_gpu_add_uniform;
static_assert(sizeof(tern_gpu_add_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "rows/add.wgsl: struct P");
static inline void tern_gpu_add_set(tern_gpu_dispatch *d, const tern_gpu_add_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_ADD, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_ADD_BINDING_PARAMS,
    TERN_GPU_ADD_BINDING_A,
    TERN_GPU_ADD_BINDING_B,
    TERN_GPU_ADD_BINDING_RESULT,
};
typedef struct tern_gpu_add_overrides {
    bool in_place;
    uint32_t workgroup;
} tern_gpu_add_overrides;
static inline const tern_gpu_add_overrides *tern_gpu_add_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* training/add_parts.wgsl */
typedef struct tern_gpu_add_parts_uniform {
    uint32_t cols;
    uint32_t parts;
    uint32_t parts_word;
} tern_gpu_add_parts_uniform;
static_assert(sizeof(tern_gpu_add_parts_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "training/add_parts.wgsl: struct P");
static inline void tern_gpu_add_parts_set(tern_gpu_dispatch *d, const tern_gpu_add_parts_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_ADD_PARTS, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_ADD_PARTS_BINDING_SCRATCH,
    TERN_GPU_ADD_PARTS_BINDING_DG,
};
typedef struct tern_gpu_add_parts_overrides {
    uint32_t workgroup;
} tern_gpu_add_parts_overrides;
static inline const tern_gpu_add_parts_overrides *tern_gpu_add_parts_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* attention/attention_combine.wesl */
typedef struct tern_gpu_attention_combine_uniform {
    uint32_t head_dim;
    uint32_t n_kv_heads;
    uint32_t group;
    uint32_t head_blocks;
    uint32_t heads;
    uint32_t count_word;
    uint32_t positions_word;
    uint32_t split_bits;
    uint32_t slices;
    uint32_t min_span;
    uint32_t partials;
    uint32_t out_first;
    uint32_t out_stride;
    uint32_t window;
    uint32_t sinks;
} tern_gpu_attention_combine_uniform;
static_assert(sizeof(tern_gpu_attention_combine_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "attention/attention_combine.wesl: struct P");
static inline void tern_gpu_attention_combine_set(tern_gpu_dispatch *d, const tern_gpu_attention_combine_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_ATTENTION_COMBINE, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_ATTENTION_COMBINE_BINDING_PARAMS,
    TERN_GPU_ATTENTION_COMBINE_BINDING_SCRATCH,
    TERN_GPU_ATTENTION_COMBINE_BINDING_RESULT,
    TERN_GPU_ATTENTION_COMBINE_BINDING_SINKS,
};
typedef tern_gpu_add_parts_overrides tern_gpu_attention_combine_overrides;
static inline const tern_gpu_attention_combine_overrides *tern_gpu_attention_combine_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* attention/attention_coop.wesl */
typedef struct tern_gpu_attention_coop_uniform {
    uint32_t head_dim;
    uint32_t n_kv_heads;
    uint32_t group;
    uint32_t head_blocks;
    uint32_t heads;
    uint32_t tokens;
    uint32_t count_word;
    uint32_t positions_word;
    uint32_t sequences_word;
    uint32_t pages_word;
    uint32_t max_pages;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t out_first;
    uint32_t out_stride;
    float scale;
    float softcap;
    float softcap_rate;
    uint32_t window;
    uint32_t sinks;
    uint32_t tiles;
    uint32_t aligned;
    uint32_t slice;
    uint32_t slices;
    uint32_t page_first;
    uint32_t n_pages;
    uint32_t k_bits;
    uint32_t v_bits;
} tern_gpu_attention_coop_uniform;
static_assert(sizeof(tern_gpu_attention_coop_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "attention/attention_coop.wesl: struct P");
static inline void tern_gpu_attention_coop_set(tern_gpu_dispatch *d, const tern_gpu_attention_coop_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_ATTENTION_COOP, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_ATTENTION_COOP_BINDING_PARAMS,
    TERN_GPU_ATTENTION_COOP_BINDING_X,
    TERN_GPU_ATTENTION_COOP_BINDING_K_CACHE,
    TERN_GPU_ATTENTION_COOP_BINDING_V_CACHE,
    TERN_GPU_ATTENTION_COOP_BINDING_RESULT,
    TERN_GPU_ATTENTION_COOP_BINDING_SINKS,
};
enum {
    TERN_GPU_ATTENTION_COOP_CONST_HEADROOM = 6,
    TERN_GPU_ATTENTION_COOP_CONST_MOST = 14,
    TERN_GPU_ATTENTION_COOP_CONST_KEYS = 32,
    TERN_GPU_ATTENTION_COOP_CONST_SCORES = 9,
    TERN_GPU_ATTENTION_COOP_CONST_WEIGHTS = 18,
};
typedef struct tern_gpu_attention_coop_overrides {
    uint32_t dim;
    uint32_t rows;
} tern_gpu_attention_coop_overrides;
static inline const tern_gpu_attention_coop_overrides *tern_gpu_attention_coop_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ATTENTION_COOP);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* attention/attention_decode.wesl */
typedef struct tern_gpu_attention_decode_uniform {
    uint32_t head_dim;
    uint32_t n_kv_heads;
    uint32_t group;
    uint32_t head_blocks;
    uint32_t count_word;
    uint32_t positions_word;
    uint32_t sequences_word;
    uint32_t pages_word;
    uint32_t max_pages;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t k_first;
    uint32_t v_first;
    uint32_t out_first;
    uint32_t out_stride;
    float scale;
    float softcap;
    float softcap_rate;
    uint32_t window;
    uint32_t sinks;
    uint32_t split_bits;
    uint32_t min_span;
    uint32_t fused;
    uint32_t adjacent;
    uint32_t merge;
    uint32_t partials;
    uint32_t slice;
    uint32_t slices;
    uint32_t page_first;
    uint32_t n_pages;
    uint32_t k_bits;
    uint32_t v_bits;
} tern_gpu_attention_decode_uniform;
static_assert(sizeof(tern_gpu_attention_decode_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "attention/attention_decode.wesl: struct P");
static inline void tern_gpu_attention_decode_set(tern_gpu_dispatch *d, const tern_gpu_attention_decode_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_ATTENTION_DECODE, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_ATTENTION_DECODE_BINDING_PARAMS,
    TERN_GPU_ATTENTION_DECODE_BINDING_X,
    TERN_GPU_ATTENTION_DECODE_BINDING_TABLE,
    TERN_GPU_ATTENTION_DECODE_BINDING_K_CACHE,
    TERN_GPU_ATTENTION_DECODE_BINDING_V_CACHE,
    TERN_GPU_ATTENTION_DECODE_BINDING_RESULT,
    TERN_GPU_ATTENTION_DECODE_BINDING_SCRATCH,
    TERN_GPU_ATTENTION_DECODE_BINDING_SINKS,
};
typedef struct tern_gpu_attention_decode_overrides {
    bool blocks;
    bool f16;
    uint32_t heads;
    bool odd;
    bool sliced;
    uint32_t subgroups;
    uint32_t team;
    uint32_t teams;
    uint32_t unroll;
    uint32_t vecs;
    uint32_t workgroup;
} tern_gpu_attention_decode_overrides;
static inline const tern_gpu_attention_decode_overrides *tern_gpu_attention_decode_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ATTENTION_DECODE);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* attention/attention_tiled.wesl */
typedef tern_gpu_attention_coop_uniform tern_gpu_attention_tiled_uniform;
static_assert(sizeof(tern_gpu_attention_tiled_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "attention/attention_tiled.wesl: struct P");
static inline void tern_gpu_attention_tiled_set(tern_gpu_dispatch *d, const tern_gpu_attention_tiled_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_ATTENTION_COOP, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_ATTENTION_TILED_BINDING_PARAMS,
    TERN_GPU_ATTENTION_TILED_BINDING_X,
    TERN_GPU_ATTENTION_TILED_BINDING_K_CACHE,
    TERN_GPU_ATTENTION_TILED_BINDING_V_CACHE,
    TERN_GPU_ATTENTION_TILED_BINDING_RESULT,
    TERN_GPU_ATTENTION_TILED_BINDING_SINKS,
};
typedef struct tern_gpu_attention_tiled_overrides {
    bool blocks;
    uint32_t dim;
    bool f16;
    uint32_t f16_loads;
    uint32_t f32_loads;
    uint32_t key_lanes;
    uint32_t keys;
    bool odd;
    uint32_t row_lanes;
    uint32_t rows;
    uint32_t score_rows;
    uint32_t score_stride;
    bool sliced;
    uint32_t subgroups;
    uint32_t sum_lanes;
    uint32_t sum_rows;
    uint32_t sum_step;
    uint32_t tile_stride;
    uint32_t workgroup;
} tern_gpu_attention_tiled_overrides;
static inline const tern_gpu_attention_tiled_overrides *tern_gpu_attention_tiled_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ATTENTION_TILED);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* measure/bandwidth.wgsl */
typedef struct tern_gpu_bandwidth_uniform {
    uint32_t never;
} tern_gpu_bandwidth_uniform;
static_assert(sizeof(tern_gpu_bandwidth_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "measure/bandwidth.wgsl: struct P");
static inline void tern_gpu_bandwidth_set(tern_gpu_dispatch *d, const tern_gpu_bandwidth_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_BANDWIDTH, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_BANDWIDTH_BINDING_DATA,
    TERN_GPU_BANDWIDTH_BINDING_RESULT,
};
typedef struct tern_gpu_bandwidth_overrides {
    uint32_t loads;
    uint32_t workgroup;
} tern_gpu_bandwidth_overrides;
static inline const tern_gpu_bandwidth_overrides *tern_gpu_bandwidth_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_BANDWIDTH);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* training/bias_gradient.wgsl */
typedef struct tern_gpu_bias_gradient_uniform {
    uint32_t cols;
    uint32_t count_word;
    uint32_t dy_first;
    uint32_t dy_stride;
    uint32_t parts_word;
    uint32_t rows_first;
} tern_gpu_bias_gradient_uniform;
static_assert(sizeof(tern_gpu_bias_gradient_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "training/bias_gradient.wgsl: struct P");
static inline void tern_gpu_bias_gradient_set(tern_gpu_dispatch *d, const tern_gpu_bias_gradient_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_BIAS_GRADIENT, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_BIAS_GRADIENT_BINDING_PARAMS,
    TERN_GPU_BIAS_GRADIENT_BINDING_DY,
    TERN_GPU_BIAS_GRADIENT_BINDING_SCRATCH,
};
typedef struct tern_gpu_bias_gradient_overrides {
    uint32_t columns;
    bool grouped;
    uint32_t lanes;
    uint32_t rows;
    uint32_t workgroup;
} tern_gpu_bias_gradient_overrides;
static inline const tern_gpu_bias_gradient_overrides *tern_gpu_bias_gradient_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_BIAS_GRADIENT);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* linear/column_factors.wgsl */
typedef struct tern_gpu_column_factors_uniform {
    uint32_t cols;
    uint32_t count_word;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t scales_word;
    uint32_t first;
} tern_gpu_column_factors_uniform;
static_assert(sizeof(tern_gpu_column_factors_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "linear/column_factors.wgsl: struct P");
static inline void tern_gpu_column_factors_set(tern_gpu_dispatch *d, const tern_gpu_column_factors_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_COLUMN_FACTORS, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_COLUMN_FACTORS_BINDING_PARAMS,
    TERN_GPU_COLUMN_FACTORS_BINDING_X,
    TERN_GPU_COLUMN_FACTORS_BINDING_Q,
    TERN_GPU_COLUMN_FACTORS_BINDING_FACTORS,
};
typedef struct tern_gpu_column_factors_overrides {
    uint32_t lanes;
} tern_gpu_column_factors_overrides;
static inline const tern_gpu_column_factors_overrides *tern_gpu_column_factors_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_COLUMN_FACTORS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* experts/combine.wesl */
typedef struct tern_gpu_combine_uniform {
    uint32_t cols;
    uint32_t count_word;
    uint32_t k;
    uint32_t y_first;
    uint32_t y_stride;
    uint32_t residual_first;
    uint32_t residual_stride;
    uint32_t result_first;
    uint32_t result_stride;
    uint32_t epilogue;
} tern_gpu_combine_uniform;
static_assert(sizeof(tern_gpu_combine_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "experts/combine.wesl: struct P");
static inline void tern_gpu_combine_set(tern_gpu_dispatch *d, const tern_gpu_combine_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_COMBINE, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_COMBINE_BINDING_PARAMS,
    TERN_GPU_COMBINE_BINDING_Y,
    TERN_GPU_COMBINE_BINDING_ROUTES,
    TERN_GPU_COMBINE_BINDING_RESIDUAL,
    TERN_GPU_COMBINE_BINDING_RESULT,
};
typedef struct tern_gpu_combine_overrides {
    bool weighted;
    uint32_t workgroup;
} tern_gpu_combine_overrides;
static inline const tern_gpu_combine_overrides *tern_gpu_combine_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_COMBINE);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* experts/combine_backward.wesl */
typedef struct tern_gpu_combine_backward_uniform {
    uint32_t cols;
    uint32_t count_word;
    uint32_t k;
    uint32_t y_first;
    uint32_t y_stride;
    uint32_t dout_first;
    uint32_t dout_stride;
    uint32_t dweights_first;
    uint32_t dweights_stride;
    uint32_t dx_first;
    uint32_t dx_stride;
    uint32_t flags;
} tern_gpu_combine_backward_uniform;
static_assert(sizeof(tern_gpu_combine_backward_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "experts/combine_backward.wesl: struct P");
static inline void tern_gpu_combine_backward_set(tern_gpu_dispatch *d, const tern_gpu_combine_backward_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_COMBINE_BACKWARD, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_COMBINE_BACKWARD_BINDING_PARAMS,
    TERN_GPU_COMBINE_BACKWARD_BINDING_Y,
    TERN_GPU_COMBINE_BACKWARD_BINDING_ROUTES,
    TERN_GPU_COMBINE_BACKWARD_BINDING_DOUT,
    TERN_GPU_COMBINE_BACKWARD_BINDING_DWEIGHTS,
    TERN_GPU_COMBINE_BACKWARD_BINDING_DX,
};
enum {
    TERN_GPU_COMBINE_BACKWARD_CONST_DX = 1,
    TERN_GPU_COMBINE_BACKWARD_CONST_DWEIGHTS = 2,
    TERN_GPU_COMBINE_BACKWARD_CONST_HEADS = 16,
    TERN_GPU_COMBINE_BACKWARD_CONST_SLOTS = 16,
};
typedef struct tern_gpu_combine_backward_overrides {
    bool direct;
    uint32_t workgroup;
} tern_gpu_combine_backward_overrides;
static inline const tern_gpu_combine_backward_overrides *tern_gpu_combine_backward_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_COMBINE_BACKWARD);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* recurrent/conv.wesl */
typedef struct tern_gpu_conv_uniform {
    uint32_t cols;
    uint32_t taps;
    uint32_t count_word;
    uint32_t positions_word;
    uint32_t sequences_word;
    uint32_t states_word;
    uint32_t n_sequences;
    uint32_t by_rows;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t y_first;
    uint32_t y_stride;
    uint32_t weight_stride;
} tern_gpu_conv_uniform;
static_assert(sizeof(tern_gpu_conv_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "recurrent/conv.wesl: struct P");
static inline void tern_gpu_conv_set(tern_gpu_dispatch *d, const tern_gpu_conv_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_CONV, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_CONV_BINDING_PARAMS,
    TERN_GPU_CONV_BINDING_X,
    TERN_GPU_CONV_BINDING_WEIGHT,
    TERN_GPU_CONV_BINDING_STATE,
    TERN_GPU_CONV_BINDING_Y,
};
enum {
    TERN_GPU_CONV_CONST_TAPS = 8,
    TERN_GPU_CONV_CONST_BLOCK = 8,
};
typedef tern_gpu_add_parts_overrides tern_gpu_conv_overrides;
static inline const tern_gpu_conv_overrides *tern_gpu_conv_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* training/cross_entropy.wesl */
typedef struct tern_gpu_cross_entropy_uniform {
    uint32_t cols;
    uint32_t count_word;
    uint32_t z_first;
    uint32_t z_stride;
    uint32_t losses_first;
    uint32_t losses_stride;
    uint32_t labels_word;
    uint32_t weight_word;
} tern_gpu_cross_entropy_uniform;
static_assert(sizeof(tern_gpu_cross_entropy_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "training/cross_entropy.wesl: struct P");
static inline void tern_gpu_cross_entropy_set(tern_gpu_dispatch *d, const tern_gpu_cross_entropy_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_CROSS_ENTROPY, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_CROSS_ENTROPY_BINDING_PARAMS,
    TERN_GPU_CROSS_ENTROPY_BINDING_Z,
    TERN_GPU_CROSS_ENTROPY_BINDING_LOSSES,
};
enum {
    TERN_GPU_CROSS_ENTROPY_CONST_LOADS = 8,
    TERN_GPU_CROSS_ENTROPY_CONST_NAN_BITS = 2143289344,
};
typedef tern_gpu_add_parts_overrides tern_gpu_cross_entropy_overrides;
static inline const tern_gpu_cross_entropy_overrides *tern_gpu_cross_entropy_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* recurrent/delta_factors.wesl */
typedef struct tern_gpu_delta_factors_uniform {
    uint32_t n_heads;
    uint32_t count_word;
    uint32_t a_first;
    uint32_t a_stride;
    uint32_t b_first;
    uint32_t b_stride;
    uint32_t log_decay;
} tern_gpu_delta_factors_uniform;
static_assert(sizeof(tern_gpu_delta_factors_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "recurrent/delta_factors.wesl: struct P");
static inline void tern_gpu_delta_factors_set(tern_gpu_dispatch *d, const tern_gpu_delta_factors_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_DELTA_FACTORS, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_DELTA_FACTORS_BINDING_PARAMS,
    TERN_GPU_DELTA_FACTORS_BINDING_A,
    TERN_GPU_DELTA_FACTORS_BINDING_B,
    TERN_GPU_DELTA_FACTORS_BINDING_DECAY,
    TERN_GPU_DELTA_FACTORS_BINDING_DT,
    TERN_GPU_DELTA_FACTORS_BINDING_SCRATCH,
};
typedef tern_gpu_add_parts_overrides tern_gpu_delta_factors_overrides;
static inline const tern_gpu_delta_factors_overrides *tern_gpu_delta_factors_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* recurrent/delta_gradients.wesl */
typedef struct tern_gpu_delta_gradients_uniform {
    uint32_t keys;
    uint32_t n_heads;
    uint32_t n_key_heads;
    uint32_t tiled;
    uint32_t n_groups;
    uint32_t count_word;
    uint32_t first;
    uint32_t parts_at;
    uint32_t dq_first;
    uint32_t dq_stride;
    uint32_t dk_first;
    uint32_t dk_stride;
} tern_gpu_delta_gradients_uniform;
static_assert(sizeof(tern_gpu_delta_gradients_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "recurrent/delta_gradients.wesl: struct P");
static inline void tern_gpu_delta_gradients_set(tern_gpu_dispatch *d, const tern_gpu_delta_gradients_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_DELTA_GRADIENTS, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_DELTA_GRADIENTS_BINDING_PARAMS,
    TERN_GPU_DELTA_GRADIENTS_BINDING_PARTS,
    TERN_GPU_DELTA_GRADIENTS_BINDING_DQ,
    TERN_GPU_DELTA_GRADIENTS_BINDING_DK,
};
typedef tern_gpu_add_parts_overrides tern_gpu_delta_gradients_overrides;
static inline const tern_gpu_delta_gradients_overrides *tern_gpu_delta_gradients_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* recurrent/delta_rates.wesl */
typedef struct tern_gpu_delta_rates_uniform {
    uint32_t n_heads;
    uint32_t n_groups;
    uint32_t part_vectors;
    uint32_t first;
    uint32_t n;
    uint32_t parts_at;
    uint32_t a_first;
    uint32_t a_stride;
    uint32_t da_first;
    uint32_t da_stride;
    uint32_t db_first;
    uint32_t db_stride;
    uint32_t flags;
} tern_gpu_delta_rates_uniform;
static_assert(sizeof(tern_gpu_delta_rates_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "recurrent/delta_rates.wesl: struct P");
static inline void tern_gpu_delta_rates_set(tern_gpu_dispatch *d, const tern_gpu_delta_rates_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_DELTA_RATES, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_DELTA_RATES_BINDING_A,
    TERN_GPU_DELTA_RATES_BINDING_DECAY,
    TERN_GPU_DELTA_RATES_BINDING_DT,
    TERN_GPU_DELTA_RATES_BINDING_SCRATCH,
    TERN_GPU_DELTA_RATES_BINDING_DA,
    TERN_GPU_DELTA_RATES_BINDING_DB,
    TERN_GPU_DELTA_RATES_BINDING_DDECAY,
    TERN_GPU_DELTA_RATES_BINDING_DDT,
};
enum {
    TERN_GPU_DELTA_RATES_CONST_WORKGROUP = 64,
    TERN_GPU_DELTA_RATES_CONST_DDECAY = 1,
    TERN_GPU_DELTA_RATES_CONST_DDT = 2,
    TERN_GPU_DELTA_RATES_CONST_LOG_DECAY = 4,
};

/* measure/dots.wgsl */
typedef struct tern_gpu_dots_uniform {
    uint32_t never;
    uint32_t rounds;
    uint32_t factor;
} tern_gpu_dots_uniform;
static_assert(sizeof(tern_gpu_dots_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "measure/dots.wgsl: struct P");
static inline void tern_gpu_dots_set(tern_gpu_dispatch *d, const tern_gpu_dots_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_DOTS, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_DOTS_BINDING_RESULT,
};
typedef tern_gpu_add_parts_overrides tern_gpu_dots_overrides;
static inline const tern_gpu_dots_overrides *tern_gpu_dots_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* rows/embed.wesl */
typedef struct tern_gpu_embed_uniform {
    uint32_t first_row;
    uint32_t rows;
    uint32_t cols;
    uint32_t row_vectors;
    uint32_t count_word;
    uint32_t ids_word;
    uint32_t result_first;
    uint32_t result_stride;
    uint32_t scales_word;
    float scale;
} tern_gpu_embed_uniform;
static_assert(sizeof(tern_gpu_embed_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "rows/embed.wesl: struct P");
static inline void tern_gpu_embed_set(tern_gpu_dispatch *d, const tern_gpu_embed_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_EMBED, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_EMBED_BINDING_PARAMS,
    TERN_GPU_EMBED_BINDING_WEIGHTS,
    TERN_GPU_EMBED_BINDING_RESULT,
};
enum {
    TERN_GPU_EMBED_CONST_TERNARY = 0,
    TERN_GPU_EMBED_CONST_F32 = 1,
    TERN_GPU_EMBED_CONST_F16 = 2,
    TERN_GPU_EMBED_CONST_BF16 = 3,
    TERN_GPU_EMBED_CONST_Q8_0 = 4,
    TERN_GPU_EMBED_CONST_Q6_K = 5,
    TERN_GPU_EMBED_CONST_Q5_K = 7,
    TERN_GPU_EMBED_CONST_Q4_K = 6,
    TERN_GPU_EMBED_CONST_Q3_K = 13,
    TERN_GPU_EMBED_CONST_Q2_K = 14,
    TERN_GPU_EMBED_CONST_Q2_0 = 15,
    TERN_GPU_EMBED_CONST_Q1_0 = 16,
    TERN_GPU_EMBED_CONST_CODES = 50529027,
    TERN_GPU_EMBED_CONST_PAIRS = 50529027,
    TERN_GPU_EMBED_CONST_BITS = 16843009,
    TERN_GPU_EMBED_CONST_IQ4_NL = 12,
    TERN_GPU_EMBED_CONST_MXFP4 = 17,
    TERN_GPU_EMBED_CONST_Q4_0 = 8,
    TERN_GPU_EMBED_CONST_Q5_0 = 10,
    TERN_GPU_EMBED_CONST_Q5_1 = 11,
    TERN_GPU_EMBED_CONST_Q4_1 = 9,
};
typedef struct tern_gpu_embed_overrides {
    uint32_t format;
    uint32_t workgroup;
} tern_gpu_embed_overrides;
static inline const tern_gpu_embed_overrides *tern_gpu_embed_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_EMBED);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* training/embed_backward.wgsl */
typedef struct tern_gpu_embed_backward_uniform {
    uint32_t cols;
    uint32_t count_word;
    uint32_t ids_word;
    uint32_t first_id;
    uint32_t n_ids;
    uint32_t dy_first;
    uint32_t dy_stride;
    uint32_t segments;
} tern_gpu_embed_backward_uniform;
static_assert(sizeof(tern_gpu_embed_backward_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "training/embed_backward.wgsl: struct P");
static inline void tern_gpu_embed_backward_set(tern_gpu_dispatch *d, const tern_gpu_embed_backward_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_EMBED_BACKWARD, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_EMBED_BACKWARD_BINDING_PARAMS,
    TERN_GPU_EMBED_BACKWARD_BINDING_DY,
    TERN_GPU_EMBED_BACKWARD_BINDING_DW,
};
enum {
    TERN_GPU_EMBED_BACKWARD_CONST_WORDS = 256,
};
typedef tern_gpu_add_parts_overrides tern_gpu_embed_backward_overrides;
static inline const tern_gpu_embed_backward_overrides *tern_gpu_embed_backward_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* measure/fmas.wgsl */
typedef struct tern_gpu_fmas_uniform {
    uint32_t never;
    uint32_t rounds;
    float factor;
} tern_gpu_fmas_uniform;
static_assert(sizeof(tern_gpu_fmas_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "measure/fmas.wgsl: struct P");
static inline void tern_gpu_fmas_set(tern_gpu_dispatch *d, const tern_gpu_fmas_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_FMAS, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_FMAS_BINDING_RESULT,
};
typedef tern_gpu_add_parts_overrides tern_gpu_fmas_overrides;
static inline const tern_gpu_fmas_overrides *tern_gpu_fmas_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* rows/gate.wesl */
typedef struct tern_gpu_gate_uniform {
    uint32_t cols;
    uint32_t count_word;
    uint32_t gate_first;
    uint32_t gate_stride;
    uint32_t up_first;
    uint32_t up_stride;
    uint32_t y_first;
    uint32_t y_stride;
    uint32_t token_rows;
    float limit;
    uint32_t joined;
    uint32_t gate_step;
} tern_gpu_gate_uniform;
static_assert(sizeof(tern_gpu_gate_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "rows/gate.wesl: struct P");
static inline void tern_gpu_gate_set(tern_gpu_dispatch *d, const tern_gpu_gate_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_GATE, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_GATE_BINDING_PARAMS,
    TERN_GPU_GATE_BINDING_GATE,
    TERN_GPU_GATE_BINDING_UP,
    TERN_GPU_GATE_BINDING_Y,
};
typedef struct tern_gpu_gate_overrides {
    uint32_t act;
    uint32_t workgroup;
} tern_gpu_gate_overrides;
static inline const tern_gpu_gate_overrides *tern_gpu_gate_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_GATE);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* training/gate_backward.wgsl */
typedef struct tern_gpu_gate_backward_uniform {
    uint32_t cols;
    uint32_t count_word;
    uint32_t gate_first;
    uint32_t gate_stride;
    uint32_t up_first;
    uint32_t up_stride;
    uint32_t dy_first;
    uint32_t dy_stride;
    uint32_t dup_first;
    uint32_t dup_stride;
    uint32_t dgate_first;
    uint32_t dgate_stride;
    uint32_t token_rows;
    float limit;
} tern_gpu_gate_backward_uniform;
static_assert(sizeof(tern_gpu_gate_backward_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "training/gate_backward.wgsl: struct P");
static inline void tern_gpu_gate_backward_set(tern_gpu_dispatch *d, const tern_gpu_gate_backward_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_GATE_BACKWARD, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_GATE_BACKWARD_BINDING_PARAMS,
    TERN_GPU_GATE_BACKWARD_BINDING_GATE,
    TERN_GPU_GATE_BACKWARD_BINDING_UP,
    TERN_GPU_GATE_BACKWARD_BINDING_DY,
    TERN_GPU_GATE_BACKWARD_BINDING_DUP,
    TERN_GPU_GATE_BACKWARD_BINDING_DGATE,
};
typedef tern_gpu_gate_overrides tern_gpu_gate_backward_overrides;
static inline const tern_gpu_gate_backward_overrides *tern_gpu_gate_backward_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_GATE);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* recurrent/gated_delta.wesl */
typedef struct tern_gpu_gated_delta_uniform {
    uint32_t keys;
    uint32_t quads;
    uint32_t n_heads;
    uint32_t n_key_heads;
    uint32_t tiled;
    uint32_t count_word;
    uint32_t positions_word;
    uint32_t sequences_word;
    uint32_t states_word;
    uint32_t n_sequences;
    uint32_t by_rows;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t a_first;
    uint32_t a_stride;
    uint32_t b_first;
    uint32_t b_stride;
    uint32_t joined;
    uint32_t out_first;
    uint32_t out_stride;
} tern_gpu_gated_delta_uniform;
static_assert(sizeof(tern_gpu_gated_delta_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "recurrent/gated_delta.wesl: struct P");
static inline void tern_gpu_gated_delta_set(tern_gpu_dispatch *d, const tern_gpu_gated_delta_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_GATED_DELTA, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_GATED_DELTA_BINDING_PARAMS,
    TERN_GPU_GATED_DELTA_BINDING_QKV,
    TERN_GPU_GATED_DELTA_BINDING_A,
    TERN_GPU_GATED_DELTA_BINDING_B,
    TERN_GPU_GATED_DELTA_BINDING_DECAY,
    TERN_GPU_GATED_DELTA_BINDING_DT,
    TERN_GPU_GATED_DELTA_BINDING_STATE,
    TERN_GPU_GATED_DELTA_BINDING_OUT_ROWS,
};
enum {
    TERN_GPU_GATED_DELTA_CONST_SLICES = 8,
    TERN_GPU_GATED_DELTA_CONST_QUADS = 8,
};
typedef struct tern_gpu_gated_delta_overrides {
    uint32_t keys;
    uint32_t tokens;
    uint32_t workgroup;
} tern_gpu_gated_delta_overrides;
static inline const tern_gpu_gated_delta_overrides *tern_gpu_gated_delta_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_GATED_DELTA);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* rows/gather.wgsl */
typedef struct tern_gpu_gather_uniform {
    uint32_t cols;
    uint32_t count_word;
    uint32_t outputs_word;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t y_first;
    uint32_t y_stride;
} tern_gpu_gather_uniform;
static_assert(sizeof(tern_gpu_gather_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "rows/gather.wgsl: struct P");
static inline void tern_gpu_gather_set(tern_gpu_dispatch *d, const tern_gpu_gather_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_GATHER, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_GATHER_BINDING_PARAMS,
    TERN_GPU_GATHER_BINDING_X,
    TERN_GPU_GATHER_BINDING_Y,
};
typedef tern_gpu_add_parts_overrides tern_gpu_gather_overrides;
static inline const tern_gpu_gather_overrides *tern_gpu_gather_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* experts/group_rows.wesl */
typedef struct tern_gpu_group_rows_uniform {
    uint32_t count_word;
    uint32_t n_routes;
    uint32_t n_experts;
    uint32_t tile;
    uint32_t rows_first;
    uint32_t first_word;
    uint32_t max_rows;
} tern_gpu_group_rows_uniform;
static_assert(sizeof(tern_gpu_group_rows_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "experts/group_rows.wesl: struct P");
static inline void tern_gpu_group_rows_set(tern_gpu_dispatch *d, const tern_gpu_group_rows_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_GROUP_ROWS, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_GROUP_ROWS_BINDING_PARAMS,
    TERN_GPU_GROUP_ROWS_BINDING_ROUTES,
    TERN_GPU_GROUP_ROWS_BINDING_GROUPED,
};
enum {
    TERN_GPU_GROUP_ROWS_CONST_MAX_EXPERTS = 3072,
};
typedef struct tern_gpu_group_rows_overrides {
    bool stable;
    uint32_t workgroup;
} tern_gpu_group_rows_overrides;
static inline const tern_gpu_group_rows_overrides *tern_gpu_group_rows_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_GROUP_ROWS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* rows/hadamard.wgsl */
typedef struct tern_gpu_hadamard_uniform {
    uint32_t cols;
    uint32_t block;
    uint32_t count_word;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t y_first;
    uint32_t y_stride;
    uint32_t token_rows;
    uint32_t head_dim;
    uint32_t n_groups;
    uint32_t group_heads;
    uint32_t inverse;
    float scale;
} tern_gpu_hadamard_uniform;
static_assert(sizeof(tern_gpu_hadamard_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "rows/hadamard.wgsl: struct P");
static inline void tern_gpu_hadamard_set(tern_gpu_dispatch *d, const tern_gpu_hadamard_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_HADAMARD, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_HADAMARD_BINDING_PARAMS,
    TERN_GPU_HADAMARD_BINDING_X,
    TERN_GPU_HADAMARD_BINDING_SIGNS,
    TERN_GPU_HADAMARD_BINDING_Y,
};
enum {
    TERN_GPU_HADAMARD_CONST_CHUNK = 1024,
};
typedef tern_gpu_add_parts_overrides tern_gpu_hadamard_overrides;
static inline const tern_gpu_hadamard_overrides *tern_gpu_hadamard_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* attention/kv_write.wesl */
typedef struct tern_gpu_kv_write_uniform {
    uint32_t pairs;
    uint32_t n_kv_heads;
    uint32_t count_word;
    uint32_t positions_word;
    uint32_t sequences_word;
    uint32_t pages_word;
    uint32_t max_pages;
    uint32_t page_first;
    uint32_t n_pages;
    uint32_t k_first;
    uint32_t k_stride;
    uint32_t v_first;
    uint32_t v_stride;
    uint32_t together;
    uint32_t k_bits;
    uint32_t v_bits;
} tern_gpu_kv_write_uniform;
static_assert(sizeof(tern_gpu_kv_write_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "attention/kv_write.wesl: struct P");
static inline void tern_gpu_kv_write_set(tern_gpu_dispatch *d, const tern_gpu_kv_write_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_KV_WRITE, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_KV_WRITE_BINDING_PARAMS,
    TERN_GPU_KV_WRITE_BINDING_K,
    TERN_GPU_KV_WRITE_BINDING_V,
    TERN_GPU_KV_WRITE_BINDING_K_CACHE,
    TERN_GPU_KV_WRITE_BINDING_V_CACHE,
};
typedef struct tern_gpu_kv_write_overrides {
    bool blocks;
    bool f16;
    uint32_t shared;
    uint32_t workgroup;
} tern_gpu_kv_write_overrides;
static inline const tern_gpu_kv_write_overrides *tern_gpu_kv_write_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_KV_WRITE);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* linear/linear_dense_join.wesl */
typedef struct tern_gpu_linear_dense_join_uniform {
    uint32_t rows0;
    uint32_t rows1;
    uint32_t rows2;
    uint32_t group1;
    uint32_t group2;
    uint32_t cols;
    uint32_t row_vectors;
    uint32_t count_word;
    uint32_t x_first;
    uint32_t result_first;
    uint32_t residual_first;
    uint32_t epilogue;
    float eps;
} tern_gpu_linear_dense_join_uniform;
static_assert(sizeof(tern_gpu_linear_dense_join_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "linear/linear_dense_join.wesl: struct P");
static inline void tern_gpu_linear_dense_join_set(tern_gpu_dispatch *d, const tern_gpu_linear_dense_join_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_LINEAR_DENSE_JOIN, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_LINEAR_DENSE_JOIN_BINDING_PARAMS,
    TERN_GPU_LINEAR_DENSE_JOIN_BINDING_X,
    TERN_GPU_LINEAR_DENSE_JOIN_BINDING_NORM_WEIGHT,
    TERN_GPU_LINEAR_DENSE_JOIN_BINDING_W0,
    TERN_GPU_LINEAR_DENSE_JOIN_BINDING_W1,
    TERN_GPU_LINEAR_DENSE_JOIN_BINDING_W2,
    TERN_GPU_LINEAR_DENSE_JOIN_BINDING_RESIDUAL,
    TERN_GPU_LINEAR_DENSE_JOIN_BINDING_RESULT,
};
enum {
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_F32 = 1,
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_F16 = 2,
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_BF16 = 3,
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_Q8_0 = 4,
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_Q6_K = 5,
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_Q5_K = 7,
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_Q4_K = 6,
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_Q3_K = 13,
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_Q2_K = 14,
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_Q2_0 = 15,
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_Q1_0 = 16,
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_Q5_0 = 10,
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_Q5_1 = 11,
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_MXFP4 = 17,
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_Q4_1 = 9,
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_PAIRS = 50529027,
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_BITS = 16843009,
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_IQ4_NL = 12,
    TERN_GPU_LINEAR_DENSE_JOIN_CONST_Q4_0 = 8,
};
typedef struct tern_gpu_linear_dense_join_overrides {
    uint32_t format;
    bool gated;
    uint32_t lanes;
    uint32_t partials;
    uint32_t rows;
    bool subgroups;
    uint32_t workgroup;
} tern_gpu_linear_dense_join_overrides;
static inline const tern_gpu_linear_dense_join_overrides *tern_gpu_linear_dense_join_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_LINEAR_DENSE_JOIN);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* linear/linear_dense_mat.wesl */
typedef struct tern_gpu_linear_dense_mat_uniform {
    uint32_t rows;
    uint32_t cols;
    uint32_t row_vectors;
    uint32_t count_word;
    uint32_t max_tokens;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t result_first;
    uint32_t result_stride;
    uint32_t residual_first;
    uint32_t residual_stride;
    uint32_t epilogue;
    uint32_t cols_of_part;
    uint32_t part_stride;
    uint32_t first_word;
} tern_gpu_linear_dense_mat_uniform;
static_assert(sizeof(tern_gpu_linear_dense_mat_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "linear/linear_dense_mat.wesl: struct P");
static inline void tern_gpu_linear_dense_mat_set(tern_gpu_dispatch *d, const tern_gpu_linear_dense_mat_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_LINEAR_DENSE_MAT, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_LINEAR_DENSE_MAT_BINDING_PARAMS,
    TERN_GPU_LINEAR_DENSE_MAT_BINDING_X,
    TERN_GPU_LINEAR_DENSE_MAT_BINDING_WEIGHTS,
    TERN_GPU_LINEAR_DENSE_MAT_BINDING_RESIDUAL,
    TERN_GPU_LINEAR_DENSE_MAT_BINDING_RESULT,
};
enum {
    TERN_GPU_LINEAR_DENSE_MAT_CONST_COLUMNS = 16,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_TERNARY = 0,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_F32 = 1,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_F16 = 2,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_BF16 = 3,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_Q8_0 = 4,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_Q6_K = 5,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_Q5_K = 7,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_Q4_K = 6,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_Q3_K = 13,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_Q2_K = 14,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_Q2_0 = 15,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_Q1_0 = 16,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_CODES = 50529027,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_PAIRS = 50529027,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_BITS = 16843009,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_IQ4_NL = 12,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_MXFP4 = 17,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_Q4_0 = 8,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_Q5_0 = 10,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_Q5_1 = 11,
    TERN_GPU_LINEAR_DENSE_MAT_CONST_Q4_1 = 9,
};
typedef struct tern_gpu_linear_dense_mat_overrides {
    uint32_t format;
    uint32_t row_threads;
    uint32_t token_threads;
    uint32_t x_stride;
} tern_gpu_linear_dense_mat_overrides;
static inline const tern_gpu_linear_dense_mat_overrides *tern_gpu_linear_dense_mat_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_LINEAR_DENSE_MAT);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* linear/linear_dw.wesl */
typedef struct tern_gpu_linear_dw_uniform {
    uint32_t rows;
    uint32_t cols;
    uint32_t count_word;
    uint32_t dy_first;
    uint32_t dy_stride;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t scales_word;
    uint32_t tokens_of_part;
    uint32_t part_stride;
    uint32_t adds;
    uint32_t rows_first;
    uint32_t x_rows;
    uint32_t slice_first;
    uint32_t slice_rows;
} tern_gpu_linear_dw_uniform;
static_assert(sizeof(tern_gpu_linear_dw_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "linear/linear_dw.wesl: struct P");
static inline void tern_gpu_linear_dw_set(tern_gpu_dispatch *d, const tern_gpu_linear_dw_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_LINEAR_DW, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_LINEAR_DW_BINDING_PARAMS,
    TERN_GPU_LINEAR_DW_BINDING_DY,
    TERN_GPU_LINEAR_DW_BINDING_X,
    TERN_GPU_LINEAR_DW_BINDING_Q,
    TERN_GPU_LINEAR_DW_BINDING_RESULT,
};
enum {
    TERN_GPU_LINEAR_DW_CONST_DEPTH = 16,
};
typedef struct tern_gpu_linear_dw_overrides {
    uint32_t col_threads;
    uint32_t dy_loads;
    bool grouped;
    bool q8;
    uint32_t row_threads;
    uint32_t x_loads;
} tern_gpu_linear_dw_overrides;
static inline const tern_gpu_linear_dw_overrides *tern_gpu_linear_dw_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_LINEAR_DW);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* linear/linear_dw_coop.wesl */
typedef struct tern_gpu_linear_dw_coop_uniform {
    uint32_t rows;
    uint32_t cols;
    uint32_t count_word;
    uint32_t dy_first;
    uint32_t dy_stride;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t scales_word;
    uint32_t tokens_of_part;
    uint32_t part_stride;
    uint32_t adds;
    uint32_t x_factors;
} tern_gpu_linear_dw_coop_uniform;
static_assert(sizeof(tern_gpu_linear_dw_coop_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "linear/linear_dw_coop.wesl: struct P");
static inline void tern_gpu_linear_dw_coop_set(tern_gpu_dispatch *d, const tern_gpu_linear_dw_coop_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_LINEAR_DW_COOP, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_LINEAR_DW_COOP_BINDING_PARAMS,
    TERN_GPU_LINEAR_DW_COOP_BINDING_DY,
    TERN_GPU_LINEAR_DW_COOP_BINDING_X,
    TERN_GPU_LINEAR_DW_COOP_BINDING_Q,
    TERN_GPU_LINEAR_DW_COOP_BINDING_FACTORS,
    TERN_GPU_LINEAR_DW_COOP_BINDING_RESULT,
};
enum {
    TERN_GPU_LINEAR_DW_COOP_CONST_DEPTH = 16,
    TERN_GPU_LINEAR_DW_COOP_CONST_STRIDE = 34,
    TERN_GPU_LINEAR_DW_COOP_CONST_TILE = 544,
};
typedef struct tern_gpu_linear_dw_coop_overrides {
    uint32_t halves;
    bool q8;
    uint32_t slot;
} tern_gpu_linear_dw_coop_overrides;
static inline const tern_gpu_linear_dw_coop_overrides *tern_gpu_linear_dw_coop_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_LINEAR_DW_COOP);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* linear/linear_dx.wesl */
typedef struct tern_gpu_linear_dx_uniform {
    uint32_t rows;
    uint32_t cols;
    uint32_t row_vectors;
    uint32_t count_word;
    uint32_t max_tokens;
    uint32_t dy_first;
    uint32_t dy_stride;
    uint32_t result_first;
    uint32_t result_stride;
    uint32_t residual_first;
    uint32_t residual_stride;
    uint32_t epilogue;
    uint32_t rows_of_part;
    uint32_t part_stride;
    uint32_t row_scales;
    float scale;
    uint32_t rows_first;
    uint32_t slice_first;
    uint32_t slice_rows;
} tern_gpu_linear_dx_uniform;
static_assert(sizeof(tern_gpu_linear_dx_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "linear/linear_dx.wesl: struct P");
static inline void tern_gpu_linear_dx_set(tern_gpu_dispatch *d, const tern_gpu_linear_dx_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_LINEAR_DX, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_LINEAR_DX_BINDING_PARAMS,
    TERN_GPU_LINEAR_DX_BINDING_DY,
    TERN_GPU_LINEAR_DX_BINDING_WEIGHTS,
    TERN_GPU_LINEAR_DX_BINDING_RESIDUAL,
    TERN_GPU_LINEAR_DX_BINDING_RESULT,
};
enum {
    TERN_GPU_LINEAR_DX_CONST_DEPTH = 16,
    TERN_GPU_LINEAR_DX_CONST_TERNARY = 0,
    TERN_GPU_LINEAR_DX_CONST_F32 = 1,
    TERN_GPU_LINEAR_DX_CONST_F16 = 2,
    TERN_GPU_LINEAR_DX_CONST_BF16 = 3,
    TERN_GPU_LINEAR_DX_CONST_Q8_0 = 4,
    TERN_GPU_LINEAR_DX_CONST_Q6_K = 5,
    TERN_GPU_LINEAR_DX_CONST_Q5_K = 7,
    TERN_GPU_LINEAR_DX_CONST_Q4_K = 6,
    TERN_GPU_LINEAR_DX_CONST_Q3_K = 13,
    TERN_GPU_LINEAR_DX_CONST_Q2_K = 14,
    TERN_GPU_LINEAR_DX_CONST_Q2_0 = 15,
    TERN_GPU_LINEAR_DX_CONST_Q1_0 = 16,
    TERN_GPU_LINEAR_DX_CONST_CODES = 50529027,
    TERN_GPU_LINEAR_DX_CONST_PAIRS = 50529027,
    TERN_GPU_LINEAR_DX_CONST_BITS = 16843009,
    TERN_GPU_LINEAR_DX_CONST_IQ4_NL = 12,
    TERN_GPU_LINEAR_DX_CONST_MXFP4 = 17,
    TERN_GPU_LINEAR_DX_CONST_Q4_0 = 8,
    TERN_GPU_LINEAR_DX_CONST_Q5_0 = 10,
    TERN_GPU_LINEAR_DX_CONST_Q5_1 = 11,
    TERN_GPU_LINEAR_DX_CONST_Q4_1 = 9,
};
typedef struct tern_gpu_linear_dx_overrides {
    uint32_t col_threads;
    uint32_t dy_loads;
    uint32_t dy_stride;
    uint32_t format;
    bool grouped;
    uint32_t lines;
    uint32_t token_threads;
} tern_gpu_linear_dx_overrides;
static inline const tern_gpu_linear_dx_overrides *tern_gpu_linear_dx_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_LINEAR_DX);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* linear/linear_float_coop.wesl */
typedef struct tern_gpu_linear_float_coop_uniform {
    uint32_t rows;
    uint32_t cols;
    uint32_t row_vectors;
    uint32_t count_word;
    uint32_t max_tokens;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t result_first;
    uint32_t result_stride;
    uint32_t residual_first;
    uint32_t residual_stride;
    uint32_t epilogue;
    uint32_t depth_of_part;
    uint32_t part_stride;
    uint32_t row_scales;
    float scale;
    uint32_t first_word;
} tern_gpu_linear_float_coop_uniform;
static_assert(sizeof(tern_gpu_linear_float_coop_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "linear/linear_float_coop.wesl: struct P");
static inline void tern_gpu_linear_float_coop_set(tern_gpu_dispatch *d, const tern_gpu_linear_float_coop_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_LINEAR_FLOAT_COOP, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_LINEAR_FLOAT_COOP_BINDING_PARAMS,
    TERN_GPU_LINEAR_FLOAT_COOP_BINDING_X,
    TERN_GPU_LINEAR_FLOAT_COOP_BINDING_FACTORS,
    TERN_GPU_LINEAR_FLOAT_COOP_BINDING_WEIGHTS,
    TERN_GPU_LINEAR_FLOAT_COOP_BINDING_RESIDUAL,
    TERN_GPU_LINEAR_FLOAT_COOP_BINDING_RESULT,
};
enum {
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_DEPTH = 16,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_SHORT = 6,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_LONG = 34,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_X_TILE = 768,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_F16 = 2,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_BF16 = 3,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_F32 = 1,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_TERNARY = 0,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_Q8_0 = 4,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_Q6_K = 5,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_Q5_K = 7,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_Q4_K = 6,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_Q3_K = 13,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_Q2_K = 14,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_Q2_0 = 15,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_Q1_0 = 16,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_CODES = 50529027,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_PAIRS = 50529027,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_BITS = 16843009,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_IQ4_NL = 12,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_MXFP4 = 17,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_Q4_0 = 8,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_Q5_0 = 10,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_Q5_1 = 11,
    TERN_GPU_LINEAR_FLOAT_COOP_CONST_Q4_1 = 9,
};
typedef struct tern_gpu_linear_float_coop_overrides {
    bool backward;
    uint32_t format;
    uint32_t halves;
    uint32_t slot;
    uint32_t slots;
    uint32_t w_tile;
} tern_gpu_linear_float_coop_overrides;
static inline const tern_gpu_linear_float_coop_overrides *tern_gpu_linear_float_coop_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_LINEAR_FLOAT_COOP);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* linear/linear_float_vec.wesl */
typedef struct tern_gpu_linear_float_vec_uniform {
    uint32_t rows;
    uint32_t cols;
    uint32_t row_vectors;
    uint32_t count_word;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t result_first;
    uint32_t result_stride;
    uint32_t residual_first;
    uint32_t residual_stride;
    uint32_t epilogue;
    uint32_t first_word;
} tern_gpu_linear_float_vec_uniform;
static_assert(sizeof(tern_gpu_linear_float_vec_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "linear/linear_float_vec.wesl: struct P");
static inline void tern_gpu_linear_float_vec_set(tern_gpu_dispatch *d, const tern_gpu_linear_float_vec_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_LINEAR_FLOAT_VEC, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_LINEAR_FLOAT_VEC_BINDING_PARAMS,
    TERN_GPU_LINEAR_FLOAT_VEC_BINDING_X,
    TERN_GPU_LINEAR_FLOAT_VEC_BINDING_WEIGHTS,
    TERN_GPU_LINEAR_FLOAT_VEC_BINDING_RESIDUAL,
    TERN_GPU_LINEAR_FLOAT_VEC_BINDING_RESULT,
};
enum {
    TERN_GPU_LINEAR_FLOAT_VEC_CONST_F32 = 1,
    TERN_GPU_LINEAR_FLOAT_VEC_CONST_F16 = 2,
};
typedef struct tern_gpu_linear_float_vec_overrides {
    uint32_t format;
    uint32_t lanes;
    uint32_t partials;
    uint32_t rows;
    bool subgroups;
    uint32_t tokens;
    uint32_t workgroup;
} tern_gpu_linear_float_vec_overrides;
static inline const tern_gpu_linear_float_vec_overrides *tern_gpu_linear_float_vec_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_LINEAR_FLOAT_VEC);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* linear/linear_grouped.wesl */
typedef struct tern_gpu_linear_grouped_uniform {
    uint32_t rows;
    uint32_t cols;
    uint32_t row_vectors;
    uint32_t rows_first;
    uint32_t x_rows;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t q8;
    uint32_t scales_word;
    uint32_t slice_first;
    uint32_t slice_rows;
    uint32_t row_scales;
    float scale;
    uint32_t bias_stride;
    uint32_t result_first;
    uint32_t result_stride;
    uint32_t gate;
    float limit;
} tern_gpu_linear_grouped_uniform;
static_assert(sizeof(tern_gpu_linear_grouped_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "linear/linear_grouped.wesl: struct P");
static inline void tern_gpu_linear_grouped_set(tern_gpu_dispatch *d, const tern_gpu_linear_grouped_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_LINEAR_GROUPED, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_LINEAR_GROUPED_BINDING_X,
    TERN_GPU_LINEAR_GROUPED_BINDING_GROUPED,
    TERN_GPU_LINEAR_GROUPED_BINDING_WEIGHTS,
    TERN_GPU_LINEAR_GROUPED_BINDING_BIAS,
    TERN_GPU_LINEAR_GROUPED_BINDING_RESULT,
};
enum {
    TERN_GPU_LINEAR_GROUPED_CONST_COLUMNS = 16,
    TERN_GPU_LINEAR_GROUPED_CONST_TERNARY = 0,
    TERN_GPU_LINEAR_GROUPED_CONST_F32 = 1,
    TERN_GPU_LINEAR_GROUPED_CONST_F16 = 2,
    TERN_GPU_LINEAR_GROUPED_CONST_BF16 = 3,
    TERN_GPU_LINEAR_GROUPED_CONST_Q8_0 = 4,
    TERN_GPU_LINEAR_GROUPED_CONST_Q6_K = 5,
    TERN_GPU_LINEAR_GROUPED_CONST_Q5_K = 7,
    TERN_GPU_LINEAR_GROUPED_CONST_Q4_K = 6,
    TERN_GPU_LINEAR_GROUPED_CONST_Q3_K = 13,
    TERN_GPU_LINEAR_GROUPED_CONST_Q2_K = 14,
    TERN_GPU_LINEAR_GROUPED_CONST_Q2_0 = 15,
    TERN_GPU_LINEAR_GROUPED_CONST_Q1_0 = 16,
    TERN_GPU_LINEAR_GROUPED_CONST_CODES = 50529027,
    TERN_GPU_LINEAR_GROUPED_CONST_PAIRS = 50529027,
    TERN_GPU_LINEAR_GROUPED_CONST_BITS = 16843009,
    TERN_GPU_LINEAR_GROUPED_CONST_IQ4_NL = 12,
    TERN_GPU_LINEAR_GROUPED_CONST_MXFP4 = 17,
    TERN_GPU_LINEAR_GROUPED_CONST_Q4_0 = 8,
    TERN_GPU_LINEAR_GROUPED_CONST_Q5_0 = 10,
    TERN_GPU_LINEAR_GROUPED_CONST_Q5_1 = 11,
    TERN_GPU_LINEAR_GROUPED_CONST_Q4_1 = 9,
};
typedef tern_gpu_linear_dense_mat_overrides tern_gpu_linear_grouped_overrides;
static inline const tern_gpu_linear_grouped_overrides *tern_gpu_linear_grouped_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_LINEAR_DENSE_MAT);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* linear/linear_parts.wesl */
typedef struct tern_gpu_linear_parts_uniform {
    uint32_t rows;
    uint32_t cols;
    uint32_t count_word;
    uint32_t n_parts;
    uint32_t part_stride;
    uint32_t result_first;
    uint32_t result_stride;
    uint32_t residual_first;
    uint32_t residual_stride;
    uint32_t epilogue;
    uint32_t row_groups;
    uint32_t first_word;
} tern_gpu_linear_parts_uniform;
static_assert(sizeof(tern_gpu_linear_parts_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "linear/linear_parts.wesl: struct P");
static inline void tern_gpu_linear_parts_set(tern_gpu_dispatch *d, const tern_gpu_linear_parts_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_LINEAR_PARTS, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_LINEAR_PARTS_BINDING_PARAMS,
    TERN_GPU_LINEAR_PARTS_BINDING_PARTS,
    TERN_GPU_LINEAR_PARTS_BINDING_RESIDUAL,
    TERN_GPU_LINEAR_PARTS_BINDING_RESULT,
};
typedef tern_gpu_add_parts_overrides tern_gpu_linear_parts_overrides;
static inline const tern_gpu_linear_parts_overrides *tern_gpu_linear_parts_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* linear/linear_quant_vec.wesl */
typedef tern_gpu_linear_float_vec_uniform tern_gpu_linear_quant_vec_uniform;
static_assert(sizeof(tern_gpu_linear_quant_vec_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "linear/linear_quant_vec.wesl: struct P");
static inline void tern_gpu_linear_quant_vec_set(tern_gpu_dispatch *d, const tern_gpu_linear_quant_vec_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_LINEAR_FLOAT_VEC, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_LINEAR_QUANT_VEC_BINDING_PARAMS,
    TERN_GPU_LINEAR_QUANT_VEC_BINDING_X,
    TERN_GPU_LINEAR_QUANT_VEC_BINDING_WEIGHTS,
    TERN_GPU_LINEAR_QUANT_VEC_BINDING_RESIDUAL,
    TERN_GPU_LINEAR_QUANT_VEC_BINDING_RESULT,
};
enum {
    TERN_GPU_LINEAR_QUANT_VEC_CONST_F32 = 1,
    TERN_GPU_LINEAR_QUANT_VEC_CONST_F16 = 2,
    TERN_GPU_LINEAR_QUANT_VEC_CONST_BF16 = 3,
    TERN_GPU_LINEAR_QUANT_VEC_CONST_Q8_0 = 4,
    TERN_GPU_LINEAR_QUANT_VEC_CONST_Q6_K = 5,
    TERN_GPU_LINEAR_QUANT_VEC_CONST_Q5_K = 7,
    TERN_GPU_LINEAR_QUANT_VEC_CONST_Q4_K = 6,
    TERN_GPU_LINEAR_QUANT_VEC_CONST_Q3_K = 13,
    TERN_GPU_LINEAR_QUANT_VEC_CONST_Q2_K = 14,
    TERN_GPU_LINEAR_QUANT_VEC_CONST_Q2_0 = 15,
    TERN_GPU_LINEAR_QUANT_VEC_CONST_Q1_0 = 16,
    TERN_GPU_LINEAR_QUANT_VEC_CONST_PAIRS = 50529027,
    TERN_GPU_LINEAR_QUANT_VEC_CONST_BITS = 16843009,
    TERN_GPU_LINEAR_QUANT_VEC_CONST_Q5_0 = 10,
    TERN_GPU_LINEAR_QUANT_VEC_CONST_Q5_1 = 11,
    TERN_GPU_LINEAR_QUANT_VEC_CONST_IQ4_NL = 12,
    TERN_GPU_LINEAR_QUANT_VEC_CONST_MXFP4 = 17,
    TERN_GPU_LINEAR_QUANT_VEC_CONST_Q4_0 = 8,
    TERN_GPU_LINEAR_QUANT_VEC_CONST_Q4_1 = 9,
};
typedef tern_gpu_linear_float_vec_overrides tern_gpu_linear_quant_vec_overrides;
static inline const tern_gpu_linear_quant_vec_overrides *tern_gpu_linear_quant_vec_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_LINEAR_FLOAT_VEC);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* linear/linear_routed.wesl */
typedef struct tern_gpu_linear_routed_uniform {
    uint32_t rows;
    uint32_t cols;
    uint32_t row_vectors;
    uint32_t count_word;
    uint32_t n_routes;
    uint32_t x_rows;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t q8;
    uint32_t scales_word;
    uint32_t slice_first;
    uint32_t slice_rows;
    uint32_t row_scales;
    float scale;
    uint32_t bias_stride;
    uint32_t result_first;
    uint32_t result_stride;
    uint32_t gate;
    float limit;
    uint32_t first_word;
} tern_gpu_linear_routed_uniform;
static_assert(sizeof(tern_gpu_linear_routed_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "linear/linear_routed.wesl: struct P");
static inline void tern_gpu_linear_routed_set(tern_gpu_dispatch *d, const tern_gpu_linear_routed_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_LINEAR_ROUTED, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_LINEAR_ROUTED_BINDING_PARAMS,
    TERN_GPU_LINEAR_ROUTED_BINDING_X,
    TERN_GPU_LINEAR_ROUTED_BINDING_ROUTES,
    TERN_GPU_LINEAR_ROUTED_BINDING_WEIGHTS,
    TERN_GPU_LINEAR_ROUTED_BINDING_BIAS,
    TERN_GPU_LINEAR_ROUTED_BINDING_RESULT,
};
enum {
    TERN_GPU_LINEAR_ROUTED_CONST_TERNARY = 0,
    TERN_GPU_LINEAR_ROUTED_CONST_F32 = 1,
    TERN_GPU_LINEAR_ROUTED_CONST_F16 = 2,
    TERN_GPU_LINEAR_ROUTED_CONST_BF16 = 3,
    TERN_GPU_LINEAR_ROUTED_CONST_Q8_0 = 4,
    TERN_GPU_LINEAR_ROUTED_CONST_Q6_K = 5,
    TERN_GPU_LINEAR_ROUTED_CONST_Q5_K = 7,
    TERN_GPU_LINEAR_ROUTED_CONST_Q4_K = 6,
    TERN_GPU_LINEAR_ROUTED_CONST_Q3_K = 13,
    TERN_GPU_LINEAR_ROUTED_CONST_Q2_K = 14,
    TERN_GPU_LINEAR_ROUTED_CONST_Q2_0 = 15,
    TERN_GPU_LINEAR_ROUTED_CONST_Q1_0 = 16,
    TERN_GPU_LINEAR_ROUTED_CONST_CODES = 50529027,
    TERN_GPU_LINEAR_ROUTED_CONST_PAIRS = 50529027,
    TERN_GPU_LINEAR_ROUTED_CONST_BITS = 16843009,
    TERN_GPU_LINEAR_ROUTED_CONST_IQ4_NL = 12,
    TERN_GPU_LINEAR_ROUTED_CONST_MXFP4 = 17,
    TERN_GPU_LINEAR_ROUTED_CONST_Q4_0 = 8,
    TERN_GPU_LINEAR_ROUTED_CONST_Q5_0 = 10,
    TERN_GPU_LINEAR_ROUTED_CONST_Q5_1 = 11,
    TERN_GPU_LINEAR_ROUTED_CONST_Q4_1 = 9,
};
typedef struct tern_gpu_linear_routed_overrides {
    uint32_t format;
    uint32_t lanes;
    uint32_t partials;
    bool subgroups;
    uint32_t workgroup;
} tern_gpu_linear_routed_overrides;
static inline const tern_gpu_linear_routed_overrides *tern_gpu_linear_routed_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_LINEAR_ROUTED);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* linear/linear_ternary_coop.wesl */
typedef struct tern_gpu_linear_ternary_coop_uniform {
    uint32_t count_word;
    uint32_t max_rows;
    uint32_t n_groups;
    uint32_t x_stride;
    uint32_t scales_word;
    uint32_t sums_word;
    uint32_t w_stride;
    uint32_t row_scales;
    uint32_t rows0;
    uint32_t rows1;
    uint32_t rows2;
    uint32_t tiles0;
    uint32_t tiles1;
    float scale0;
    float scale1;
    float scale2;
    uint32_t out_first;
    uint32_t out_stride;
    uint32_t residual_first;
    uint32_t residual_stride;
    uint32_t flags;
} tern_gpu_linear_ternary_coop_uniform;
static_assert(sizeof(tern_gpu_linear_ternary_coop_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "linear/linear_ternary_coop.wesl: struct P");
static inline void tern_gpu_linear_ternary_coop_set(tern_gpu_dispatch *d, const tern_gpu_linear_ternary_coop_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_LINEAR_TERNARY_COOP, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_LINEAR_TERNARY_COOP_BINDING_PARAMS,
    TERN_GPU_LINEAR_TERNARY_COOP_BINDING_X,
    TERN_GPU_LINEAR_TERNARY_COOP_BINDING_W0,
    TERN_GPU_LINEAR_TERNARY_COOP_BINDING_W1,
    TERN_GPU_LINEAR_TERNARY_COOP_BINDING_W2,
    TERN_GPU_LINEAR_TERNARY_COOP_BINDING_RESIDUAL,
    TERN_GPU_LINEAR_TERNARY_COOP_BINDING_RESULT,
};
enum {
    TERN_GPU_LINEAR_TERNARY_COOP_CONST_STRIDE = 9,
    TERN_GPU_LINEAR_TERNARY_COOP_CONST_CODES = 50529027,
};
typedef struct tern_gpu_linear_ternary_coop_overrides {
    bool add_residual;
    bool gated;
    bool silu;
    uint32_t tile_tokens;
    uint32_t workgroup;
} tern_gpu_linear_ternary_coop_overrides;
static inline const tern_gpu_linear_ternary_coop_overrides *tern_gpu_linear_ternary_coop_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_LINEAR_TERNARY_COOP);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* linear/linear_ternary_f32.wesl */
typedef struct tern_gpu_linear_ternary_f32_uniform {
    uint32_t count_word;
    uint32_t cols;
    uint32_t chunks;
    uint32_t flags;
    uint32_t rows;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t row_scales;
    float scale0;
    float scale1;
    uint32_t residual_first;
    uint32_t residual_stride;
    uint32_t out_first;
    uint32_t out_stride;
} tern_gpu_linear_ternary_f32_uniform;
static_assert(sizeof(tern_gpu_linear_ternary_f32_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "linear/linear_ternary_f32.wesl: struct P");
static inline void tern_gpu_linear_ternary_f32_set(tern_gpu_dispatch *d, const tern_gpu_linear_ternary_f32_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_LINEAR_TERNARY_F32, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_LINEAR_TERNARY_F32_BINDING_PARAMS,
    TERN_GPU_LINEAR_TERNARY_F32_BINDING_X,
    TERN_GPU_LINEAR_TERNARY_F32_BINDING_W0,
    TERN_GPU_LINEAR_TERNARY_F32_BINDING_W1,
    TERN_GPU_LINEAR_TERNARY_F32_BINDING_RESIDUAL,
    TERN_GPU_LINEAR_TERNARY_F32_BINDING_RESULT,
};
enum {
    TERN_GPU_LINEAR_TERNARY_F32_CONST_CODES = 50529027,
};
typedef struct tern_gpu_linear_ternary_f32_overrides {
    bool gated;
    uint32_t lanes;
    uint32_t workgroup;
} tern_gpu_linear_ternary_f32_overrides;
static inline const tern_gpu_linear_ternary_f32_overrides *tern_gpu_linear_ternary_f32_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_LINEAR_TERNARY_F32);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* linear/linear_ternary_mat.wesl */
typedef tern_gpu_linear_ternary_coop_uniform tern_gpu_linear_ternary_mat_uniform;
static_assert(sizeof(tern_gpu_linear_ternary_mat_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "linear/linear_ternary_mat.wesl: struct P");
static inline void tern_gpu_linear_ternary_mat_set(tern_gpu_dispatch *d, const tern_gpu_linear_ternary_mat_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_LINEAR_TERNARY_COOP, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_LINEAR_TERNARY_MAT_BINDING_PARAMS,
    TERN_GPU_LINEAR_TERNARY_MAT_BINDING_X,
    TERN_GPU_LINEAR_TERNARY_MAT_BINDING_W0,
    TERN_GPU_LINEAR_TERNARY_MAT_BINDING_W1,
    TERN_GPU_LINEAR_TERNARY_MAT_BINDING_W2,
    TERN_GPU_LINEAR_TERNARY_MAT_BINDING_RESIDUAL,
    TERN_GPU_LINEAR_TERNARY_MAT_BINDING_RESULT,
};
enum {
    TERN_GPU_LINEAR_TERNARY_MAT_CONST_CODES = 50529027,
};
typedef struct tern_gpu_linear_ternary_mat_overrides {
    bool gated;
    uint32_t row_stride;
    uint32_t tile_rows;
    uint32_t tile_tokens;
    uint32_t token_stride;
    uint32_t w_loads;
    uint32_t workgroup;
} tern_gpu_linear_ternary_mat_overrides;
static inline const tern_gpu_linear_ternary_mat_overrides *tern_gpu_linear_ternary_mat_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_LINEAR_TERNARY_MAT);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* linear/linear_ternary_vec.wesl */
typedef struct tern_gpu_linear_ternary_vec_uniform {
    uint32_t count_word;
    uint32_t cols;
    uint32_t chunks;
    uint32_t padded;
    uint32_t flags;
    float eps;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t scales_word;
    uint32_t sums_word;
    uint32_t rows0;
    uint32_t rows1;
    uint32_t rows2;
    uint32_t block1;
    uint32_t block2;
    float scale0;
    float scale1;
    float scale2;
    uint32_t row_scales0;
    uint32_t row_scales1;
    uint32_t row_scales2;
    uint32_t residual_first;
    uint32_t residual_stride;
    uint32_t out_first;
    uint32_t out_stride;
} tern_gpu_linear_ternary_vec_uniform;
static_assert(sizeof(tern_gpu_linear_ternary_vec_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "linear/linear_ternary_vec.wesl: struct P");
static inline void tern_gpu_linear_ternary_vec_set(tern_gpu_dispatch *d, const tern_gpu_linear_ternary_vec_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_LINEAR_TERNARY_VEC, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_LINEAR_TERNARY_VEC_BINDING_PARAMS,
    TERN_GPU_LINEAR_TERNARY_VEC_BINDING_X,
    TERN_GPU_LINEAR_TERNARY_VEC_BINDING_NORM_WEIGHT,
    TERN_GPU_LINEAR_TERNARY_VEC_BINDING_W0,
    TERN_GPU_LINEAR_TERNARY_VEC_BINDING_W1,
    TERN_GPU_LINEAR_TERNARY_VEC_BINDING_W2,
    TERN_GPU_LINEAR_TERNARY_VEC_BINDING_RESIDUAL,
    TERN_GPU_LINEAR_TERNARY_VEC_BINDING_RESULT,
};
enum {
    TERN_GPU_LINEAR_TERNARY_VEC_CONST_CODES = 50529027,
};
typedef struct tern_gpu_linear_ternary_vec_overrides {
    uint32_t blocks;
    uint32_t chunks;
    uint32_t cluster;
    uint32_t fixed;
    bool gated;
    uint32_t lanes;
    bool norm;
    uint32_t parts;
    uint32_t pool;
    bool skip;
    uint32_t units;
    bool whole;
    uint32_t workgroup;
    uint32_t xchunks;
} tern_gpu_linear_ternary_vec_overrides;
static inline const tern_gpu_linear_ternary_vec_overrides *tern_gpu_linear_ternary_vec_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_LINEAR_TERNARY_VEC);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* rows/quantize.wesl */
typedef struct tern_gpu_quantize_uniform {
    uint32_t cols;
    uint32_t count_word;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t row_words;
    uint32_t scales_word;
    uint32_t sums_word;
    float eps;
    uint32_t blend_word;
    uint32_t token_rows;
} tern_gpu_quantize_uniform;
static_assert(sizeof(tern_gpu_quantize_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "rows/quantize.wesl: struct P");
static inline void tern_gpu_quantize_set(tern_gpu_dispatch *d, const tern_gpu_quantize_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_QUANTIZE, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_QUANTIZE_BINDING_PARAMS,
    TERN_GPU_QUANTIZE_BINDING_X,
    TERN_GPU_QUANTIZE_BINDING_NORM_WEIGHT,
    TERN_GPU_QUANTIZE_BINDING_Q8,
};
enum {
    TERN_GPU_QUANTIZE_CONST_KEPT = 8,
    TERN_GPU_QUANTIZE_CONST_HEADS = 16,
    TERN_GPU_QUANTIZE_CONST_SLOTS = 16,
};
typedef struct tern_gpu_quantize_overrides {
    uint32_t align;
    bool direct;
    bool fake;
    bool norm;
    uint32_t workgroup;
} tern_gpu_quantize_overrides;
static inline const tern_gpu_quantize_overrides *tern_gpu_quantize_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_QUANTIZE);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* training/requantize_blend.wgsl */
typedef struct tern_gpu_requantize_blend_uniform {
    uint32_t n;
    uint32_t row;
    uint32_t bf16;
    uint32_t blend_word;
} tern_gpu_requantize_blend_uniform;
static_assert(sizeof(tern_gpu_requantize_blend_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "training/requantize_blend.wgsl: struct P");
static inline void tern_gpu_requantize_blend_set(tern_gpu_dispatch *d, const tern_gpu_requantize_blend_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_REQUANTIZE_BLEND, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_REQUANTIZE_BLEND_BINDING_PARAMS,
    TERN_GPU_REQUANTIZE_BLEND_BINDING_MASTER,
    TERN_GPU_REQUANTIZE_BLEND_BINDING_RULE,
    TERN_GPU_REQUANTIZE_BLEND_BINDING_WEIGHT,
};
typedef tern_gpu_add_parts_overrides tern_gpu_requantize_blend_overrides;
static inline const tern_gpu_requantize_blend_overrides *tern_gpu_requantize_blend_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* training/requantize_codes.wgsl */
typedef struct tern_gpu_requantize_codes_uniform {
    uint32_t rows;
    uint32_t cols;
    uint32_t row_words;
    uint32_t row;
    uint32_t bf16;
    uint32_t first_word;
    uint32_t scales_word;
} tern_gpu_requantize_codes_uniform;
static_assert(sizeof(tern_gpu_requantize_codes_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "training/requantize_codes.wgsl: struct P");
static inline void tern_gpu_requantize_codes_set(tern_gpu_dispatch *d, const tern_gpu_requantize_codes_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_REQUANTIZE_CODES, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_REQUANTIZE_CODES_BINDING_MASTER,
    TERN_GPU_REQUANTIZE_CODES_BINDING_RULE,
    TERN_GPU_REQUANTIZE_CODES_BINDING_WEIGHT,
};
typedef tern_gpu_add_parts_overrides tern_gpu_requantize_codes_overrides;
static inline const tern_gpu_requantize_codes_overrides *tern_gpu_requantize_codes_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* training/requantize_magnitudes.wgsl */
typedef struct tern_gpu_requantize_magnitudes_uniform {
    uint32_t n;
    uint32_t stride;
    uint32_t bf16;
    float clamp;
    uint32_t scale_word;
} tern_gpu_requantize_magnitudes_uniform;
static_assert(sizeof(tern_gpu_requantize_magnitudes_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "training/requantize_magnitudes.wgsl: struct P");
static inline void tern_gpu_requantize_magnitudes_set(tern_gpu_dispatch *d, const tern_gpu_requantize_magnitudes_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_REQUANTIZE_MAGNITUDES, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_REQUANTIZE_MAGNITUDES_BINDING_MASTER,
    TERN_GPU_REQUANTIZE_MAGNITUDES_BINDING_WEIGHT,
    TERN_GPU_REQUANTIZE_MAGNITUDES_BINDING_TOTALS,
};
typedef struct tern_gpu_requantize_magnitudes_overrides {
    bool sum;
    uint32_t workgroup;
} tern_gpu_requantize_magnitudes_overrides;
static inline const tern_gpu_requantize_magnitudes_overrides *tern_gpu_requantize_magnitudes_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_REQUANTIZE_MAGNITUDES);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* training/requantize_scale.wgsl */
typedef struct tern_gpu_requantize_scale_uniform {
    uint32_t n;
    float threshold;
} tern_gpu_requantize_scale_uniform;
static_assert(sizeof(tern_gpu_requantize_scale_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "training/requantize_scale.wgsl: struct P");
static inline void tern_gpu_requantize_scale_set(tern_gpu_dispatch *d, const tern_gpu_requantize_scale_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_REQUANTIZE_SCALE, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_REQUANTIZE_SCALE_BINDING_TOTALS,
    TERN_GPU_REQUANTIZE_SCALE_BINDING_RULE,
};
enum {
    TERN_GPU_REQUANTIZE_SCALE_CONST_LEAST_SCALE = 925353388,
};

/* rows/rms_norm.wesl */
typedef struct tern_gpu_rms_norm_uniform {
    uint32_t cols;
    uint32_t count_word;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t y_first;
    uint32_t y_stride;
    float eps;
    uint32_t residual_first;
    uint32_t residual_stride;
    uint32_t adds_result;
} tern_gpu_rms_norm_uniform;
static_assert(sizeof(tern_gpu_rms_norm_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "rows/rms_norm.wesl: struct P");
static inline void tern_gpu_rms_norm_set(tern_gpu_dispatch *d, const tern_gpu_rms_norm_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_RMS_NORM, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_RMS_NORM_BINDING_PARAMS,
    TERN_GPU_RMS_NORM_BINDING_X,
    TERN_GPU_RMS_NORM_BINDING_NORM_WEIGHT,
    TERN_GPU_RMS_NORM_BINDING_Y,
    TERN_GPU_RMS_NORM_BINDING_RESIDUAL,
};
enum {
    TERN_GPU_RMS_NORM_CONST_KEPT = 8,
    TERN_GPU_RMS_NORM_CONST_HEADS = 16,
    TERN_GPU_RMS_NORM_CONST_SLOTS = 16,
};
typedef struct tern_gpu_rms_norm_overrides {
    uint32_t align;
    bool direct;
    bool residual;
    uint32_t workgroup;
} tern_gpu_rms_norm_overrides;
static inline const tern_gpu_rms_norm_overrides *tern_gpu_rms_norm_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_RMS_NORM);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* training/rms_norm_backward.wesl */
typedef struct tern_gpu_rms_norm_backward_uniform {
    uint32_t cols;
    uint32_t n_groups;
    uint32_t count_word;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t dy_first;
    uint32_t dy_stride;
    uint32_t residual_first;
    uint32_t residual_stride;
    uint32_t dx_first;
    uint32_t dx_stride;
    float eps;
    uint32_t flags;
    uint32_t scratch_word;
} tern_gpu_rms_norm_backward_uniform;
static_assert(sizeof(tern_gpu_rms_norm_backward_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "training/rms_norm_backward.wesl: struct P");
static inline void tern_gpu_rms_norm_backward_set(tern_gpu_dispatch *d, const tern_gpu_rms_norm_backward_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_RMS_NORM_BACKWARD, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_RMS_NORM_BACKWARD_BINDING_PARAMS,
    TERN_GPU_RMS_NORM_BACKWARD_BINDING_X,
    TERN_GPU_RMS_NORM_BACKWARD_BINDING_NORM_WEIGHT,
    TERN_GPU_RMS_NORM_BACKWARD_BINDING_DY,
    TERN_GPU_RMS_NORM_BACKWARD_BINDING_RESIDUAL,
    TERN_GPU_RMS_NORM_BACKWARD_BINDING_DX,
    TERN_GPU_RMS_NORM_BACKWARD_BINDING_SCRATCH,
};
enum {
    TERN_GPU_RMS_NORM_BACKWARD_CONST_DX = 1,
    TERN_GPU_RMS_NORM_BACKWARD_CONST_RESIDUAL = 2,
    TERN_GPU_RMS_NORM_BACKWARD_CONST_KEEP = 4,
};
typedef tern_gpu_add_parts_overrides tern_gpu_rms_norm_backward_overrides;
static inline const tern_gpu_rms_norm_backward_overrides *tern_gpu_rms_norm_backward_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* rows/rms_norm_groups.wgsl */
typedef struct tern_gpu_rms_norm_groups_uniform {
    uint32_t cols;
    uint32_t n_groups;
    uint32_t count_word;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t residual_first;
    uint32_t residual_stride;
    uint32_t y_first;
    uint32_t y_stride;
    float eps;
    uint32_t flags;
} tern_gpu_rms_norm_groups_uniform;
static_assert(sizeof(tern_gpu_rms_norm_groups_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "rows/rms_norm_groups.wgsl: struct P");
static inline void tern_gpu_rms_norm_groups_set(tern_gpu_dispatch *d, const tern_gpu_rms_norm_groups_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_RMS_NORM_GROUPS, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_RMS_NORM_GROUPS_BINDING_PARAMS,
    TERN_GPU_RMS_NORM_GROUPS_BINDING_X,
    TERN_GPU_RMS_NORM_GROUPS_BINDING_NORM_WEIGHT,
    TERN_GPU_RMS_NORM_GROUPS_BINDING_RESIDUAL,
    TERN_GPU_RMS_NORM_GROUPS_BINDING_Y,
};
enum {
    TERN_GPU_RMS_NORM_GROUPS_CONST_IN_PLACE = 1,
    TERN_GPU_RMS_NORM_GROUPS_CONST_RESIDUAL = 2,
    TERN_GPU_RMS_NORM_GROUPS_CONST_RESULT = 4,
};
typedef struct tern_gpu_rms_norm_groups_overrides {
    uint32_t lanes;
    uint32_t workgroup;
} tern_gpu_rms_norm_groups_overrides;
static inline const tern_gpu_rms_norm_groups_overrides *tern_gpu_rms_norm_groups_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_RMS_NORM_GROUPS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* training/rms_norm_weight_gradient.wgsl */
typedef struct tern_gpu_rms_norm_weight_gradient_uniform {
    uint32_t cols;
    uint32_t n_groups;
    uint32_t count_word;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t dy_first;
    uint32_t dy_stride;
    uint32_t scratch_word;
    uint32_t parts_word;
} tern_gpu_rms_norm_weight_gradient_uniform;
static_assert(sizeof(tern_gpu_rms_norm_weight_gradient_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "training/rms_norm_weight_gradient.wgsl: struct P");
static inline void tern_gpu_rms_norm_weight_gradient_set(tern_gpu_dispatch *d, const tern_gpu_rms_norm_weight_gradient_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_RMS_NORM_WEIGHT_GRADIENT, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_RMS_NORM_WEIGHT_GRADIENT_BINDING_PARAMS,
    TERN_GPU_RMS_NORM_WEIGHT_GRADIENT_BINDING_X,
    TERN_GPU_RMS_NORM_WEIGHT_GRADIENT_BINDING_DY,
    TERN_GPU_RMS_NORM_WEIGHT_GRADIENT_BINDING_SCRATCH,
};
typedef struct tern_gpu_rms_norm_weight_gradient_overrides {
    uint32_t columns;
    uint32_t lanes;
    uint32_t rows;
    uint32_t workgroup;
} tern_gpu_rms_norm_weight_gradient_overrides;
static inline const tern_gpu_rms_norm_weight_gradient_overrides *tern_gpu_rms_norm_weight_gradient_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_RMS_NORM_WEIGHT_GRADIENT);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* attention/rope.wesl */
typedef struct tern_gpu_rope_uniform {
    uint32_t quads;
    uint32_t n_heads;
    uint32_t adjacent;
    uint32_t turned;
    uint32_t count_word;
    uint32_t positions_word;
    uint32_t x_first;
    uint32_t x_stride;
    float direction;
} tern_gpu_rope_uniform;
static_assert(sizeof(tern_gpu_rope_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "attention/rope.wesl: struct P");
static inline void tern_gpu_rope_set(tern_gpu_dispatch *d, const tern_gpu_rope_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_ROPE, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_ROPE_BINDING_PARAMS,
    TERN_GPU_ROPE_BINDING_X,
    TERN_GPU_ROPE_BINDING_TABLE,
};
typedef tern_gpu_add_parts_overrides tern_gpu_rope_overrides;
static inline const tern_gpu_rope_overrides *tern_gpu_rope_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* attention/rope_kv.wesl */
typedef struct tern_gpu_rope_kv_uniform {
    uint32_t quads;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t adjacent;
    uint32_t turned;
    uint32_t count_word;
    uint32_t positions_word;
    uint32_t sequences_word;
    uint32_t pages_word;
    uint32_t max_pages;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t lanes;
    float eps;
} tern_gpu_rope_kv_uniform;
static_assert(sizeof(tern_gpu_rope_kv_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "attention/rope_kv.wesl: struct P");
static inline void tern_gpu_rope_kv_set(tern_gpu_dispatch *d, const tern_gpu_rope_kv_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_ROPE_KV, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_ROPE_KV_BINDING_PARAMS,
    TERN_GPU_ROPE_KV_BINDING_QKV,
    TERN_GPU_ROPE_KV_BINDING_TABLE,
    TERN_GPU_ROPE_KV_BINDING_K_CACHE,
    TERN_GPU_ROPE_KV_BINDING_V_CACHE,
    TERN_GPU_ROPE_KV_BINDING_Q_NORM,
    TERN_GPU_ROPE_KV_BINDING_K_NORM,
};
typedef struct tern_gpu_rope_kv_overrides {
    bool f16;
    bool norm;
    uint32_t partials;
    uint32_t workgroup;
} tern_gpu_rope_kv_overrides;
static inline const tern_gpu_rope_kv_overrides *tern_gpu_rope_kv_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ROPE_KV);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* experts/route.wesl */
typedef struct tern_gpu_route_uniform {
    uint32_t count_word;
    uint32_t n_experts;
    uint32_t k;
    uint32_t logits_first;
    uint32_t logits_stride;
} tern_gpu_route_uniform;
static_assert(sizeof(tern_gpu_route_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "experts/route.wesl: struct P");
static inline void tern_gpu_route_set(tern_gpu_dispatch *d, const tern_gpu_route_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_ROUTE, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_ROUTE_BINDING_PARAMS,
    TERN_GPU_ROUTE_BINDING_LOGITS,
    TERN_GPU_ROUTE_BINDING_ROUTES,
};
enum {
    TERN_GPU_ROUTE_CONST_MAX_EXPERTS = 1024,
    TERN_GPU_ROUTE_CONST_MAX_ROUTES = 16,
};
typedef struct tern_gpu_route_overrides {
    uint32_t rule;
    uint32_t workgroup;
} tern_gpu_route_overrides;
static inline const tern_gpu_route_overrides *tern_gpu_route_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ROUTE);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* experts/route_backward.wesl */
typedef struct tern_gpu_route_backward_uniform {
    uint32_t n_experts;
    uint32_t count_word;
    uint32_t k;
    uint32_t all;
    uint32_t logits_first;
    uint32_t logits_stride;
    uint32_t d_first;
    uint32_t d_stride;
    uint32_t residual_first;
    uint32_t residual_stride;
    uint32_t result_first;
    uint32_t result_stride;
    uint32_t epilogue;
} tern_gpu_route_backward_uniform;
static_assert(sizeof(tern_gpu_route_backward_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "experts/route_backward.wesl: struct P");
static inline void tern_gpu_route_backward_set(tern_gpu_dispatch *d, const tern_gpu_route_backward_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_ROUTE_BACKWARD, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_ROUTE_BACKWARD_BINDING_PARAMS,
    TERN_GPU_ROUTE_BACKWARD_BINDING_LOGITS,
    TERN_GPU_ROUTE_BACKWARD_BINDING_ROUTES,
    TERN_GPU_ROUTE_BACKWARD_BINDING_D,
    TERN_GPU_ROUTE_BACKWARD_BINDING_RESIDUAL,
    TERN_GPU_ROUTE_BACKWARD_BINDING_RESULT,
};
typedef tern_gpu_add_parts_overrides tern_gpu_route_backward_overrides;
static inline const tern_gpu_route_backward_overrides *tern_gpu_route_backward_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* linear/row_factors.wgsl */
typedef struct tern_gpu_row_factors_uniform {
    uint32_t cols;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t scales_word;
} tern_gpu_row_factors_uniform;
static_assert(sizeof(tern_gpu_row_factors_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "linear/row_factors.wgsl: struct P");
static inline void tern_gpu_row_factors_set(tern_gpu_dispatch *d, const tern_gpu_row_factors_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_ROW_FACTORS, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_ROW_FACTORS_BINDING_X,
    TERN_GPU_ROW_FACTORS_BINDING_SCALES,
    TERN_GPU_ROW_FACTORS_BINDING_FACTORS,
};
typedef tern_gpu_add_parts_overrides tern_gpu_row_factors_overrides;
static inline const tern_gpu_row_factors_overrides *tern_gpu_row_factors_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* training/row_gate_backward.wesl */
typedef struct tern_gpu_row_gate_backward_uniform {
    uint32_t cols;
    uint32_t count_word;
    uint32_t gate_first;
    uint32_t gate_stride;
    uint32_t up_first;
    uint32_t up_stride;
    uint32_t dy_first;
    uint32_t dy_stride;
    uint32_t dup_first;
    uint32_t dup_stride;
    uint32_t dgate_first;
    uint32_t dgate_stride;
    uint32_t token_rows;
} tern_gpu_row_gate_backward_uniform;
static_assert(sizeof(tern_gpu_row_gate_backward_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "training/row_gate_backward.wesl: struct P");
static inline void tern_gpu_row_gate_backward_set(tern_gpu_dispatch *d, const tern_gpu_row_gate_backward_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_ROW_GATE_BACKWARD, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_ROW_GATE_BACKWARD_BINDING_PARAMS,
    TERN_GPU_ROW_GATE_BACKWARD_BINDING_GATE,
    TERN_GPU_ROW_GATE_BACKWARD_BINDING_UP,
    TERN_GPU_ROW_GATE_BACKWARD_BINDING_DY,
    TERN_GPU_ROW_GATE_BACKWARD_BINDING_DUP,
    TERN_GPU_ROW_GATE_BACKWARD_BINDING_DGATE,
};
typedef tern_gpu_add_parts_overrides tern_gpu_row_gate_backward_overrides;
static inline const tern_gpu_row_gate_backward_overrides *tern_gpu_row_gate_backward_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* sample/sample_choose.wesl */
typedef struct tern_gpu_sample_choose_uniform {
    uint32_t n_vocab;
    uint32_t n_slices;
    uint32_t counts_word;
    uint32_t sampler_word;
    uint32_t ids_word;
    uint32_t positions_word;
    uint32_t row_words;
} tern_gpu_sample_choose_uniform;
static_assert(sizeof(tern_gpu_sample_choose_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "sample/sample_choose.wesl: struct P");
static inline void tern_gpu_sample_choose_set(tern_gpu_dispatch *d, const tern_gpu_sample_choose_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_SAMPLE_CHOOSE, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_SAMPLE_CHOOSE_BINDING_PARAMS,
    TERN_GPU_SAMPLE_CHOOSE_BINDING_LOGITS,
    TERN_GPU_SAMPLE_CHOOSE_BINDING_SLICES,
    TERN_GPU_SAMPLE_CHOOSE_BINDING_TOKENS,
};
enum {
    TERN_GPU_SAMPLE_CHOOSE_CONST_MAX_SLICES = 1024,
    TERN_GPU_SAMPLE_CHOOSE_CONST_MAX_TOP_K = 64,
    TERN_GPU_SAMPLE_CHOOSE_CONST_N_DONE = 0,
    TERN_GPU_SAMPLE_CHOOSE_CONST_N_WANTED = 1,
    TERN_GPU_SAMPLE_CHOOSE_CONST_TOP_K = 2,
    TERN_GPU_SAMPLE_CHOOSE_CONST_TEMPERATURE = 3,
    TERN_GPU_SAMPLE_CHOOSE_CONST_TOP_P = 4,
    TERN_GPU_SAMPLE_CHOOSE_CONST_MIN_P = 5,
    TERN_GPU_SAMPLE_CHOOSE_CONST_N_ENDS = 6,
    TERN_GPU_SAMPLE_CHOOSE_CONST_END_IDS = 8,
    TERN_GPU_SAMPLE_CHOOSE_CONST_DRAWS = 24,
    TERN_GPU_SAMPLE_CHOOSE_CONST_ROW_DRAW = 7,
    TERN_GPU_SAMPLE_CHOOSE_CONST_FRONT = 4,
    TERN_GPU_SAMPLE_CHOOSE_CONST_RUN = 8,
    TERN_GPU_SAMPLE_CHOOSE_CONST_HEADS = 16,
    TERN_GPU_SAMPLE_CHOOSE_CONST_SLOTS = 16,
};
typedef tern_gpu_combine_backward_overrides tern_gpu_sample_choose_overrides;
static inline const tern_gpu_sample_choose_overrides *tern_gpu_sample_choose_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_COMBINE_BACKWARD);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* sample/sample_slices.wesl */
typedef struct tern_gpu_sample_slices_uniform {
    uint32_t n_vocab;
    uint32_t n_slices;
    uint32_t counts_word;
    uint32_t sampler_word;
    uint32_t row_words;
} tern_gpu_sample_slices_uniform;
static_assert(sizeof(tern_gpu_sample_slices_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "sample/sample_slices.wesl: struct P");
static inline void tern_gpu_sample_slices_set(tern_gpu_dispatch *d, const tern_gpu_sample_slices_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_SAMPLE_SLICES, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_SAMPLE_SLICES_BINDING_PARAMS,
    TERN_GPU_SAMPLE_SLICES_BINDING_LOGITS,
    TERN_GPU_SAMPLE_SLICES_BINDING_SLICES,
};
enum {
    TERN_GPU_SAMPLE_SLICES_CONST_RUN = 8,
    TERN_GPU_SAMPLE_SLICES_CONST_FRONT = 4,
    TERN_GPU_SAMPLE_SLICES_CONST_HEADS = 16,
    TERN_GPU_SAMPLE_SLICES_CONST_SLOTS = 16,
};
typedef tern_gpu_combine_backward_overrides tern_gpu_sample_slices_overrides;
static inline const tern_gpu_sample_slices_overrides *tern_gpu_sample_slices_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_COMBINE_BACKWARD);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* training/scale.wesl */
typedef struct tern_gpu_scale_uniform {
    uint32_t cols;
    uint32_t count_word;
    uint32_t token_rows;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t out_first;
    uint32_t out_stride;
    float factor;
    uint32_t least;
    uint32_t seed_word;
    uint32_t stream;
    float softcap;
    float softcap_rate;
    uint32_t first_word;
} tern_gpu_scale_uniform;
static_assert(sizeof(tern_gpu_scale_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "training/scale.wesl: struct P");
static inline void tern_gpu_scale_set(tern_gpu_dispatch *d, const tern_gpu_scale_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_SCALE, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_SCALE_BINDING_PARAMS,
    TERN_GPU_SCALE_BINDING_X,
    TERN_GPU_SCALE_BINDING_RESULT,
};
typedef struct tern_gpu_scale_overrides {
    bool dropout;
    bool softcap;
    uint32_t workgroup;
} tern_gpu_scale_overrides;
static inline const tern_gpu_scale_overrides *tern_gpu_scale_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_SCALE);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* training/softcap_backward.wesl */
typedef struct tern_gpu_softcap_backward_uniform {
    uint32_t cols;
    uint32_t count_word;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t dy_first;
    uint32_t dy_stride;
    uint32_t out_first;
    uint32_t out_stride;
    float factor;
    float softcap;
    float softcap_rate;
} tern_gpu_softcap_backward_uniform;
static_assert(sizeof(tern_gpu_softcap_backward_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "training/softcap_backward.wesl: struct P");
static inline void tern_gpu_softcap_backward_set(tern_gpu_dispatch *d, const tern_gpu_softcap_backward_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_SOFTCAP_BACKWARD, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_SOFTCAP_BACKWARD_BINDING_PARAMS,
    TERN_GPU_SOFTCAP_BACKWARD_BINDING_X,
    TERN_GPU_SOFTCAP_BACKWARD_BINDING_DY,
    TERN_GPU_SOFTCAP_BACKWARD_BINDING_RESULT,
};
typedef tern_gpu_add_parts_overrides tern_gpu_softcap_backward_overrides;
static inline const tern_gpu_softcap_backward_overrides *tern_gpu_softcap_backward_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* recurrent/split.wgsl */
typedef struct tern_gpu_split_uniform {
    uint32_t cols;
    uint32_t head_dim;
    uint32_t count_word;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t out_first;
    uint32_t out_stride;
    uint32_t gate_first;
    uint32_t gate_stride;
} tern_gpu_split_uniform;
static_assert(sizeof(tern_gpu_split_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "recurrent/split.wgsl: struct P");
static inline void tern_gpu_split_set(tern_gpu_dispatch *d, const tern_gpu_split_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_SPLIT, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_SPLIT_BINDING_PARAMS,
    TERN_GPU_SPLIT_BINDING_X,
    TERN_GPU_SPLIT_BINDING_OUT_ROWS,
    TERN_GPU_SPLIT_BINDING_GATE,
};
typedef struct tern_gpu_split_overrides {
    bool back;
    uint32_t workgroup;
} tern_gpu_split_overrides;
static inline const tern_gpu_split_overrides *tern_gpu_split_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_SPLIT);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* attention/sum_heads.wgsl */
typedef struct tern_gpu_sum_heads_uniform {
    uint32_t quads;
    uint32_t n_kv_heads;
    uint32_t splits;
    uint32_t count_word;
    uint32_t dk_first;
    uint32_t dk_stride;
    uint32_t dv_first;
    uint32_t dv_stride;
} tern_gpu_sum_heads_uniform;
static_assert(sizeof(tern_gpu_sum_heads_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "attention/sum_heads.wgsl: struct P");
static inline void tern_gpu_sum_heads_set(tern_gpu_dispatch *d, const tern_gpu_sum_heads_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_SUM_HEADS, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_SUM_HEADS_BINDING_PARAMS,
    TERN_GPU_SUM_HEADS_BINDING_DK_PARTS,
    TERN_GPU_SUM_HEADS_BINDING_DV_PARTS,
    TERN_GPU_SUM_HEADS_BINDING_DK,
    TERN_GPU_SUM_HEADS_BINDING_DV,
};
typedef tern_gpu_add_parts_overrides tern_gpu_sum_heads_overrides;
static inline const tern_gpu_sum_heads_overrides *tern_gpu_sum_heads_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* training/sum_squares.wgsl */
typedef struct tern_gpu_sum_squares_uniform {
    uint32_t n;
    uint32_t row;
    uint32_t out_first;
    uint32_t clears;
} tern_gpu_sum_squares_uniform;
static_assert(sizeof(tern_gpu_sum_squares_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "training/sum_squares.wgsl: struct P");
static inline void tern_gpu_sum_squares_set(tern_gpu_dispatch *d, const tern_gpu_sum_squares_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_SUM_SQUARES, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_SUM_SQUARES_BINDING_X,
    TERN_GPU_SUM_SQUARES_BINDING_SUMS,
};
enum {
    TERN_GPU_SUM_SQUARES_CONST_RUN = 4096,
    TERN_GPU_SUM_SQUARES_CONST_LANES = 128,
    TERN_GPU_SUM_SQUARES_CONST_INFINITE = 2139095040,
};
typedef struct tern_gpu_sum_squares_overrides {
    bool squares;
} tern_gpu_sum_squares_overrides;
static inline const tern_gpu_sum_squares_overrides *tern_gpu_sum_squares_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_SUM_SQUARES);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* training/update.wgsl */
typedef struct tern_gpu_update_uniform {
    uint32_t n;
    uint32_t first;
    uint32_t row;
    uint32_t training_word;
    uint32_t seed;
    uint32_t decays;
    uint32_t w_type;
    uint32_t m_type;
    uint32_t v_type;
    uint32_t m_scales;
    uint32_t v_scales;
} tern_gpu_update_uniform;
static_assert(sizeof(tern_gpu_update_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "training/update.wgsl: struct P");
static inline void tern_gpu_update_set(tern_gpu_dispatch *d, const tern_gpu_update_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_UPDATE, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_UPDATE_BINDING_PARAMS,
    TERN_GPU_UPDATE_BINDING_GRADIENT,
    TERN_GPU_UPDATE_BINDING_W4,
    TERN_GPU_UPDATE_BINDING_W1,
    TERN_GPU_UPDATE_BINDING_M4,
    TERN_GPU_UPDATE_BINDING_M1,
    TERN_GPU_UPDATE_BINDING_V4,
    TERN_GPU_UPDATE_BINDING_V1,
};
enum {
    TERN_GPU_UPDATE_CONST_F32 = 1,
    TERN_GPU_UPDATE_CONST_BF16 = 2,
    TERN_GPU_UPDATE_CONST_BITS8 = 3,
    TERN_GPU_UPDATE_CONST_HEADS = 8,
};
typedef struct tern_gpu_update_overrides {
    bool adamw;
    uint32_t workgroup;
} tern_gpu_update_overrides;
static inline const tern_gpu_update_overrides *tern_gpu_update_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_UPDATE);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* attention/varlen_attention.wesl */
typedef struct tern_gpu_varlen_attention_uniform {
    uint32_t quads;
    uint32_t n_heads;
    uint32_t group;
    uint32_t splits;
    uint32_t count_word;
    uint32_t starts_word;
    uint32_t q_first;
    uint32_t q_stride;
    uint32_t k_first;
    uint32_t k_stride;
    uint32_t v_first;
    uint32_t v_stride;
    uint32_t dout_first;
    uint32_t dout_stride;
    uint32_t out_first;
    uint32_t out_stride;
    uint32_t dv_first;
    uint32_t dv_stride;
    uint32_t statistics_first;
    uint32_t statistics_stride;
    float scale;
    float softcap;
    float softcap_rate;
    uint32_t window;
    uint32_t sinks;
} tern_gpu_varlen_attention_uniform;
static_assert(sizeof(tern_gpu_varlen_attention_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "attention/varlen_attention.wesl: struct P");
static inline void tern_gpu_varlen_attention_set(tern_gpu_dispatch *d, const tern_gpu_varlen_attention_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_VARLEN_ATTENTION, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_VARLEN_ATTENTION_BINDING_PARAMS,
    TERN_GPU_VARLEN_ATTENTION_BINDING_Q,
    TERN_GPU_VARLEN_ATTENTION_BINDING_K,
    TERN_GPU_VARLEN_ATTENTION_BINDING_V,
    TERN_GPU_VARLEN_ATTENTION_BINDING_STATISTICS,
    TERN_GPU_VARLEN_ATTENTION_BINDING_RESULT,
    TERN_GPU_VARLEN_ATTENTION_BINDING_SINKS,
};
typedef struct tern_gpu_varlen_attention_overrides {
    uint32_t chunk;
    uint32_t dim;
    uint32_t key_lanes;
    uint32_t keys;
    uint32_t loaded;
    uint32_t part_quads;
    uint32_t parts;
    uint32_t row_lanes;
    uint32_t rows;
    uint32_t score_rows;
    uint32_t score_stride;
    uint32_t step;
    uint32_t stride;
    uint32_t sum_quads;
    uint32_t sum_rows;
    uint32_t sum_step;
    uint32_t tile;
    uint32_t workgroup;
} tern_gpu_varlen_attention_overrides;
static inline const tern_gpu_varlen_attention_overrides *tern_gpu_varlen_attention_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_VARLEN_ATTENTION);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* attention/varlen_attention_delta.wgsl */
typedef struct tern_gpu_varlen_attention_delta_uniform {
    uint32_t quads;
    uint32_t n_heads;
    uint32_t count_word;
    uint32_t out_first;
    uint32_t out_stride;
    uint32_t dout_first;
    uint32_t dout_stride;
    uint32_t statistics_first;
    uint32_t statistics_stride;
} tern_gpu_varlen_attention_delta_uniform;
static_assert(sizeof(tern_gpu_varlen_attention_delta_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "attention/varlen_attention_delta.wgsl: struct P");
static inline void tern_gpu_varlen_attention_delta_set(tern_gpu_dispatch *d, const tern_gpu_varlen_attention_delta_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_VARLEN_ATTENTION_DELTA, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_VARLEN_ATTENTION_DELTA_BINDING_PARAMS,
    TERN_GPU_VARLEN_ATTENTION_DELTA_BINDING_OUT_ROWS,
    TERN_GPU_VARLEN_ATTENTION_DELTA_BINDING_DOUT,
    TERN_GPU_VARLEN_ATTENTION_DELTA_BINDING_STATISTICS,
    TERN_GPU_VARLEN_ATTENTION_DELTA_BINDING_SCRATCH,
};
typedef tern_gpu_add_parts_overrides tern_gpu_varlen_attention_delta_overrides;
static inline const tern_gpu_varlen_attention_delta_overrides *tern_gpu_varlen_attention_delta_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* attention/varlen_attention_dkv.wesl */
typedef tern_gpu_varlen_attention_uniform tern_gpu_varlen_attention_dkv_uniform;
static_assert(sizeof(tern_gpu_varlen_attention_dkv_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "attention/varlen_attention_dkv.wesl: struct P");
static inline void tern_gpu_varlen_attention_dkv_set(tern_gpu_dispatch *d, const tern_gpu_varlen_attention_dkv_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_VARLEN_ATTENTION, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_VARLEN_ATTENTION_DKV_BINDING_PARAMS,
    TERN_GPU_VARLEN_ATTENTION_DKV_BINDING_Q,
    TERN_GPU_VARLEN_ATTENTION_DKV_BINDING_K,
    TERN_GPU_VARLEN_ATTENTION_DKV_BINDING_V,
    TERN_GPU_VARLEN_ATTENTION_DKV_BINDING_DOUT,
    TERN_GPU_VARLEN_ATTENTION_DKV_BINDING_SCRATCH,
    TERN_GPU_VARLEN_ATTENTION_DKV_BINDING_DK,
    TERN_GPU_VARLEN_ATTENTION_DKV_BINDING_DV,
};
typedef struct tern_gpu_varlen_attention_dkv_overrides {
    uint32_t chunk;
    uint32_t dim;
    uint32_t key_lanes;
    uint32_t keys;
    uint32_t loaded;
    uint32_t row_lanes;
    uint32_t rows;
    uint32_t score_rows;
    uint32_t score_stride;
    uint32_t step;
    uint32_t stride;
    uint32_t sum_quads;
    uint32_t sum_rows;
    uint32_t sum_step;
    uint32_t tile;
    uint32_t workgroup;
} tern_gpu_varlen_attention_dkv_overrides;
static inline const tern_gpu_varlen_attention_dkv_overrides *tern_gpu_varlen_attention_dkv_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_VARLEN_ATTENTION_DKV);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* attention/varlen_attention_dq.wesl */
typedef tern_gpu_varlen_attention_uniform tern_gpu_varlen_attention_dq_uniform;
static_assert(sizeof(tern_gpu_varlen_attention_dq_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "attention/varlen_attention_dq.wesl: struct P");
static inline void tern_gpu_varlen_attention_dq_set(tern_gpu_dispatch *d, const tern_gpu_varlen_attention_dq_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_VARLEN_ATTENTION, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_VARLEN_ATTENTION_DQ_BINDING_PARAMS,
    TERN_GPU_VARLEN_ATTENTION_DQ_BINDING_Q,
    TERN_GPU_VARLEN_ATTENTION_DQ_BINDING_K,
    TERN_GPU_VARLEN_ATTENTION_DQ_BINDING_V,
    TERN_GPU_VARLEN_ATTENTION_DQ_BINDING_DOUT,
    TERN_GPU_VARLEN_ATTENTION_DQ_BINDING_SCRATCH,
    TERN_GPU_VARLEN_ATTENTION_DQ_BINDING_DQ,
};
typedef tern_gpu_varlen_attention_dkv_overrides tern_gpu_varlen_attention_dq_overrides;
static inline const tern_gpu_varlen_attention_dq_overrides *tern_gpu_varlen_attention_dq_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_VARLEN_ATTENTION_DKV);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* attention/varlen_attention_dsinks.wesl */
typedef struct tern_gpu_varlen_attention_dsinks_uniform {
    uint32_t n_heads;
    uint32_t count_word;
} tern_gpu_varlen_attention_dsinks_uniform;
static_assert(sizeof(tern_gpu_varlen_attention_dsinks_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "attention/varlen_attention_dsinks.wesl: struct P");
static inline void tern_gpu_varlen_attention_dsinks_set(tern_gpu_dispatch *d, const tern_gpu_varlen_attention_dsinks_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_VARLEN_ATTENTION_DSINKS, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_VARLEN_ATTENTION_DSINKS_BINDING_PARAMS,
    TERN_GPU_VARLEN_ATTENTION_DSINKS_BINDING_SCRATCH,
    TERN_GPU_VARLEN_ATTENTION_DSINKS_BINDING_SINKS,
    TERN_GPU_VARLEN_ATTENTION_DSINKS_BINDING_DSINKS,
};
typedef tern_gpu_add_parts_overrides tern_gpu_varlen_attention_dsinks_overrides;
static inline const tern_gpu_varlen_attention_dsinks_overrides *tern_gpu_varlen_attention_dsinks_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_ADD_PARTS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* recurrent/varlen_conv.wesl */
typedef struct tern_gpu_varlen_conv_uniform {
    uint32_t cols;
    uint32_t taps;
    uint32_t count_word;
    uint32_t starts_word;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t dy_first;
    uint32_t dy_stride;
    uint32_t out_first;
    uint32_t out_stride;
    uint32_t weight_stride;
} tern_gpu_varlen_conv_uniform;
static_assert(sizeof(tern_gpu_varlen_conv_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "recurrent/varlen_conv.wesl: struct P");
static inline void tern_gpu_varlen_conv_set(tern_gpu_dispatch *d, const tern_gpu_varlen_conv_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_VARLEN_CONV, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_VARLEN_CONV_BINDING_PARAMS,
    TERN_GPU_VARLEN_CONV_BINDING_X,
    TERN_GPU_VARLEN_CONV_BINDING_WEIGHT,
    TERN_GPU_VARLEN_CONV_BINDING_DY,
    TERN_GPU_VARLEN_CONV_BINDING_SLOPES,
    TERN_GPU_VARLEN_CONV_BINDING_OUT_ROWS,
};
typedef struct tern_gpu_varlen_conv_overrides {
    uint32_t step;
    uint32_t workgroup;
} tern_gpu_varlen_conv_overrides;
static inline const tern_gpu_varlen_conv_overrides *tern_gpu_varlen_conv_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_VARLEN_CONV);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* recurrent/varlen_gated_delta.wesl */
typedef struct tern_gpu_varlen_gated_delta_uniform {
    uint32_t keys;
    uint32_t quads;
    uint32_t n_heads;
    uint32_t n_key_heads;
    uint32_t tiled;
    uint32_t count_word;
    uint32_t starts_word;
    uint32_t chunk;
    uint32_t first;
    uint32_t end;
    uint32_t q_first;
    uint32_t q_stride;
    uint32_t k_first;
    uint32_t k_stride;
    uint32_t v_first;
    uint32_t v_stride;
    uint32_t y_first;
    uint32_t y_stride;
    uint32_t dv_first;
    uint32_t dv_stride;
    uint32_t state_stride;
    uint32_t rows_at;
    uint32_t gradient_at;
    uint32_t parts_at;
} tern_gpu_varlen_gated_delta_uniform;
static_assert(sizeof(tern_gpu_varlen_gated_delta_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "recurrent/varlen_gated_delta.wesl: struct P");
static inline void tern_gpu_varlen_gated_delta_set(tern_gpu_dispatch *d, const tern_gpu_varlen_gated_delta_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_VARLEN_GATED_DELTA, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_VARLEN_GATED_DELTA_BINDING_PARAMS,
    TERN_GPU_VARLEN_GATED_DELTA_BINDING_Q,
    TERN_GPU_VARLEN_GATED_DELTA_BINDING_K,
    TERN_GPU_VARLEN_GATED_DELTA_BINDING_V,
    TERN_GPU_VARLEN_GATED_DELTA_BINDING_STATES,
    TERN_GPU_VARLEN_GATED_DELTA_BINDING_Y,
    TERN_GPU_VARLEN_GATED_DELTA_BINDING_SCRATCH,
    TERN_GPU_VARLEN_GATED_DELTA_BINDING_DV,
};
enum {
    TERN_GPU_VARLEN_GATED_DELTA_CONST_WORKGROUP = 64,
    TERN_GPU_VARLEN_GATED_DELTA_CONST_SLICES = 8,
    TERN_GPU_VARLEN_GATED_DELTA_CONST_QUADS = 8,
    TERN_GPU_VARLEN_GATED_DELTA_CONST_CHUNK = 64,
};
typedef struct tern_gpu_varlen_gated_delta_overrides {
    bool backward;
    uint32_t keys;
} tern_gpu_varlen_gated_delta_overrides;
static inline const tern_gpu_varlen_gated_delta_overrides *tern_gpu_varlen_gated_delta_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_VARLEN_GATED_DELTA);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* measure/waits.wesl */
typedef struct tern_gpu_waits_uniform {
    uint32_t n;
} tern_gpu_waits_uniform;
static_assert(sizeof(tern_gpu_waits_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "measure/waits.wesl: struct P");
static inline void tern_gpu_waits_set(tern_gpu_dispatch *d, const tern_gpu_waits_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_WAITS, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_WAITS_BINDING_BEFORE,
    TERN_GPU_WAITS_BINDING_AFTER,
};
enum {
    TERN_GPU_WAITS_CONST_STRIDE = 7919,
};
typedef struct tern_gpu_waits_overrides {
    uint32_t words;
    uint32_t workgroup;
} tern_gpu_waits_overrides;
static inline const tern_gpu_waits_overrides *tern_gpu_waits_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_WAITS);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

/* linear/widen.wesl */
typedef struct tern_gpu_widen_uniform {
    uint32_t cols;
    uint32_t vectors;
    uint32_t count_word;
    uint32_t x_first;
    uint32_t x_stride;
    uint32_t scales_word;
    uint32_t token_rows;
} tern_gpu_widen_uniform;
static_assert(sizeof(tern_gpu_widen_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "linear/widen.wesl: struct P");
static inline void tern_gpu_widen_set(tern_gpu_dispatch *d, const tern_gpu_widen_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_WIDEN, uniform, sizeof *uniform);
}
enum {
    TERN_GPU_WIDEN_BINDING_PARAMS,
    TERN_GPU_WIDEN_BINDING_X,
    TERN_GPU_WIDEN_BINDING_RESULT,
};
typedef struct tern_gpu_widen_overrides {
    bool q8;
    uint32_t workgroup;
} tern_gpu_widen_overrides;
static inline const tern_gpu_widen_overrides *tern_gpu_widen_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_WIDEN);
    return tern_gpu_specialised_kernels[pipeline].overrides;
}

#endif
