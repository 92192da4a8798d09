/* Members of requests that choose how tokens are drawn, and those of llama.cpp's and vLLM's servers that change nothing
 * at the values that their clients send. */
#include <string.h>

#include "base/show.h"
#include "format/json.h"
#include "serve/request/request.h"

#define AT(member) offsetof(tern_api_request, member)

/* -1, or another number below 0: no limit, which is `none`. */
static tern_status read_limit(const char *name, const json_t *value, int64_t least, uint32_t none, uint32_t *out,
                              tern_error *err)
{
    int64_t n;
    char what[64];
    snprintf(what, sizeof what, "a whole number from %d to 16777216, or -1", (int)least);
    if (!tern_json_int(value, &n) || n > 1 << 24 || (n >= 0 && n < least))
        return tern_fields_fail(name, value, what, err);
    *out = n < 0 ? none : (uint32_t)n;
    return TERN_OK;
}

tern_status tern_api_request_read_top_k(void *into, const json_t *value, tern_error *err)
{
    return read_limit("top_k", value, 0, 0, &((tern_api_request *)into)->sampler.top_k, err);
}

tern_status tern_api_request_read_last_n(void *into, const json_t *value, tern_error *err)
{
    return read_limit("repeat_last_n", value, 0, 1 << 24, &((tern_api_request *)into)->sampler.penalty_last_n, err);
}

tern_status tern_api_request_read_max_tokens(void *into, const json_t *value, tern_error *err)
{
    return read_limit("max_tokens", value, 1, 0, &((tern_api_request *)into)->max_tokens, err);
}

static tern_status read_dry_last_n(void *into, const json_t *value, tern_error *err)
{
    return read_limit("dry_penalty_last_n", value, 0, UINT32_MAX, &((tern_api_request *)into)->chain.dry_last_n, err);
}

static tern_status read_mirostat(void *into, const json_t *value, tern_error *err)
{
    int64_t version;
    if (!tern_json_int(value, &version) || (version != 0 && version != 2))
        return tern_fields_fail("mirostat", value, "0 or 2", err);
    ((tern_api_request *)into)->mirostat = version == 2;
    return TERN_OK;
}

static tern_status add_step(tern_api_request *request, const char *name, size_t n, tern_error *err)
{
    if (request->chain.n_order == TERN_SAMPLER_STEPS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "samplers: at most %d expected", TERN_SAMPLER_STEPS);
    if (tern_sampler_step_parse(name, n, &request->order[request->chain.n_order++], err) == TERN_OK) return TERN_OK;
    return tern_error_prefix(err, "samplers");
}

/* llama.cpp's letters for steps, as in "edskypmxt". */
static tern_status read_letters(tern_api_request *request, const json_t *value, tern_error *err)
{
    static const char letters[] = "edstkypmxi"; /* in the order of the enum */
    for (const char *at = json_string_value(value); *at; at++) {
        const char *found = strchr(letters, *at);
        const char *name = found ? tern_choice_word(TERN_CHOICE_SAMPLER_STEP, (uint32_t)(found - letters)) : NULL;
        if (!name) return tern_fields_fail("samplers", value, "letters of \"edskypmxti\"", err);
        TERN_TRY(add_step(request, name, strlen(name), err));
    }
    return TERN_OK;
}

static tern_status read_samplers(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    if (json_string_length(value)) TERN_TRY(read_letters(request, value, err));
    else if (!json_is_array(value)) return tern_fields_fail("samplers", value, "a list of names", err);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *name = json_array_get(value, i);
        if (!json_is_string(name)) return tern_fields_fail("samplers", name, "names", err);
        TERN_TRY(add_step(request, json_string_value(name), json_string_length(name), err));
    }
    request->chain.order = request->order;
    request->no_steps = request->chain.n_order == 0;
    return TERN_OK;
}

static tern_status read_breakers(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    const size_t n = json_array_size(value);
    if (!json_is_array(value) || n > TERN_SAMPLER_MAX_BREAKERS)
        return tern_fields_fail("dry_sequence_breakers", value, "a list of at most 32 texts", err);
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_array_get(value, i);
        if (!json_is_string(text) || strlen(json_string_value(text)) != json_string_length(text))
            return tern_fields_fail("dry_sequence_breakers", text, "a text without NUL", err);
        request->breakers[i] = json_string_value(text);
    }
    request->chain.dry_breakers = request->breakers;
    request->chain.n_dry_breakers = (uint32_t)n;
    return TERN_OK;
}

const tern_field tern_api_mirostat[] = {
    {"mirostat", TERN_FIELD_READ, .read = read_mirostat},
    {"mirostat_tau", TERN_FIELD_F32, AT(chain.mirostat_tau), 0.001, 1000},
    {"mirostat_eta", TERN_FIELD_F32, AT(chain.mirostat_eta), 0.001, 1000},
    {0},
};

