/* Made-up inputs for trying the ops of training: states, documents, labels, factors. */
#include <math.h>

#include "base/half.h"
#include "graph/trial/trial_internal.h"
#include "ops/ref/update.h"

/* A second moment is not below 0. */
static float element(tern_trial *t, const tern_value *v)
{
    float x = tern_trial__number(t);
    return v->state == TERN_STATE_V ? x * x : x;
}

static void fill_blocks(tern_trial *t, const tern_value *v, uint8_t *to, uint64_t n)
{
    uint64_t padded = (n + TERN_STATE_BLOCK - 1) / TERN_STATE_BLOCK * TERN_STATE_BLOCK;
    float *scales = (float *)(void *)(to + padded), block[TERN_STATE_BLOCK];
    uint32_t random[TERN_STATE_BLOCK];
    for (uint64_t at = 0; at < n; at += TERN_STATE_BLOCK) {
        size_t length = n - at < TERN_STATE_BLOCK ? (size_t)(n - at) : TERN_STATE_BLOCK;
        for (size_t i = 0; i < length; i++) {
            block[i] = element(t, v);
            random[i] = tern_rng_below(&t->rng, UINT32_MAX);
        }
        if (v->dtype == TERN_DTYPE_M8) tern_ref_state_pack(block, length, (int8_t *)to + at, scales++);
        else tern_ref_square_pack(block, length, random, to + at, scales++);
    }
}

void tern_trial__state(tern_trial *t, const tern_value *v, uint8_t *to)
{
    uint64_t n = (uint64_t)v->n_rows * v->cols;
    switch (v->dtype) {
    case TERN_DTYPE_M8:
    case TERN_DTYPE_V8: fill_blocks(t, v, to, n); break;
    case TERN_DTYPE_BF16:
        for (uint64_t i = 0; i < n; i++) ((uint16_t *)(void *)to)[i] = tern_f32_to_bf16(element(t, v));
        break;
    default:
        for (uint64_t i = 0; i < n; i++) ((float *)(void *)to)[i] = element(t, v);
    }
}

/* Sums of exponentials, the second half of the statistics, are not below 1. */
static void fill_statistics(tern_trial *t)
{
    if (t->op.kind != TERN_OP_VARLEN_ATTENTION_BACKWARD) return;
    const tern_view view = t->op.in[TERN_VARLEN_ATTENTION_STATISTICS];
    uint32_t cols = t->values[view.value].cols;
    float *x = (float *)(void *)t->contents[view.value];
    for (uint32_t r = 0; r < t->n_tokens; r++)
        for (uint32_t h = 0; h < t->op.n_heads; h++)
            x[r * cols + view.first_col + t->op.n_heads + h] = 1 + 4 * fabsf(tern_trial__number(t));
}

/* Two documents; some labels are masked. */
static void fill_rows(tern_trial *t, uint32_t *starts, int32_t *labels)
{
    uint32_t n_labels = t->op.kind == TERN_OP_CROSS_ENTROPY ? t->op.in[TERN_CROSS_ENTROPY_LOGITS].cols : 1;
    for (uint32_t i = 0; i < t->n_tokens; i++) {
        starts[i] = i < t->n_tokens / 3 ? 0 : t->n_tokens / 3;
        labels[i] = i % 4 == 1 ? -100 : (int32_t)tern_rng_below(&t->rng, n_labels);
    }
}

void tern_trial__training(tern_trial *t)
{
    uint32_t *starts = tern_trial__param(t, TERN_PARAM_SEQ_STARTS);
    int32_t *labels = (int32_t *)(void *)tern_trial__param(t, TERN_PARAM_LABELS);
    tern_train_params *training = (tern_train_params *)(void *)tern_trial__param(t, TERN_PARAM_TRAINING);
    fill_statistics(t);
    if (starts && labels) fill_rows(t, starts, labels);
    if (!training) return;
    *training = (tern_train_params){.loss_weight = 0.1f,
                                    .blend = 0.5f,
                                    .next_blend = 0.5f,
                                    .seed = 7,
                                    .dropout_seed = 7,
                                    .clip = 0.5f,
                                    .keep = 0.99f,
                                    .blend1 = 0.1f,
                                    .beta2 = 0.95f,
                                    .blend2 = 0.05f,
                                    .root = 0.3f,
                                    .eps = 1e-8f,
                                    .pace = 1e-2f,
                                    .lr = 1e-2f,
                                    .momentum = 0.9f,
                                    .decay = 0.01f};
}
