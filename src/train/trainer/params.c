/* How a run is set up: defaults, and what makes no sense. */
#include <math.h>
#include <string.h>

#include "base/show.h"
#include "train/trainer/internal.h"

enum { MAX_TOKENS = 1 << 24, DEFAULT_SEQ = 256 };

tern_trainer_params tern_trainer_defaults(void)
{
    return (tern_trainer_params){.batch = 1,
                                 .seq = 512,
                                 .accumulate = 1,
                                 .optimizer = TERN_OPTIMIZER_ADAMW,
                                 .lr = 1e-4,
                                 .beta1 = 0.9,
                                 .beta2 = 0.999,
                                 .eps = 1e-8,
                                 .decay = 0.01,
                                 .momentum = 0.9,
                                 .clip = 1.0,
                                 .schedule = TERN_SCHEDULE_COSINE,
                                 .n_steps = 1000,
                                 .master = TERN_DTYPE_F32,
                                 .m = TERN_DTYPE_F32,
                                 .v = TERN_DTYPE_F32,
                                 .sync_every = 1,
                                 .lora = {.alpha = 16},
                                 .seed = 1};
}

double tern_trainer_default_lr(const tern_config *config, bool lora)
{
    return (lora ? 5e-3 : 2e-3) * fmin(1, 256 / (double)config->n_embd);
}

uint64_t tern_trainer_default_warmup(uint64_t n_steps)
{
    return n_steps / 20 < 100 ? n_steps / 20 : 100;
}

uint32_t tern_trainer_default_seq(const tern_config *config)
{
    return config->n_ctx_train < DEFAULT_SEQ ? config->n_ctx_train : DEFAULT_SEQ;
}

float tern_trainer__blend(const tern_trainer *t, uint64_t step)
{
    uint64_t n = t->params.blend_steps;
    return step >= n ? 1.0f : (float)((double)step / (double)n);
}

static tern_status check_counts(const tern_trainer_params *p, tern_error *err)
{
    const struct {
        const char *name;
        uint32_t value;
    } counts[] = {{"batch", p->batch}, {"seq", p->seq}, {"accumulate", p->accumulate}, {"sync_every", p->sync_every}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].value == 0)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: 0 found, at least 1 expected", counts[i].name);
    if ((uint64_t)p->batch * p->seq > MAX_TOKENS || (uint64_t)p->batch * p->accumulate > UINT32_MAX)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "batch %u of seq %u: %llu positions found, at most %d expected",
                         p->batch, p->seq, (unsigned long long)p->batch * p->seq, MAX_TOKENS);
    return TERN_OK;
}

/* Gradients that are gone after a pass cannot be added up. */
static tern_status check_in_backward(const tern_trainer_params *p, tern_error *err)
{
    if (!p->optimizer_in_backward || p->accumulate == 1) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "accumulate %u with the optimiser in the backward: 1 expected (a larger batch)", p->accumulate);
}

static tern_status check_numbers(const tern_trainer_params *p, tern_error *err)
{
    const struct {
        const char *name;
        double value, most; /* at least 0; most itself is too much where it is 1 */
    } numbers[] = {{"learning rate", p->lr, INFINITY},
                   {"beta1", p->beta1, 1},
                   {"beta2", p->beta2, 1},
                   {"eps", p->eps, INFINITY},
                   {"weight decay", p->decay, INFINITY},
                   {"momentum", p->momentum, 1},
                   {"clip", p->clip, INFINITY},
                   {"threshold", (double)p->threshold, INFINITY},
                   {"clamp", (double)p->clamp, INFINITY},
                   {"dropout", (double)p->lora.dropout, 1}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(numbers[i].value >= 0 && numbers[i].value < numbers[i].most))
            return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: %g found, %s expected", numbers[i].name, numbers[i].value,
                             numbers[i].most < 2 ? "0 to less than 1" : "0 or more");
    if (p->clamp != 0 && p->clamp < 1)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "clamp: %g found, 1 or more (or 0: none) expected",
                         (double)p->clamp);
    return TERN_OK;
}

static tern_status check_dtypes(const tern_trainer_params *p, tern_error *err)
{
    bool m = p->m == TERN_DTYPE_F32 || p->m == TERN_DTYPE_BF16 || p->m == TERN_DTYPE_M8;
    bool v = p->v == TERN_DTYPE_F32 || p->v == TERN_DTYPE_BF16 || p->v == TERN_DTYPE_V8;
    if (p->master != TERN_DTYPE_F32 && p->master != TERN_DTYPE_BF16)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "master weights in dtype %d: f32 or bf16 expected",
                         (int)p->master);
    if (!m || !v)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "optimiser states in dtypes %d and %d: f32, bf16 or 8 bit expected", (int)p->m, (int)p->v);
    return TERN_OK;
}

static tern_status check_target(const char *word, tern_error *err)
{
    for (int role = 0; role < TERN_ROLE_COUNT; role++)
        if (tern_adapter_targets(word, (tern_role)role)) return TERN_OK;
    return tern_fail(
        err, TERN_INVALID_ARGUMENT,
        "LoRA target %s: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj or down_proj expected, or of layers "
        "that keep a state in_proj_qkv, in_proj_z, in_proj_b, in_proj_a, in_proj_ba or out_proj",
        tern_show_z(word).text);
}

static tern_status check_lora(const tern_trainer_lora *lora, const tern_config *config, tern_error *err)
{
    if (lora->start && tern_adapter_describe(lora->start)->n_layers != config->n_layers)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "LoRA: an adapter of %u layers found, of %u expected",
                         tern_adapter_describe(lora->start)->n_layers, config->n_layers);
    if (lora->start || lora->rank == 0) return TERN_OK;
    if (lora->rank > TERN_ADAPTER_MAX_RANK)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "LoRA rank: %u found, 1 to %d expected", lora->rank,
                         TERN_ADAPTER_MAX_RANK);
    if (!(isfinite(lora->alpha) && lora->alpha != 0))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "LoRA alpha: %g found, a finite number other than 0 expected",
                         (double)lora->alpha);
    for (size_t i = 0; i < lora->n_targets; i++) TERN_TRY(check_target(lora->targets[i], err));
    return TERN_OK;
}

tern_status tern_trainer__check_params(const tern_trainer_params *params, const tern_config *config, tern_error *err)
{
    TERN_TRY(check_counts(params, err));
    TERN_TRY(check_numbers(params, err));
    TERN_TRY(check_dtypes(params, err));
    TERN_TRY(check_in_backward(params, err));
    if (params->blend_steps && (params->lora.rank || params->lora.start))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "gradual quantisation over %llu steps with LoRA, which does not change the base: 0 expected",
                         (unsigned long long)params->blend_steps);
    return check_lora(&params->lora, config, err);
}