const tern_field tern_api_samplers[] = {
    {"samplers", TERN_FIELD_READ, .read = read_samplers},
    {"top_n_sigma", TERN_FIELD_F32, AT(chain.top_n_sigma), -1, 1e6},
    {"dynatemp_range", TERN_FIELD_F32, AT(chain.dynatemp_range), 0, 100},
    {"dynatemp_exponent", TERN_FIELD_F32, AT(chain.dynatemp_exponent), 0.001, 1000},
    {"xtc_probability", TERN_FIELD_F32, AT(chain.xtc_probability), 0, 1},
    {"xtc_threshold", TERN_FIELD_F32, AT(chain.xtc_threshold), 0.0001, 1},
    {"dry_multiplier", TERN_FIELD_F32, AT(chain.dry_multiplier), 0, 1000},
    {"dry_base", TERN_FIELD_F32, AT(chain.dry_base), 1, 1000},
    {"dry_allowed_length", TERN_FIELD_U32, AT(chain.dry_allowed_length), 1, 1 << 24},
    {"dry_penalty_last_n", TERN_FIELD_READ, .read = read_dry_last_n},
    {"dry_sequence_breakers", TERN_FIELD_READ, .read = read_breakers},
    {"repeat_penalty", TERN_FIELD_F32, AT(sampler.repetition_penalty), 0.01, 100},
    {"repeat_last_n", TERN_FIELD_READ, .read = tern_api_request_read_last_n},
    /* llama.cpp's */
    {"cache_prompt", TERN_FIELD_IGNORED}, /* what is known is used; the answer is the same */
    {"id_slot", TERN_FIELD_IGNORED},
    {"slot_id", TERN_FIELD_IGNORED},
    {"n_keep", TERN_FIELD_IGNORED}, /* contexts are not shifted */
    {"n_discard", TERN_FIELD_IGNORED},
    {"n_cache_reuse", TERN_FIELD_IGNORED},
    {"return_tokens", TERN_FIELD_IGNORED},
    {"timings_per_token", TERN_FIELD_IGNORED},
    {"backend_sampling", TERN_FIELD_IGNORED},
    {"penalize_nl", TERN_FIELD_REFUSED},
    {"tfs_z", TERN_FIELD_REFUSED, .min = 1, .max = 1},
    {"min_keep", TERN_FIELD_REFUSED},
    {"n_probs", TERN_FIELD_REFUSED, .why = "logprobs asks for them here"},
    {"n_indent", TERN_FIELD_REFUSED},
    {"t_max_predict_ms", TERN_FIELD_REFUSED, .min = -1},
    {"t_max_prompt_ms", TERN_FIELD_IGNORED}, /* llama.cpp's server reads it and does nothing with it */
    {"sse_ping_interval", TERN_FIELD_IGNORED},
    {"n_cmpl", TERN_FIELD_REFUSED, .min = 1, .max = 1},
    {"return_progress", TERN_FIELD_REFUSED},
    {"post_sampling_probs", TERN_FIELD_REFUSED},
    {"response_fields", TERN_FIELD_REFUSED},
    {"adaptive_target", TERN_FIELD_REFUSED, .min = -1},
    {"adaptive_decay", TERN_FIELD_IGNORED}, /* goes with adaptive_target */
    {"grammar_lazy", TERN_FIELD_REFUSED},
    {"grammar_triggers", TERN_FIELD_REFUSED},
    {"preserved_tokens", TERN_FIELD_REFUSED},
    {"image_data", TERN_FIELD_REFUSED},
    /* vLLM's */
    {"skip_special_tokens", TERN_FIELD_REFUSED, .neutral = "true"},
    {"spaces_between_special_tokens", TERN_FIELD_IGNORED}, /* goes with the former */
    {"include_stop_str_in_output", TERN_FIELD_REFUSED},
    {"use_beam_search", TERN_FIELD_REFUSED},
    {"length_penalty", TERN_FIELD_REFUSED, .min = 1, .max = 1},
    {"min_tokens", TERN_FIELD_REFUSED},
    {"stop_token_ids", TERN_FIELD_REFUSED},
    {"bad_words", TERN_FIELD_REFUSED},
    {"truncate_prompt_tokens", TERN_FIELD_REFUSED},
    {0},
};

void tern_api_request_init_chain(tern_api_request *request)
{
    request->chain = (tern_sampler_chain){.size = sizeof request->chain,
                                          .dynatemp_exponent = 1,
                                          .xtc_threshold = 0.1f,
                                          .dry_base = 1.75f,
                                          .dry_allowed_length = 2,
                                          .dry_last_n = UINT32_MAX,
                                          .mirostat_tau = 5,
                                          .mirostat_eta = 0.1f};
}

void tern_api_request_finish_chain(tern_api_request *request)
{
    tern_sampler_chain *c = &request->chain;
    if (c->top_n_sigma < 0) c->top_n_sigma = 0;
    if (c->dry_last_n == 0) c->dry_multiplier = 0;
    if (!request->mirostat) c->mirostat_tau = 0;
    if (request->no_steps) { /* the draw alone */
        request->order[c->n_order++] = TERN_SAMPLER_TEMPERATURE;
        request->sampler.temperature = 1;
        c->dynatemp_range = 0;
    }
    request->sampler.chain = c;
}
