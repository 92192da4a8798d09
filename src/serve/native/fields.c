/* Requests of llama.cpp's server: what is read of them. */
#include "format/json.h"
#include "serve/native/native.h"

#define AT(member) offsetof(tern_api_request, member)

/* Tokens to generate; 0: the prompt is evaluated; below 0: until the context is full. */
static tern_status read_predict(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    int64_t n;
    if (!tern_json_int(value, &n) || n > 1 << 24)
        return tern_fields_fail("n_predict", value, "a whole number of at most 16777216", err);
    request->max_tokens = n < 0 ? 0 : (uint32_t)n;
    request->no_tokens = n == 0;
    return TERN_OK;
}

static tern_status read_probs(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    int64_t n;
    if (!tern_json_int(value, &n) || n < 0 || n > TERN_BATCH_MAX_TOP_LOGPROBS)
        return tern_fields_fail("n_probs", value, "a whole number from 0 to 20", err);
    request->logprobs = n > 0;
    request->n_top_logprobs = (uint32_t)n;
    return TERN_OK;
}

/* Milliseconds; up to 0: no limit. */
static tern_status read_time(void *into, const json_t *value, tern_error *err)
{
    int64_t ms;
    if (!tern_json_int(value, &ms) || ms > UINT32_MAX)
        return tern_fields_fail("t_max_predict_ms", value, "a whole number of milliseconds", err);
    ((tern_api_request *)into)->lines.ms = ms > 0 ? (uint32_t)ms : 0;
    return TERN_OK;
}

static tern_status read_response_fields(void *into, const json_t *value, tern_error *err)
{
    if (!json_is_array(value)) return tern_fields_fail("response_fields", value, "a list of names", err);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_is_string(json_array_get(value, i)))
            return tern_fields_fail("response_fields", json_array_get(value, i), "a name", err);
    ((tern_api_request *)into)->wanted_fields = json_array_size(value) ? value : NULL;
    return TERN_OK;
}

static const tern_field completion[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"prompt", TERN_FIELD_READ, .read = tern_api_request_read_prompts},
    {"n_predict", TERN_FIELD_READ, .read = read_predict},
    {"max_tokens", TERN_FIELD_READ, .read = read_predict},
    {"temperature", TERN_FIELD_F32, AT(sampler.temperature), 0, 100},
    {"top_k", TERN_FIELD_READ, .read = tern_api_request_read_top_k},
    {"top_p", TERN_FIELD_F32, AT(sampler.top_p), 0, 1},
    {"min_p", TERN_FIELD_F32, AT(sampler.min_p), 0, 1},
    {"typical_p", TERN_FIELD_F32, AT(sampler.typical_p), 0, 1},
    {"presence_penalty", TERN_FIELD_F32, AT(sampler.presence_penalty), -100, 100},
    {"frequency_penalty", TERN_FIELD_F32, AT(sampler.frequency_penalty), -100, 100},
    {"seed", TERN_FIELD_READ, .read = tern_api_request_read_seed},
    {"stop", TERN_FIELD_READ, .read = tern_api_request_read_stop},
    {"logit_bias", TERN_FIELD_READ, .read = tern_api_request_read_bias},
    {"ignore_eos", TERN_FIELD_BOOL, AT(ignore_eos)},
    {"stream", TERN_FIELD_BOOL, AT(stream)},
    {"n_probs", TERN_FIELD_READ, .read = read_probs},
    {"grammar", TERN_FIELD_READ, .read = tern_api_request_read_grammar},
    {"json_schema", TERN_FIELD_READ, .read = tern_api_request_read_schema},
    {"lora", TERN_FIELD_READ, .read = tern_api_request_read_loras},
    {"n_indent", TERN_FIELD_U32, AT(lines.indent), 0, 1 << 16},
    {"t_max_predict_ms", TERN_FIELD_READ, .read = read_time},
    {"response_fields", TERN_FIELD_READ, .read = read_response_fields},
    {0},
};

tern_status tern_native__read_completion(tern_api_request *request, const json_t *body, tern_error *err)
{
    request->sampler = (tern_sampler_params)TERN_SAMPLER_DEFAULTS;
    TERN_TRY(tern_api_request_apply(request, request->settings, err));
    TERN_TRY(tern_fields_read((const tern_field *const[]){completion, tern_api_samplers, tern_api_mirostat, NULL}, body,
                              request, err));
    if (request->n_prompts == 1) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "prompt: %zu texts found, one expected", request->n_prompts);
}

