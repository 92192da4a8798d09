/* What the GPU backends (Vulkan, WebGPU) share: the WGSL kernels' pipelines as data, the choice of pipeline as a pure
 * function of (capabilities, op, encoding, shape), and the lowering of a graph to dispatches. Nothing here calls a
 * device.
 *
 * Kernels (FAMILY/NAME.wgsl or .wesl): group 0; binding 0 is the uniform struct P of at most TERN_GPU_UNIFORM_WORDS
 * words, bindings 1.. are storage buffers in the order of the pipeline's signature. 'r' is var<storage, read> (weights,
 * norm_weights, constants), 'w' var<storage, read_write>: all activations, caches and parameters, also where they are
 * only read, because WebGPU refuses one buffer as both in one dispatch. */
#ifndef TERN_BACKEND_GPU_GPU_H
#define TERN_BACKEND_GPU_GPU_H

#include "base/error.h"
#include "ops/op.h"

/* What a device can do; filled by the backend, or made up by a test. */
typedef struct tern_gpu_caps {
    uint32_t subgroup_min, subgroup_max; /* 0: no subgroup arithmetic and shuffles in compute shaders */
    uint32_t workgroup_bytes;            /* of workgroup memory, at least 16384 */
    uint32_t workgroup_invocations;      /* at least 128 */
    uint32_t max_groups;                 /* of one dispatch, in each dimension; at least 65535 */
    uint64_t max_binding;                /* bytes of one storage binding, at least 128 MiB */
    uint32_t binding_alignment;          /* of a binding's offset, at most 256 */
    bool f16;                            /* f16 arithmetic (shader-f16); only cooperative kernels need it */
    bool cooperative;                    /* see TERN_GPU_NEEDS_COOPERATIVE */
    bool device_fences; /* storageBarrier orders storage for other workgroups too: Vulkan, not WebGPU */
} tern_gpu_caps;

/* No more than `limits` of the device: lesser numbers, and what both have. */
void tern_gpu_limit(tern_gpu_caps *caps, const tern_gpu_caps *limits);

/* What a pipeline needs, beyond invocations and workgroup memory. */
enum {
    TERN_GPU_NEEDS_SUBGROUPS = 1,
    TERN_GPU_NEEDS_COOPERATIVE = 2 /* cooperative matrices of 16 x 16 x 16, f16 inputs and f32 sums, by subgroups of 32:
                                    * Vulkan alone, the kernel is in naga's dialect of WGSL */
};

/* The table. X(NAME, file, signature, needs, smallest subgroup, invocations, workgroup bytes, overrides):
 * the kernel FAMILY/file with its `override`s set to "KEY=VALUE ..." (others keep their default); the signature has one
 * letter for each storage binding. Without NEEDS_SUBGROUPS what the file has under @if(subgroups) is left out.
 * tools/wgsl checks the signature, invocations and workgroup bytes against the file. */
typedef enum tern_gpu_pipeline {
#define X(name, file, signature, needs, subgroup, invocations, bytes, overrides) TERN_GPU_##name,
#include "backend/gpu/pipelines.def"
#undef X
    TERN_GPU_PIPELINE_COUNT
} tern_gpu_pipeline;

typedef struct tern_gpu_pipeline_info {
    const char *name, *file, *signature;
    uint32_t needs, subgroup, invocations, workgroup_bytes;
    const char *overrides;
} tern_gpu_pipeline_info;

extern const tern_gpu_pipeline_info tern_gpu_pipelines[TERN_GPU_PIPELINE_COUNT];

/* Whether a device with `caps` can run the pipeline. */
bool tern_gpu_pipeline_fits(tern_gpu_pipeline pipeline, const tern_gpu_caps *caps);
/* The first of candidates[n] that fits, or TERN_GPU_PIPELINE_COUNT. */
tern_gpu_pipeline tern_gpu_first_fit(const tern_gpu_pipeline *candidates, size_t n, const tern_gpu_caps *caps);
/* The value of an override of a pipeline; `otherwise` where the table does not set it. */
uint32_t tern_gpu_override(tern_gpu_pipeline pipeline, const char *key, uint32_t otherwise);

/* How a weight lies in device memory. A device of small bindings holds it in slices of whole rows; slice i starts at i
 * * slice_bytes of the weight's buffer, has slice_rows rows (the last may have fewer) of row_bytes each, and then,
 * where there are row scales, one f32 for each row at scales_offset from the slice's start. */
