/* Lowering the sampler: the best of each slice of the vocabulary, then one workgroup that chooses. */
#include <string.h>

#include "backend/gpu/gpu.h"

/* As in sample_*.wgsl: a slice's list has FRONT entries of two words. */
enum { SLICE_IDS = 256, MAX_SLICES = 1024, FRONT_BYTES = 4 * 8 };

static uint32_t slices_of(uint32_t n_vocab)
{
    uint32_t n = (n_vocab + SLICE_IDS - 1) / SLICE_IDS;
    return n < MAX_SLICES ? n : MAX_SLICES;
}

/* What the two have in common: the uniform, and the bindings but for the tokens. The one that reads the slices writes
 * parameters. */
static tern_gpu_dispatch *add(tern_gpu_program *p, const tern_op *op, const tern_gpu_pipeline candidates[4],
                              uint32_t n_groups, tern_gpu_range slices, tern_error *err)
{
    uint32_t n_vocab = op->in[0].cols;
    tern_gpu_dispatch *d = tern_gpu__add(p, op, tern_gpu_first_fit(candidates, 4, p->caps), n_groups, 1, 1, err);
    if (!d) return NULL;
    uint32_t uniform[] = {n_vocab,
                          slices_of(n_vocab),
                          tern_gpu__param_word(p, TERN_PARAM_COUNTS),
                          tern_gpu__param_word(p, TERN_PARAM_SAMPLER),
                          tern_gpu__param_word(p, TERN_PARAM_IDS),
                          tern_gpu__param_word(p, TERN_PARAM_POSITIONS)};
    memcpy(d->uniform, uniform, sizeof uniform);
    tern_gpu__bind_params(p, d, !slices.written);
    tern_gpu__bind_value(p, d, op->in[0].value, false);
    tern_gpu__bind(d, slices);
    return d;
}

tern_status tern_gpu__lower_sample(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline first[] = {TERN_GPU_SAMPLE_SLICES_S16_256, TERN_GPU_SAMPLE_SLICES_S4_256,
                                              TERN_GPU_SAMPLE_SLICES_256, TERN_GPU_SAMPLE_SLICES_128};
    static const tern_gpu_pipeline second[] = {TERN_GPU_SAMPLE_CHOOSE_S16_256, TERN_GPU_SAMPLE_CHOOSE_S4_256,
                                               TERN_GPU_SAMPLE_CHOOSE_256, TERN_GPU_SAMPLE_CHOOSE_128};
    uint32_t n_slices = slices_of(op->in[0].cols);
    tern_gpu_range slices = {.value = TERN_GPU_SCRATCH, .bytes = (uint64_t)n_slices * FRONT_BYTES, .written = true};
    slices.offset = tern_gpu__scratch(p, slices.bytes);
    tern_gpu_dispatch *d = add(p, op, first, n_slices, slices, err);
    if (!d) return TERN_UNSUPPORTED;
    slices.written = false;
    d = add(p, op, second, 1, slices, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu__bind_value(p, d, op->out.value, true);
    return TERN_OK;
}
