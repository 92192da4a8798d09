/* Requests of the Ollama API: what is read of them. */
#include <stdlib.h>
#include <string.h>

#include "format/json.h"
#include "serve/ollama/ollama.h"

#define AT(member) offsetof(tern_api_request, member)

static bool is_known(const char *name)
{
    const tern_field *const tables[] = {tern_api_options, tern_api_mirostat, NULL};
    return tern_fields_find(tables, name) != NULL;
}

/* Options that are not known are left out, and told of in the answer and the log. */
static tern_status read_options(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    const char *name;
    const json_t *option;
    if (!json_is_object(value)) return tern_fields_fail("options", value, "an object", err);
    json_object_foreach((json_t *)(uintptr_t)value, name, option)
    {
        if (is_known(name)) continue;
        if (!request->ignored) request->ignored = json_array();
        if (json_array_append_new(request->ignored, json_string(name)) != 0) return tern_fail_alloc(err, strlen(name));
    }
    json_t *known = json_copy((json_t *)(uintptr_t)value);
    for (size_t i = 0; i < json_array_size(request->ignored); i++)
        json_object_del(known, json_string_value(json_array_get(request->ignored, i)));
    const tern_status status =
        tern_fields_read((const tern_field *const[]){tern_api_options, tern_api_mirostat, NULL}, known, request, err);
    json_decref(known);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(err, "options");
}

/* "json", or a schema. */
static tern_status read_format(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    if (!json_is_string(value)) return tern_api_request_read_schema(request, value, err);
    if (json_string_length(value) == 0) return TERN_OK;
    if (strcmp(json_string_value(value), "json") != 0)
        return tern_fields_fail("format", value, "\"json\" or a schema", err);
    return tern_api_request_constrain(request, TERN_GRAMMAR_JSON, err);
}

/* Seconds of a unit of Go's durations at `text`, and its end; 0: none. */
static double unit_seconds(const char *text, const char **end)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const size_t n = strlen(units[i].name);
        if (strncmp(text, units[i].name, n) != 0) continue;
        *end = text + n;
        return units[i].seconds;
    }
    return 0;
}

/* "1h30m", "-1s", "0". */
static bool parse_duration(const char *text, double *seconds)
{
    const bool negative = *text == '-';
    const char *at = text + negative;
    double sum = 0;
    if (strcmp(at, "0") == 0) {
        *seconds = 0;
        return true;
    }
    do {
        char *rest;
        if (strspn(at, "0123456789.") == 0) return false;
        const double n = strtod(at, &rest), unit = unit_seconds(rest, &at);
        if (unit <= 0 || !(n < 1e12)) return false;
        sum += n * unit;
    } while (*at);
    *seconds = negative ? -sum : sum;
    return true;
}

/* Seconds, or a duration of Go; below 0: for ever. */
static tern_status read_keep_alive(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    double seconds = json_number_value(value);
    const char *text = json_string_value(value);
    const bool read = json_is_number(value) || (text && (!*text || parse_duration(text, &seconds)));
    if (!read || !(seconds < 1e15))
        return tern_fields_fail("keep_alive", value, "seconds or a duration as \"5m\"", err);
    request->keeps = !text || *text;
    request->keep_seconds = seconds;
    return TERN_OK;
}

/* None at all: the model is opened. */
static tern_status read_messages(void *into, const json_t *value, tern_error *err)
{
    if (json_is_array(value) && json_array_size(value) == 0) return TERN_OK;
    return tern_api_request_read_messages(into, value, err);
}

static tern_status read_context(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    if (!json_is_array(value)) return tern_fields_fail("context", value, "the list of ids of an earlier answer", err);
    if (json_array_size(value)) request->context = value;
    return TERN_OK;
}

static const tern_field shared[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"stream", TERN_FIELD_BOOL, AT(stream)},
    {"options", TERN_FIELD_READ, .read = read_options},
    {"keep_alive", TERN_FIELD_READ, .read = read_keep_alive},
    {"format", TERN_FIELD_READ, .read = read_format},
    {"think", TERN_FIELD_READ, .read = tern_api_request_read_think},
    {"logprobs", TERN_FIELD_REFUSED},
    {"top_logprobs", TERN_FIELD_REFUSED},
    {"truncate", TERN_FIELD_IGNORED}, /* a prompt that is too long is an error */
    {"shift", TERN_FIELD_IGNORED},
    {0},
};

static const tern_field chat[] = {
    {"messages", TERN_FIELD_READ, .read = read_messages},
    {"tools", TERN_FIELD_READ, .read = tern_api_request_read_tools},
    {"tool_choice", TERN_FIELD_READ, .read = tern_api_request_read_tool_choice}, /* Tern's, as OpenAI's */
    {"parallel_tool_calls", TERN_FIELD_READ, .read = tern_api_request_read_parallel},
    {0},
};