typedef enum tern_gpu_format {
    TERN_GPU_TERNARY, /* every ternary encoding: i2_s groups, rows padded to whole groups of 128 (32 bytes) and to 16
                         bytes */
    TERN_GPU_F32,
    TERN_GPU_F16,
    TERN_GPU_BF16,
    TERN_GPU_Q8_0, /* [cols] int8, then an f16 scale for each 32 */
    TERN_GPU_Q6_K, /* blocks of 208 bytes (ql, qh, scales), then their f16 d */
    TERN_GPU_Q4_K, /* as in the file */
    TERN_GPU_FORMAT_COUNT
} tern_gpu_format;

typedef struct tern_gpu_layout {
    tern_gpu_format format;
    uint32_t rows, cols;
    uint32_t row_bytes; /* a multiple of 16 */
    uint32_t slice_rows, n_slices;
    uint64_t scales_offset; /* 0: the tensor has one scale, or none */
    uint64_t slice_bytes;   /* a multiple of 256, at most max_binding */
    uint64_t bytes;         /* n_slices * slice_bytes */
} tern_gpu_layout;

/* Errors: UNSUPPORTED (the encoding; a row longer than a binding). */
tern_status tern_gpu_layout_of(tern_gpu_layout *layout, const tern_weight *w, const tern_gpu_caps *caps,
                               tern_error *err);
/* Whether row r of the weight is, as it lies in the file, row r of the layout: w->data + r * row_bytes may then be
 * copied as it is. */
bool tern_gpu_layout_is_file(const tern_gpu_layout *layout, const tern_weight *w);
/* Writes rows [first, first + n) of the weight in its layout, n * row_bytes bytes, to out; row scales are the caller's
 * to copy (w->row_scales + first). Any number of threads, on distinct rows. Errors: OUT_OF_MEMORY. */
tern_status tern_gpu_pack_rows(const tern_gpu_layout *layout, const tern_weight *w, uint32_t first, uint32_t n,
                               uint8_t *out, tern_error *err);

/* The way back: in which encoding, and n rows of the layout at `in` as rows of that. Ternary weights give their codes
 * alone, as i2_s, or as t160 where rows have no whole groups of i2_s. Errors: OUT_OF_MEMORY. */
const tern_encoding *tern_gpu_unpacked(const tern_gpu_layout *layout, const tern_weight *w);
tern_status tern_gpu_unpack_rows(const tern_gpu_layout *layout, const tern_weight *w, const uint8_t *in, uint32_t n,
                                 uint8_t *out, tern_error *err);

/* One storage binding of a dispatch. SCRATCH starts with TERN_GPU_COUNTER_BYTES that are zero before the first run;
 * whoever counts there leaves zeros. The rest holds anything. */
enum { TERN_GPU_COUNTER_BYTES = 16384 };
enum { TERN_GPU_SCRATCH = 0xfffffffe, TERN_GPU_NOTHING = 0xfffffffd, TERN_GPU_PARAMS = 0xfffffffc };

typedef struct tern_gpu_range {
    uint32_t value;  /* of the graph, or SCRATCH (memory of this graph's dispatches), NOTHING (256 bytes that nobody
                      * reads: one such  buffer for each binding of a dispatch), PARAMS (all parameter values: their
                      * offsets are in the graph) */
    uint64_t offset; /* from where the value starts; a multiple of 256 */
    uint64_t bytes;  /* up to 15 more than the value has, for kernels that read vectors: buffers have whole 256 bytes */
    bool written;
} tern_gpu_range;

enum { TERN_GPU_MAX_BINDINGS = 8, TERN_GPU_UNIFORM_WORDS = 32 };

typedef struct tern_gpu_dispatch {
    tern_gpu_pipeline pipeline;
    uint32_t op; /* index in the graph */
    uint32_t groups[3];
    uint32_t n_bindings;
    tern_gpu_range bindings[TERN_GPU_MAX_BINDINGS]; /* WGSL binding 1 + i */
    uint32_t uniform[TERN_GPU_UNIFORM_WORDS];       /* u32, or the bits of an f32 */
    uint64_t weight_bytes;                          /* that it reads */
} tern_gpu_dispatch;

/* The dispatches of a graph, in order. They handle every step up to the graph's largest: the number of rows is read
 * from COUNTS on the device, and workgroups beyond it return at once. */
typedef struct tern_gpu_program {
    const tern_graph *graph;
    const tern_gpu_caps *caps;
    tern_gpu_dispatch *dispatches;
    size_t n, cap;
    uint64_t scratch_bytes;
} tern_gpu_program;

/* Errors: UNSUPPORTED with the op, its shape and the flag that would move it; OUT_OF_MEMORY. */
tern_status tern_gpu_lower(tern_gpu_program *program, const tern_graph *graph, const tern_gpu_caps *caps,
                           tern_error *err);
