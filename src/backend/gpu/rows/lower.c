/* Lowering the ops on rows: quantisers, gate, sum, gather. */
#include "backend/gpu/rows/rows_internal.h"

enum { MAX_COLS_Q8 = 131072 }; /* a row's sum of int8 stays exact in f32 */

tern_status tern_gpu__lower_gate(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[][2] = {
        [TERN_ACT_RELU2] = {TERN_GPU_RELU2_256, TERN_GPU_RELU2_128},
        [TERN_ACT_SILU] = {TERN_GPU_SILU_256, TERN_GPU_SILU_128},
        [TERN_ACT_GELU] = {TERN_GPU_GELU_256, TERN_GPU_GELU_128},
        [TERN_ACT_SWIGLU_OAI] = {TERN_GPU_SWIGLU_OAI_256, TERN_GPU_SWIGLU_OAI_128},
        [TERN_ACT_SWIGLU_CLAMPED] = {TERN_GPU_SWIGLU_CLAMPED_256, TERN_GPU_SWIGLU_CLAMPED_128},
        [TERN_ACT_SIGMOID] = {TERN_GPU_SIGMOID_256, TERN_GPU_SIGMOID_128}};
    const tern_view gate = op->in[TERN_GATE_GATE], up = op->in[TERN_GATE_UP];
    const bool joined = gate.value == up.value && gate.first_row == up.first_row; /* one buffer is bound once */
    tern_gpu_dispatch *d = tern_gpu__add_elementwise(p, op, candidates[op->activation], err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_gate_uniform u = {.cols = op->out.cols,
                                     .count_word = tern_gpu__count_word(p, op->rows),
                                     .gate_first = gate.first_col,
                                     .gate_stride = tern_gpu__stride(p, gate),
                                     .up_first = up.first_col,
                                     .up_stride = tern_gpu__stride(p, up),
                                     .y_first = op->out.first_col,
                                     .y_stride = tern_gpu__stride(p, op->out),
                                     .token_rows = tern_gpu__token_rows(p, op->rows),
                                     .limit = op->limit,
                                     .joined = joined,
                                     .gate_step = gate.cols == op->out.cols};
    tern_gpu_gate_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, gate, false);
    if (joined) tern_gpu__bind_nothing(d);
    else tern_gpu__bind_view(p, d, up, false);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_add(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[][2] = {{TERN_GPU_ADD_256, TERN_GPU_ADD_128},
                                                      {TERN_GPU_ADD_IN_PLACE_256, TERN_GPU_ADD_IN_PLACE_128}};
    const tern_view a = op->in[TERN_ADD_A], b = op->in[TERN_ADD_B];
    const bool in_place = op->group && a.value == op->out.value; /* one buffer is bound once */
    tern_gpu_dispatch *d = tern_gpu__add_elementwise(p, op, candidates[in_place], err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_add_uniform u = {.cols = op->out.cols,
                                    .count_word = tern_gpu__group_count_word(p, op),
                                    .a_first = a.first_col,
                                    .a_stride = tern_gpu__stride(p, a),
                                    .b_first = b.first_col,
                                    .b_stride = tern_gpu__stride(p, b),
                                    .out_first = op->out.first_col,
                                    .out_stride = tern_gpu__stride(p, op->out),
                                    .token_rows = tern_gpu__token_rows(p, op->rows),
                                    .first_word = tern_gpu__group_first_word(p, op)};
    tern_gpu_add_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    if (in_place) tern_gpu__bind_nothing(d);
    else tern_gpu__bind_view(p, d, a, false);
    tern_gpu__bind_view(p, d, b, false);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_gather(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_GATHER_256, TERN_GPU_GATHER_128};
    const tern_view x = op->in[TERN_GATHER_X];
    tern_gpu_dispatch *d = tern_gpu__add_elementwise(p, op, candidates, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_gather_uniform u = {.cols = op->out.cols,
                                       .count_word = tern_gpu__count_word(p, op->rows),
                                       .outputs_word = tern_gpu__param_word(p, TERN_PARAM_OUTPUTS),
                                       .x_first = x.first_col,
                                       .x_stride = tern_gpu__stride(p, x),
                                       .y_first = op->out.first_col,
                                       .y_stride = tern_gpu__stride(p, op->out)};
    tern_gpu_gather_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, x, false);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}

/* QUANTIZE and NORM_QUANT. */
tern_status tern_gpu__lower_quantize(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline plain[] = {TERN_GPU_QUANTIZE_S16_256, TERN_GPU_QUANTIZE_S4_256,
                                              TERN_GPU_QUANTIZE_256, TERN_GPU_QUANTIZE_128, TERN_GPU_QUANTIZE_ANY_128};
    static const tern_gpu_pipeline with_norm[] = {TERN_GPU_NORM_QUANT_S16_256, TERN_GPU_NORM_QUANT_S4_256,
                                                  TERN_GPU_NORM_QUANT_256, TERN_GPU_NORM_QUANT_128,
                                                  TERN_GPU_NORM_QUANT_ANY_128};
    const bool norm = op->kind == TERN_OP_NORM_QUANT;
    const tern_view x = op->in[norm ? TERN_NORM_X : TERN_QUANTIZE_X];
    const bool fours = tern_gpu__in_fours(p, x);
    const uint32_t unit = fours ? 4 : 1, cols = tern_gpu__stride(p, op->out), n = tern_gpu__max_rows(p, op->rows);
    if (x.cols > MAX_COLS_Q8) return tern_gpu__unsupported(p->graph, op, "rows of more than 131072 columns", err);
    tern_gpu_dispatch *d = tern_gpu__add_rowwise(p, op, norm ? with_norm : plain, fours, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_quantize_uniform u = {.cols = x.cols,
                                         .count_word = tern_gpu__count_word(p, op->rows),
                                         .x_first = x.first_col / unit,
                                         .x_stride = tern_gpu__stride(p, x) / unit,
                                         .row_words = (uint32_t)(tern_q8_stride(cols) / 4),
                                         .scales_word = (uint32_t)(tern_q8_scales_offset(cols, n) / 4),
                                         .sums_word = (uint32_t)(tern_q8_sums_offset(cols, n) / 4),
                                         .eps = op->eps,
                                         .token_rows = tern_gpu__token_rows(p, op->rows)};
    tern_gpu_quantize_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_vectors(p, d, x);
    if (norm) tern_gpu__bind_vectors(p, d, op->in[TERN_NORM_WEIGHT]);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind_value(p, d, op->out.value, true);
    return TERN_OK;
}

/* The kernel of QUANTIZE, whose out is f32 rows here: where they start and how far they lie apart stand for the Q8
 * rows' words and scales. */
tern_status tern_gpu__lower_fake_quantize(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_FAKE_QUANTIZE_S16_256, TERN_GPU_FAKE_QUANTIZE_S4_256,
                                                   TERN_GPU_FAKE_QUANTIZE_256, TERN_GPU_FAKE_QUANTIZE_128,
                                                   TERN_GPU_FAKE_QUANTIZE_ANY_128};
    const tern_view x = op->in[TERN_FAKE_QUANTIZE_X];
    const bool fours = tern_gpu__in_fours(p, x);
    const uint32_t unit = fours ? 4 : 1;
    tern_gpu_dispatch *d = tern_gpu__add_rowwise(p, op, candidates, fours, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_quantize_uniform u = {.cols = x.cols,
                                         .count_word = tern_gpu__count_word(p, op->rows),
                                         .x_first = x.first_col / unit,
                                         .x_stride = tern_gpu__stride(p, x) / unit,
                                         .scales_word = op->out.first_col,
                                         .sums_word = tern_gpu__stride(p, op->out),
                                         .blend_word = tern_gpu__param_word(p, TERN_PARAM_TRAINING) +
                                                       offsetof(tern_train_params, blend) / 4,
                                         .token_rows = tern_gpu__token_rows(p, op->rows)};
    tern_gpu_quantize_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_vectors(p, d, x);
    tern_gpu__bind_nothing(d);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}
