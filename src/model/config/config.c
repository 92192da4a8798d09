/* Checks that any configuration must pass, whatever file it came from. */
#include <math.h>
#include <string.h>

#include "model/model_internal.h"

void tern_config__set_name(tern_config *config, tern_span name)
{
    size_t n = name.size < sizeof config->name ? name.size : sizeof config->name - 1;
    if (n < name.size)
        while (n > 0 && (name.data[n] & 0xc0) == 0x80) n--;
    for (size_t i = 0; i < n; i++)
        config->name[i] = (char)(name.data[i] < 0x20 || name.data[i] == 0x7f ? '?' : name.data[i]);
    config->name[n] = 0;
}

void tern_config__set_feed_forward(tern_config *config, const uint32_t *each)
{
    bool differ = false;
    config->n_ff = 0;
    for (uint32_t i = 0; i < config->n_layers; i++) {
        differ |= each[i] != each[0];
        if (each[i] > config->n_ff) config->n_ff = each[i];
    }
    if (differ) memcpy(config->layer_n_ff, each, config->n_layers * sizeof *each);
}

bool tern_config__set_full_layers(tern_config *config, const bool *full, uint32_t *odd)
{
    uint32_t period = 0, n_full = 0;
    for (uint32_t i = 0; i < config->n_layers; i++) {
        n_full += full[i];
        if (full[i] && !period) period = i + 1;
    }
    config->full_period = period;
    for (*odd = 0; *odd < config->n_layers; ++*odd)
        if (full[*odd] != (period && (*odd + 1) % period == 0)) return false;
    if (n_full == config->n_layers) config->window = 0;
    return true;
}

static tern_status check_range(const char *what, uint32_t value, uint32_t most, tern_error *err)
{
    if (value >= 1 && value <= most) return TERN_OK;
    return tern_fail(err, TERN_LIMIT, "%s: %u found, 1 to %u expected", what, value, most);
}

static tern_status check_ranges(const tern_config *c, tern_error *err)
{
    TERN_TRY(check_range("vocabulary", c->n_vocab, TERN_MODEL__MAX_VOCAB, err));
    TERN_TRY(check_range("embedding length", c->n_embd, TERN_MODEL__MAX_DIM, err));
    TERN_TRY(check_range("layers", c->n_layers, TERN_MAX_LAYERS, err));
    TERN_TRY(check_range("attention heads", c->n_heads, TERN_MODEL__MAX_DIM, err));
    TERN_TRY(check_range("KV heads", c->n_kv_heads, TERN_MODEL__MAX_DIM, err));
    TERN_TRY(check_range("head dimension", c->head_dim, TERN_MODEL__MAX_HEAD_DIM, err));
    TERN_TRY(check_range("feed-forward length", c->n_ff, TERN_MODEL__MAX_DIM, err));
    for (uint32_t i = 0; c->layer_n_ff[0] && i < c->n_layers; i++)
        TERN_TRY(check_range("feed-forward length of a layer", c->layer_n_ff[i], TERN_MODEL__MAX_DIM, err));
    TERN_TRY(check_range("context length", c->n_ctx_train, TERN_MODEL__MAX_CTX, err));
    uint64_t width = (uint64_t)c->n_heads * c->head_dim;
    if (width > TERN_MODEL__MAX_DIM)
        return tern_fail(err, TERN_LIMIT, "attention: %u heads of %u found, at most %d elements in all expected",
                         c->n_heads, c->head_dim, TERN_MODEL__MAX_DIM);
    return TERN_OK;
}

/* Bases near 1 make every wave as long as the next. */
static tern_status check_yarn(const tern_rope *r, tern_error *err)
{
    if (!(r->beta_slow > 0.0f && r->beta_fast > r->beta_slow && isfinite(r->beta_fast)))
        return tern_fail(err, TERN_MALFORMED, "YaRN: beta_fast %g and beta_slow %g found, 0 < slow < fast expected",
                         (double)r->beta_fast, (double)r->beta_slow);
    if (!(r->base > 1.0f))
        return tern_fail(err, TERN_MALFORMED, "RoPE base: %g found, more than 1 expected of YaRN", (double)r->base);
    return check_range("RoPE original context length", r->original_ctx, TERN_MODEL__MAX_CTX, err);
}

