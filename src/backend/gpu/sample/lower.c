/* Lowering the sampler: the best of each slice of the vocabulary, then one workgroup that chooses. */
#include "backend/gpu/gpu_internal.h"

/* A slice's list has FRONT entries of a key and an id. */
enum { ROW_WORDS = sizeof(tern_sample_row) / 4 };
enum { SLICE_IDS = 256, FRONT_BYTES = TERN_GPU_SAMPLE_SLICES_CONST_FRONT * 8 };

static uint32_t slices_of(uint32_t n_vocab)
{
    const uint32_t n = (n_vocab + SLICE_IDS - 1) / SLICE_IDS, most = TERN_GPU_SAMPLE_CHOOSE_CONST_MAX_SLICES;
    return n < most ? n : most;
}

static uint32_t rows_of(const tern_gpu_program *p, const tern_op *op)
{
    return op->each_row ? tern_gpu__max_rows(p, op->rows) : 1;
}

static tern_status add_slices(tern_gpu_program *p, const tern_op *op, tern_gpu_range slices, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_SAMPLE_SLICES_S16_256, TERN_GPU_SAMPLE_SLICES_S4_256,
                                                   TERN_GPU_SAMPLE_SLICES_256, TERN_GPU_SAMPLE_SLICES_128};
    const tern_view logits = op->in[TERN_SAMPLE_LOGITS];
    const uint32_t n_slices = slices_of(logits.cols);
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, tern_gpu_first_fit(candidates, 4, p->caps), n_slices, rows_of(p, op), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_sample_slices_uniform u = {.n_vocab = logits.cols,
                                              .n_slices = n_slices,
                                              .counts_word = tern_gpu__param_word(p, TERN_PARAM_COUNTS),
                                              .sampler_word = tern_gpu__param_word(p, TERN_PARAM_SAMPLER),
                                              .row_words = op->each_row ? ROW_WORDS : 0};
    tern_gpu_sample_slices_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_value(p, d, logits.value, false);
    slices.written = true;
    tern_gpu__bind(d, slices);
    return TERN_OK;
}

static tern_status add_choose(tern_gpu_program *p, const tern_op *op, tern_gpu_range slices, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_SAMPLE_CHOOSE_S16_256, TERN_GPU_SAMPLE_CHOOSE_S4_256,
                                                   TERN_GPU_SAMPLE_CHOOSE_256, TERN_GPU_SAMPLE_CHOOSE_128};
    const tern_view logits = op->in[TERN_SAMPLE_LOGITS];
    tern_gpu_dispatch *d = tern_gpu__add(p, op, tern_gpu_first_fit(candidates, 4, p->caps), 1, rows_of(p, op), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_sample_choose_uniform u = {.n_vocab = logits.cols,
                                              .n_slices = slices_of(logits.cols),
                                              .counts_word = tern_gpu__param_word(p, TERN_PARAM_COUNTS),
                                              .sampler_word = tern_gpu__param_word(p, TERN_PARAM_SAMPLER),
                                              .ids_word = tern_gpu__param_word(p, TERN_PARAM_IDS),
                                              .positions_word = tern_gpu__param_word(p, TERN_PARAM_POSITIONS),
                                              .row_words = op->each_row ? ROW_WORDS : 0};
    tern_gpu_sample_choose_set(d, &u);
    tern_gpu__bind_params(p, d, true);
    tern_gpu__bind_value(p, d, logits.value, false);
    tern_gpu__bind(d, slices);
    tern_gpu__bind_value(p, d, op->out.value, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_sample(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const uint64_t bytes = (uint64_t)slices_of(op->in[TERN_SAMPLE_LOGITS].cols) * FRONT_BYTES * rows_of(p, op);
    const tern_gpu_range slices = {.value = TERN_GPU_SCRATCH, .offset = tern_gpu__scratch(p, bytes), .bytes = bytes};
    TERN_TRY(add_slices(p, op, slices, err));
    return add_choose(p, op, slices, err);
}
