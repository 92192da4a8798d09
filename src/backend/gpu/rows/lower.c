/* Lowering the ops on rows: norms, quantisers, gate, sum, gather. Each uniform is laid out as its kernel's struct P. */
#include "backend/gpu/uniform.h"

enum { MAX_COLS_Q8 = 131072 }; /* a row's sum of int8 stays exact in f32 */

static tern_gpu_words begin(const tern_gpu_program *p, const tern_op *op, uint32_t cols)
{
    tern_gpu_words u = {0};
    tern_gpu__put(&u, cols);
    tern_gpu__put(&u, tern_gpu__count_word(p, op->rows));
    return u;
}

/* One invocation for each element. */
static tern_status elementwise(tern_gpu_program *p, const tern_op *op, const tern_gpu_pipeline candidates[2],
                               const tern_gpu_words *u, uint32_t n_inputs, tern_error *err)
{
    tern_gpu_pipeline pipeline = tern_gpu_first_fit(candidates, 2, p->caps);
    uint32_t width = tern_gpu_pipelines[pipeline].invocations, groups = tern_gpu__ceil_div(op->out.cols, width);
    tern_gpu_dispatch *d = tern_gpu__add(p, op, pipeline, groups, tern_gpu__max_rows(p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu__set_uniform(d, u);
    tern_gpu__bind_params(p, d, false);
    for (uint32_t i = 0; i < n_inputs; i++) tern_gpu__bind_view(p, d, op->in[i], false);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}

/* ADD and GATE. */
static tern_status lower_pair(tern_gpu_program *p, const tern_op *op, const tern_gpu_pipeline candidates[2],
                              tern_error *err)
{
    tern_gpu_words u = begin(p, op, op->out.cols);
    tern_gpu__put_view(&u, p, op->in[0], 1);
    tern_gpu__put_view(&u, p, op->in[1], 1);
    tern_gpu__put_view(&u, p, op->out, 1);
    return elementwise(p, op, candidates, &u, 2, err);
}

static tern_status lower_gate(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[][2] = {[TERN_ACT_RELU2] = {TERN_GPU_RELU2_256, TERN_GPU_RELU2_128},
                                                      [TERN_ACT_SILU] = {TERN_GPU_SILU_256, TERN_GPU_SILU_128},
                                                      [TERN_ACT_GELU] = {TERN_GPU_GELU_256, TERN_GPU_GELU_128}};
    return lower_pair(p, op, candidates[op->activation], err);
}

static tern_status lower_add(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_ADD_256, TERN_GPU_ADD_128};
    return lower_pair(p, op, candidates, err);
}

static tern_status lower_gather(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_GATHER_256, TERN_GPU_GATHER_128};
    tern_gpu_words u = begin(p, op, op->out.cols);
    tern_gpu__put(&u, tern_gpu__param_word(p, TERN_PARAM_OUTPUTS));
    tern_gpu__put_view(&u, p, op->in[0], 1);
    tern_gpu__put_view(&u, p, op->out, 1);
    return elementwise(p, op, candidates, &u, 1, err);
}

/* Whether all rows of a view of f32 are whole vectors of four. */
static bool in_fours(const tern_gpu_program *p, tern_view view)
{
    return view.cols % 4 == 0 && view.first_col % 4 == 0 && p->graph->values[view.value].cols % 4 == 0;
}

/* A workgroup for each row of in[0]; candidates: with subgroups of 16 and of 4, without, of 128 invocations,
 * and the one for any number of columns. */
static tern_gpu_dispatch *add_rowwise(tern_gpu_program *p, const tern_op *op, const tern_gpu_pipeline candidates[5],
                                      bool fours, tern_error *err)
{
    tern_gpu_pipeline pipeline = fours ? tern_gpu_first_fit(candidates, 5, p->caps) : candidates[4];
    return tern_gpu__add(p, op, pipeline, tern_gpu__max_rows(p, op->rows), 1, 1, err);
}

/* What the kernel reads as vectors of four floats: to the end of the last one, also where the value ends before. */
static void bind_vectors(const tern_gpu_program *p, tern_gpu_dispatch *d, tern_view view)
{
    const tern_value *v = &p->graph->values[view.value];
    uint64_t offset = (uint64_t)view.first_row * v->cols * 4;
    tern_gpu__bind(
        d, (tern_gpu_range){.value = view.value, .offset = offset, .bytes = (v->bytes + 15) / 16 * 16 - offset});
}