static const tern_field generate[] = {
    {"prompt", TERN_FIELD_READ, .read = tern_api_request_read_prompts},
    {"system", TERN_FIELD_TEXT, AT(system)},
    {"raw", TERN_FIELD_BOOL, AT(raw)},
    {"suffix", TERN_FIELD_READ, .read = tern_api_request_read_suffix},
    {"images", TERN_FIELD_REFUSED},
    {"template", TERN_FIELD_REFUSED, .why = "the server's --template counts"},
    {"context", TERN_FIELD_READ, .read = read_context},
    {0},
};

/* Defaults of Ollama's own models, then those of this one. */
static tern_status set_defaults(tern_api_request *request, tern_error *err)
{
    request->sampler = (tern_sampler_params)TERN_SAMPLER_DEFAULTS;
    request->sampler.top_p = 0.9f;
    request->sampler.min_p = 0;
    request->stream = true;
    return tern_api_request_apply(request, request->settings, err);
}

/* Without anything to answer, the model is opened, or closed where it is not to be kept. */
static void load_or_unload(tern_api_request *request)
{
    request->unloads = request->keeps && request->keep_seconds == 0;
    request->loads = !request->unloads;
}

tern_status tern_ollama__read_chat(tern_api_request *request, const json_t *body, tern_error *err)
{
    TERN_TRY(set_defaults(request, err));
    TERN_TRY(tern_fields_read((const tern_field *const[]){shared, chat, NULL}, body, request, err));
    if (!request->n_messages) load_or_unload(request);
    return TERN_OK;
}

tern_status tern_ollama__read_generate(tern_api_request *request, const json_t *body, tern_error *err)
{
    TERN_TRY(set_defaults(request, err));
    TERN_TRY(tern_fields_read((const tern_field *const[]){shared, generate, NULL}, body, request, err));
    const json_t *prompt = json_object_get(body, "prompt");
    if (prompt && !json_is_null(prompt) && !json_is_string(prompt))
        return tern_fields_fail("prompt", prompt, "a text", err);
    if (json_string_length(prompt) == 0 && !request->gap.wanted) {
        load_or_unload(request);
        return TERN_OK;
    }
    if (request->context && (request->raw || request->gap.wanted))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "context: not together with raw or suffix");
    request->with_context = !request->raw && !request->gap.wanted;
    if (request->raw) return TERN_OK;
    if (request->gap.wanted && request->system && *request->system)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "system: not supported with suffix");
    if (request->gap.wanted) return TERN_OK;
    if (request->system && *request->system)
        TERN_TRY(tern_api_request_add_message(request, "system", json_object_get(body, "system"), "system", err));
    return tern_api_request_add_message(request, "user", prompt, "prompt", err);
}

static const tern_field embed[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"input", TERN_FIELD_READ, .read = tern_api_request_read_prompts},
    {"dimensions", TERN_FIELD_U32, AT(dimensions), 1, 1 << 24},
    {"options", TERN_FIELD_IGNORED},
    {"truncate", TERN_FIELD_IGNORED},
    {"keep_alive", TERN_FIELD_READ, .read = read_keep_alive},
    {0},
};

tern_status tern_ollama__read_embed(tern_api_request *request, const json_t *body, tern_error *err)
{
    request->embeds = request->own_pooling = request->normalize = true;
    return tern_fields_read((const tern_field *const[]){embed, NULL}, body, request, err);
}

static const tern_field embeddings[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"prompt", TERN_FIELD_READ, .read = tern_api_request_read_prompts},
    {"options", TERN_FIELD_IGNORED},
    {"keep_alive", TERN_FIELD_READ, .read = read_keep_alive},
    {0},
};

tern_status tern_ollama__read_embeddings(tern_api_request *request, const json_t *body, tern_error *err)
{
    const json_t *prompt = json_object_get(body, "prompt");
    request->embeds = request->own_pooling = true;
    if (!json_is_string(prompt)) return tern_fields_fail("prompt", prompt, "a text", err);
    return tern_fields_read((const tern_field *const[]){embeddings, NULL}, body, request, err);
}

/* The older name of "model", which newer clients send empty. */
static tern_status read_old_name(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    if (!json_is_string(value)) return tern_fields_fail("name", value, "a string", err);
    if (json_string_length(value)) request->model = json_string_value(value);
    return TERN_OK;
}

static const tern_field show[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"name", TERN_FIELD_READ, .read = read_old_name},
    {"verbose", TERN_FIELD_IGNORED},
    {"options", TERN_FIELD_IGNORED},
    {"system", TERN_FIELD_REFUSED},
    {"template", TERN_FIELD_REFUSED},
    {0},
};

tern_status tern_ollama__read_show(tern_api_request *request, const json_t *body, tern_error *err)
{
    return tern_fields_read((const tern_field *const[]){show, NULL}, body, request, err);
}