static tern_status read_gap_suffix(void *into, const json_t *value, tern_error *err)
{
    if (!json_is_string(value)) return tern_fields_fail("input_suffix", value, "a string", err);
    ((tern_api_request *)into)->gap.suffix = value;
    return TERN_OK;
}

static tern_status read_gap_start(void *into, const json_t *value, tern_error *err)
{
    if (!json_is_string(value)) return tern_fields_fail("prompt", value, "a string", err);
    ((tern_api_request *)into)->gap.start = value;
    return TERN_OK;
}

static tern_status read_gap_files(void *into, const json_t *value, tern_error *err)
{
    if (!json_is_array(value)) return tern_fields_fail("input_extra", value, "a list of files", err);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *file = json_array_get(value, i), *name = json_object_get(file, "filename");
        const json_t *text = json_object_get(file, "text");
        if (!json_is_object(file)) return tern_fields_fail("input_extra", file, "{\"filename\", \"text\"}", err);
        if (name && !json_is_string(name)) return tern_fields_fail("input_extra: filename", name, "a string", err);
        if (!json_is_string(text)) return tern_fields_fail("input_extra: text", text, "a string", err);
    }
    ((tern_api_request *)into)->gap.files = value;
    return TERN_OK;
}

static const tern_field infill[] = {
    {"input_prefix", TERN_FIELD_READ, .read = tern_api_request_read_prompts},
    {"input_suffix", TERN_FIELD_READ, .read = read_gap_suffix},
    {"input_extra", TERN_FIELD_READ, .read = read_gap_files},
    {"prompt", TERN_FIELD_READ, .read = read_gap_start},
    {0},
};

tern_status tern_native__read_infill(tern_api_request *request, const json_t *body, tern_error *err)
{
    request->sampler = (tern_sampler_params)TERN_SAMPLER_DEFAULTS;
    request->gap.wanted = request->gap.named = true;
    TERN_TRY(
        tern_fields_read((const tern_field *const[]){infill, completion, tern_api_samplers, tern_api_mirostat, NULL},
                         body, request, err));
    if (request->n_prompts != 1 || !request->prompts[0].text)
        return tern_fields_fail("input_prefix", json_object_get(body, "input_prefix"), "a string", err);
    if (request->gap.suffix) return TERN_OK;
    return tern_fields_fail("input_suffix", NULL, "a string", err);
}

static const tern_field tokenize[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"content", TERN_FIELD_READ, .read = tern_api_request_read_prompts},
    {"add_special", TERN_FIELD_BOOL, AT(with_bos)},
    {"parse_special", TERN_FIELD_BOOL, AT(special)},
    {"with_pieces", TERN_FIELD_BOOL, AT(with_pieces)},
    {0},
};

tern_status tern_native__read_tokenize(tern_api_request *request, const json_t *body, tern_error *err)
{
    request->special = true;
    TERN_TRY(tern_fields_read((const tern_field *const[]){tokenize, NULL}, body, request, err));
    if (request->n_prompts == 1 && !request->prompts[0].ids) return TERN_OK;
    return tern_fields_fail("content", json_object_get(body, "content"), "a text", err);
}

static const tern_field detokenize[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"tokens", TERN_FIELD_READ, .read = tern_api_request_read_prompts},
    {0},
};

tern_status tern_native__read_detokenize(tern_api_request *request, const json_t *body, tern_error *err)
{
    TERN_TRY(tern_fields_read((const tern_field *const[]){detokenize, NULL}, body, request, err));
    if (json_array_size(json_object_get(body, "tokens")) == 0 && json_is_array(json_object_get(body, "tokens")))
        return TERN_OK;
    if (request->n_prompts == 1 && request->prompts[0].ids) return TERN_OK;
    return tern_fields_fail("tokens", json_object_get(body, "tokens"), "a list of token ids", err);
}

static const tern_field template[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"messages", TERN_FIELD_READ, .read = tern_api_request_read_messages},
    {"tools", TERN_FIELD_READ, .read = tern_api_request_read_tools},
    {0},
};

tern_status tern_native__read_template(tern_api_request *request, const json_t *body, tern_error *err)
{
    TERN_TRY(tern_fields_read((const tern_field *const[]){template, tern_api_thinking, NULL}, body, request, err));
    if (request->n_messages) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "messages: none found, at least one expected");
}

tern_status tern_native__read_nothing(tern_api_request *request, const json_t *body, tern_error *err)
{
    (void)request;
    (void)body;
    (void)err;
    return TERN_OK;
}