static tern_status lower_rms_norm(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_RMS_NORM_S16_256, TERN_GPU_RMS_NORM_S4_256,
                                                   TERN_GPU_RMS_NORM_256, TERN_GPU_RMS_NORM_128,
                                                   TERN_GPU_RMS_NORM_ANY_128};
    bool fours = in_fours(p, op->in[0]) && in_fours(p, op->out);
    uint32_t unit = fours ? 4 : 1;
    tern_gpu_dispatch *d = add_rowwise(p, op, candidates, fours, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu_words u = begin(p, op, op->in[0].cols);
    tern_gpu__put_view(&u, p, op->in[0], unit);
    tern_gpu__put_view(&u, p, op->out, unit);
    tern_gpu__put(&u, tern_gpu__float_bits(op->eps));
    tern_gpu__set_uniform(d, &u);
    tern_gpu__bind_params(p, d, false);
    bind_vectors(p, d, op->in[0]);
    bind_vectors(p, d, op->in[1]);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}

/* The rows of op->out: where they lie in its words. */
static void put_q8(tern_gpu_words *u, const tern_gpu_program *p, const tern_op *op)
{
    uint32_t cols = p->graph->values[op->out.value].cols, n = tern_gpu__max_rows(p, op->rows);
    tern_gpu__put(u, (uint32_t)(tern_q8_stride(cols) / 4));
    tern_gpu__put(u, (uint32_t)(tern_q8_scales_offset(cols, n) / 4));
    tern_gpu__put(u, (uint32_t)(tern_q8_sums_offset(cols, n) / 4));
}

/* QUANTIZE and NORM_QUANT. */
static tern_status lower_quantize(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline plain[] = {TERN_GPU_QUANTIZE_S16_256, TERN_GPU_QUANTIZE_S4_256,
                                              TERN_GPU_QUANTIZE_256, TERN_GPU_QUANTIZE_128, TERN_GPU_QUANTIZE_ANY_128};
    static const tern_gpu_pipeline with_norm[] = {TERN_GPU_NORM_QUANT_S16_256, TERN_GPU_NORM_QUANT_S4_256,
                                                  TERN_GPU_NORM_QUANT_256, TERN_GPU_NORM_QUANT_128,
                                                  TERN_GPU_NORM_QUANT_ANY_128};
    bool norm = op->kind == TERN_OP_NORM_QUANT, fours = in_fours(p, op->in[0]);
    if (op->in[0].cols > MAX_COLS_Q8)
        return tern_gpu__unsupported(p->graph, op, "rows of more than 131072 columns", err);
    tern_gpu_dispatch *d = add_rowwise(p, op, norm ? with_norm : plain, fours, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu_words u = begin(p, op, op->in[0].cols);
    tern_gpu__put_view(&u, p, op->in[0], fours ? 4 : 1);
    put_q8(&u, p, op);
    tern_gpu__put_float(&u, op->eps);
    tern_gpu__set_uniform(d, &u);
    tern_gpu__bind_params(p, d, false);
    bind_vectors(p, d, op->in[0]);
    if (norm) bind_vectors(p, d, op->in[1]);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind_value(p, d, op->out.value, true);
    return TERN_OK;
}

static tern_status lower_fake_quantize(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_FAKE_QUANTIZE_S16_256, TERN_GPU_FAKE_QUANTIZE_S4_256,
                                                   TERN_GPU_FAKE_QUANTIZE_256, TERN_GPU_FAKE_QUANTIZE_128,
                                                   TERN_GPU_FAKE_QUANTIZE_ANY_128};
    bool fours = in_fours(p, op->in[0]);
    tern_gpu_dispatch *d = add_rowwise(p, op, candidates, fours, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu_words u = begin(p, op, op->in[0].cols);
    tern_gpu__put_view(&u, p, op->in[0], fours ? 4 : 1);
    tern_gpu__put(&u, 0);
    tern_gpu__put_view(&u, p, op->out, 1);
    tern_gpu__put(&u, 0);
    tern_gpu__put(&u, tern_gpu__param_word(p, TERN_PARAM_TRAINING) + offsetof(tern_train_params, blend) / 4);
    tern_gpu__set_uniform(d, &u);
    tern_gpu__bind_params(p, d, false);
    bind_vectors(p, d, op->in[0]);
    tern_gpu__bind_nothing(d);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_rows(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    switch (op->kind) {
    case TERN_OP_RMS_NORM: return lower_rms_norm(p, op, err);
    case TERN_OP_QUANTIZE:
    case TERN_OP_NORM_QUANT: return lower_quantize(p, op, err);
    case TERN_OP_FAKE_QUANTIZE: return lower_fake_quantize(p, op, err);
    case TERN_OP_GATE: return lower_gate(p, op, err);
    case TERN_OP_ADD: return lower_add(p, op, err);
    case TERN_OP_GATHER: return lower_gather(p, op, err);
    default: return tern_gpu__unsupported(p->graph, op, "no kernel", err);
    }
}
