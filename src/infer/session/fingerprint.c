/* Which model a session's keys and values are of: the shapes, a few bytes of every weight, the adapters. The order is
 * that of the files that there are, so that it is a list of its own; a test holds it against model/hyper.h. */
#include "base/half.h"
#include "infer/session/internal.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { SAMPLE_BYTES = TERN_WEIGHT_END_BYTES };

/* One step of FNV-1a with 32 bits in place of 8. */
static void mix(uint64_t *hash, uint32_t v)
{
    *hash = (*hash ^ v) * 0x100000001b3u;
}

static void mix_bytes(uint64_t *hash, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) mix(hash, bytes[i]);
}

static void mix_config(uint64_t *hash, const tern_config *c)
{
    const uint32_t dims[] = {c->n_vocab,
                             c->n_embd,
                             c->n_layers,
                             c->n_heads,
                             c->n_kv_heads,
                             c->head_dim,
                             c->n_ff,
                             c->sub_norms,
                             (uint32_t)c->activation,
                             c->rope_adjacent,
                             (uint32_t)c->rope[0].scaling,
                             c->rope[0].original_ctx};
    const float numbers[] = {c->rms_eps, c->rope[0].base, c->rope[0].factor, c->rope[0].low_freq_factor,
                             c->rope[0].high_freq_factor};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) mix(hash, dims[i]);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) mix(hash, tern_f32_bits(numbers[i]));
}

/* Members that few models have; of others the fingerprint is that of older files. */
static void mix_attention(uint64_t *hash, const tern_config *c)
{
    const tern_rope *second = &c->rope[1];
    const float numbers[] = {second->base,   second->factor,  second->low_freq_factor, second->high_freq_factor,
                             c->score_scale, c->score_softcap};
    if (!c->window && !(c->score_scale > 0) && !(c->score_softcap > 0)) return;
    mix(hash, c->window);
    mix(hash, c->full_period);
    mix(hash, (uint32_t)second->scaling);
    mix(hash, second->original_ctx);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) mix(hash, tern_f32_bits(numbers[i]));
}

/* Members of models whose layers differ. */
static void mix_layers(uint64_t *hash, const tern_config *c)
{
    for (uint32_t i = 0; c->layer_n_ff[0] && i < c->n_layers; i++) mix(hash, c->layer_n_ff[i]);
}

/* Members of families that came later, in the same way. */
static void mix_norms(uint64_t *hash, const tern_config *c)
{
    const uint32_t flags = (uint32_t)c->post_norms | (uint32_t)c->qk_norm << 1 | (uint32_t)c->qkv_bias << 2 |
                           (uint32_t)c->linear_norms << 3;
    if (!flags && !(c->embd_scale > 0) && !(c->logit_softcap > 0)) return;
    mix(hash, flags);
    mix(hash, tern_f32_bits(c->embd_scale));
    mix(hash, tern_f32_bits(c->logit_softcap));
}

/* Members of families after them. */
static void mix_factors(uint64_t *hash, const tern_config *c)
{
    const float numbers[] = {c->residual_scale, c->logit_scale, c->rope[0].size};
    if (!c->plain_period && !c->rope_dim && !(c->residual_scale > 0) && !(c->logit_scale > 0) && !(numbers[2] > 0))
        return;
    mix(hash, c->plain_period);
    mix(hash, c->rope_dim);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) mix(hash, tern_f32_bits(numbers[i]));
    for (uint32_t i = 0; numbers[2] > 0 && i < c->head_dim / 2; i++) {
        mix(hash, tern_f32_bits(c->long_factors[i]));
        mix(hash, tern_f32_bits(c->short_factors[i]));
    }
}

/* Members of mixtures of experts and their neighbours. */
static void mix_experts(uint64_t *hash, const tern_config *c)
{
    const tern_rope *rope = &c->rope[0];
    const bool yarn = rope->scaling == TERN_ROPE_YARN;
    if (yarn) {
        mix(hash, tern_f32_bits(rope->beta_fast));
        mix(hash, tern_f32_bits(rope->beta_slow));
        mix(hash, rope->truncate);
    }
    if (!c->n_experts) return;
    mix(hash, c->n_experts);
    mix(hash, c->n_experts_used);
    mix(hash, (uint32_t)c->route_rule);
    mix(hash, tern_f32_bits(c->ffn_limit));
}

/* Ternary layers have int8 inputs, others have not: what a file says of them counts where it says another thing. */
static void mix_inputs(uint64_t *hash, const tern_model *model)
{
    const tern_config *c = tern_model_config(model);
    const bool int8 = c->bit_linear;
    if (int8 != tern_model_weight(model, tern_config_first_linear(c), 0)->encoding->ternary) mix(hash, 1u + int8);
}

/* The first and the last bytes, and the scale. */
static void mix_weight(uint64_t *hash, const tern_weight *w)
{
    if (!w->encoding) return;
    const size_t bytes = w->whole_bytes ? w->whole_bytes : w->bytes, n = bytes < SAMPLE_BYTES ? bytes : SAMPLE_BYTES;
    const bool whole = w->data && !w->whole_bytes;
    mix_bytes(hash, whole ? w->data : w->ends, n);
    mix_bytes(hash, whole ? w->data + bytes - n : w->ends + TERN_WEIGHT_END_BYTES, n);
    mix(hash, tern_f32_bits(w->scale));
}

/* Those that the keys and values are made with, in their order. */
static void mix_loras(uint64_t *hash, const tern_runner_graphs *graphs)
{
    for (uint32_t i = 0; i < graphs->loras.n; i++) {
        uint64_t lora = tern_lora__fingerprint(graphs->loras.uses[i].lora);
        mix(hash, (uint32_t)lora);
        mix(hash, (uint32_t)(lora >> 32));
        mix(hash, tern_f32_bits(graphs->loras.uses[i].scale));
    }
}

uint64_t tern_session__fingerprint(const tern_runner *r)
{
    const tern_engine *engine = r->engine;
    uint64_t hash = 0xcbf29ce484222325u;
    const tern_config *c = tern_engine_config(engine);
    mix_config(&hash, c);
    mix_attention(&hash, c);
    mix_factors(&hash, c);
    mix_norms(&hash, c);
    mix_layers(&hash, c);
    mix_experts(&hash, c);
    mix_inputs(&hash, tern_engine_model(engine));
    mix(&hash, (tern_engine_f32_activations(engine) ? 1u : 0u) | (tern_engine_rounds_blocks(engine) ? 2u : 0u) |
                   (tern_engine_half_rows(engine) ? 4u : 0u));
    for (uint32_t layer = 0; layer < c->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++)
            mix_weight(&hash, tern_model_weight(tern_engine_model(engine), (tern_role)role, layer));
    mix_loras(&hash, r->graphs);
    return hash;
}