void tern_gpu_program_deinit(tern_gpu_program *program);
/* What lowering one op would say. */
tern_status tern_gpu_supports(const tern_graph *graph, const tern_op *op, const tern_gpu_caps *caps, tern_error *err);

/* Shared by the lower*.c files. */

/* Adds a dispatch of the op with the given pipeline, to be filled in; valid until the next is added. NULL with err set
 * when memory is out or groups exceed the device's. */
tern_gpu_dispatch *tern_gpu__add(tern_gpu_program *p, const tern_op *op, tern_gpu_pipeline pipeline, uint32_t x,
                                 uint32_t y, uint32_t z, tern_error *err);
void tern_gpu__bind(tern_gpu_dispatch *d, tern_gpu_range range);
/* The whole of a value. */
void tern_gpu__bind_value(const tern_gpu_program *p, tern_gpu_dispatch *d, uint32_t value, bool written);
/* A value from the view's first row on (f32). */
void tern_gpu__bind_view(const tern_gpu_program *p, tern_gpu_dispatch *d, tern_view view, bool written);
/* All parameters. */
void tern_gpu__bind_params(const tern_gpu_program *p, tern_gpu_dispatch *d, bool written);
void tern_gpu__bind_nothing(tern_gpu_dispatch *d);
/* Slice `slice` of a weight. */
void tern_gpu__bind_slice(tern_gpu_dispatch *d, uint32_t value, const tern_gpu_layout *layout, uint32_t slice);
/* Where a parameter starts in PARAMS, in words. */
uint32_t tern_gpu__param_word(const tern_gpu_program *p, tern_param which);
/* The place of the row count of an op in PARAMS: COUNTS[0] or COUNTS[1], in words. */
uint32_t tern_gpu__count_word(const tern_gpu_program *p, tern_rows rows);
/* The most rows an op can have. */
uint32_t tern_gpu__max_rows(const tern_gpu_program *p, tern_rows rows);
/* Room in SCRATCH behind the counters; ops share it one after the other, and the dispatches of one op when they ask
 * more than once. The offset. */
uint64_t tern_gpu__scratch(tern_gpu_program *p, uint64_t bytes);
uint32_t tern_gpu__float_bits(float value);
static inline uint32_t tern_gpu__ceil_div(uint32_t a, uint32_t b)
{
    return a / b + (a % b != 0);
}
static inline uint32_t tern_gpu__round_up(uint32_t n, uint32_t multiple)
{
    return tern_gpu__ceil_div(n, multiple) * multiple;
}
tern_status tern_gpu__unsupported(const tern_graph *graph, const tern_op *op, const char *why, tern_error *err);

tern_status tern_gpu__lower_linear(tern_gpu_program *p, const tern_op *op, tern_error *err); /* LINEAR */
/* Part `part` of a LINEAR whose weights of that part are dense (every format but TERNARY); of a gated one, both parts
 * at part 0. */
tern_status tern_gpu__lower_linear_dense(tern_gpu_program *p, const tern_op *op, uint32_t part, tern_error *err);
tern_status tern_gpu__lower_embed(tern_gpu_program *p, const tern_op *op, tern_error *err); /* EMBED */
tern_status tern_gpu__lower_rows(tern_gpu_program *p, const tern_op *op,
                                 tern_error *err); /* RMS_NORM .. GATHER, NORM_QUANT */
tern_status tern_gpu__lower_attention(tern_gpu_program *p, const tern_op *op,
                                      tern_error *err); /* ROPE, KV_WRITE, ROPE_KV, ATTENTION, ROPE_ATTENTION */
tern_status tern_gpu__lower_sample(tern_gpu_program *p, const tern_op *op, tern_error *err); /* SAMPLE */
tern_status tern_gpu__lower_gradient(tern_gpu_program *p, const tern_op *op,
                                     tern_error *err); /* LINEAR_DX, LINEAR_DW */
tern_status tern_gpu__lower_varlen_attention(tern_gpu_program *p, const tern_op *op,
                                             tern_error *err); /* VARLEN_ATTENTION and its BACKWARD */
tern_status tern_gpu__lower_backward(tern_gpu_program *p, const tern_op *op,
                                     tern_error *err); /* the other ops of training, by rows */
tern_status tern_gpu__lower_norm_backward(tern_gpu_program *p, const tern_op *op,
                                          tern_error *err); /* RMS_NORM_BACKWARD */
tern_status tern_gpu__lower_embed_backward(tern_gpu_program *p, const tern_op *op,
                                           tern_error *err); /* EMBED_BACKWARD */
tern_status tern_gpu__lower_update(tern_gpu_program *p, const tern_op *op,
                                   tern_error *err); /* SUM_SQUARES, UPDATE, REQUANTIZE */

#endif