static tern_status check_rope(const tern_rope *r, tern_error *err)
{
    if (!(r->base >= 1.0f && isfinite(r->base)))
        return tern_fail(err, TERN_MALFORMED, "RoPE base: %g found, at least 1 expected", (double)r->base);
    if (r->scaling == TERN_ROPE_PLAIN) return TERN_OK;
    if ((r->scaling == TERN_ROPE_LONG || r->scaling == TERN_ROPE_YARN) && !(r->size > 0.0f && isfinite(r->size)))
        return tern_fail(err, TERN_MALFORMED, "RoPE attention factor: %g found, a positive number expected",
                         (double)r->size);
    if (r->scaling == TERN_ROPE_LONG)
        return check_range("RoPE original context length", r->original_ctx, TERN_MODEL__MAX_CTX, err);
    if (!(r->factor >= 1.0f && isfinite(r->factor)))
        return tern_fail(err, TERN_MALFORMED, "RoPE scaling factor: %g found, at least 1 expected", (double)r->factor);
    if (r->scaling == TERN_ROPE_LINEAR) return TERN_OK;
    if (r->scaling == TERN_ROPE_YARN) return check_yarn(r, err);
    float low = r->low_freq_factor, high = r->high_freq_factor;
    if (!(low > 0.0f && high > low && isfinite(high)))
        return tern_fail(err, TERN_MALFORMED,
                         "RoPE frequency factors: low %g and high %g found, 0 < low < high expected", (double)low,
                         (double)high);
    return check_range("RoPE original context length", r->original_ctx, TERN_MODEL__MAX_CTX, err);
}

static tern_status check_experts(const tern_config *c, tern_error *err)
{
    if (!c->n_experts) return TERN_OK;
    const uint32_t most = c->n_experts < TERN_MAX_ROUTES ? c->n_experts : TERN_MAX_ROUTES;
    TERN_TRY(check_range("experts", c->n_experts, TERN_MAX_EXPERTS, err));
    TERN_TRY(check_range("experts of a token", c->n_experts_used, most, err));
    if (c->sub_norms || c->linear_norms)
        return tern_fail(err, TERN_UNSUPPORTED, "experts: %u found in a model with %s, none expected", c->n_experts,
                         c->sub_norms ? "sub-norms" : "norms before its linear layers");
    if (c->activation < TERN_ACT_SWIGLU_OAI || (c->ffn_limit > 0.0f && isfinite(c->ffn_limit))) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "SwiGLU limit: %g found, a positive number expected", (double)c->ffn_limit);
}

static tern_status check_scores(const tern_config *c, tern_error *err)
{
    const struct {
        const char *what;
        float value;
    } numbers[] = {{"attention scale", c->score_scale},      {"soft cap of attention", c->score_softcap},
                   {"soft cap of logits", c->logit_softcap}, {"embedding scale", c->embd_scale},
                   {"residual scale", c->residual_scale},    {"logit scale", c->logit_scale}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(numbers[i].value >= 0.0f && isfinite(numbers[i].value)))
            return tern_fail(err, TERN_MALFORMED, "%s: %g found, a positive number or 0 expected", numbers[i].what,
                             (double)numbers[i].value);
    return TERN_OK;
}

tern_status tern_config__check(const tern_config *config, tern_error *err)
{
    const tern_config *c = config;
    TERN_TRY(check_ranges(c, err));
    if (c->head_dim % 4 != 0)
        return tern_fail(err, TERN_UNSUPPORTED, "head dimension: %u found, a multiple of 4 expected", c->head_dim);
    if (c->rope_dim % 4 != 0 || c->rope_dim > c->head_dim)
        return tern_fail(err, TERN_UNSUPPORTED, "RoPE: %u dimensions of a head found, a multiple of 4 of %u expected",
                         c->rope_dim, c->head_dim);
    if (c->n_heads % c->n_kv_heads != 0)
        return tern_fail(err, TERN_MALFORMED, "attention: %u heads and %u KV heads found, a whole ratio expected",
                         c->n_heads, c->n_kv_heads);
    if (!(c->rms_eps > 0.0f && c->rms_eps < 1.0f))
        return tern_fail(err, TERN_MALFORMED, "RMS norm epsilon: %g found, more than 0 and less than 1 expected",
                         (double)c->rms_eps);
    TERN_TRY(check_experts(c, err));
    TERN_TRY(tern_config__check_recurrence(c, err));
    TERN_TRY(check_scores(c, err));
    TERN_TRY(check_rope(&c->rope[0], err));
    if (c->rope[1].base == 0) return TERN_OK;
    return check_rope(&c->rope[1], err) == TERN_OK ? TERN_OK : tern_error_prefix(err, "layers with a window");
}
