/* A request: the members that all protocols share. */
#include "serve/request/request.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/show.h"
#include "format/chat_json.h"
#include "format/json.h"

void tern_api_request_init(tern_api_request *request)
{
    *request = (tern_api_request){.sampler = TERN_SAMPLER_DEFAULTS};
    request->sampler.temperature = 1;
    request->sampler.top_k = 0;
    request->sampler.top_p = 1;
    request->sampler.min_p = 0;
    request->thought_budget = -1;
    tern_api_request_init_chain(request);
}

void tern_api_request_deinit(tern_api_request *request)
{
    for (size_t i = 0; i < request->n_owned; i++) tern_free(request->owned[i]);
    tern_free(request->owned);
    tern_free(request->messages);
    tern_free(request->prompts);
    tern_free(request->biases);
    tern_free(request->lora_scales);
    json_decref(request->text_biases);
    json_decref(request->ignored);
    json_decref(request->more);
    json_decref(request->tools);
    json_decref(request->tool_choice);
    json_decref(request->allowed_tools);
    json_decref(request->namespaces);
    json_decref(request->variables);
    json_decref(request->history);
    *request = (tern_api_request){0};
}

static tern_status add_stop(tern_api_request *request, const json_t *value, tern_error *err)
{
    if (!json_is_string(value) || json_string_length(value) == 0)
        return tern_fields_fail("stop", value, "a text that is not empty", err);
    if (strlen(json_string_value(value)) != json_string_length(value))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "stop: a NUL character found, none expected");
    if (request->n_stops == TERN_API_MAX_STOPS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "stop: at most %d texts expected", TERN_API_MAX_STOPS);
    request->stops[request->n_stops++] = json_string_value(value);
    return TERN_OK;
}

tern_status tern_api_request_read_stop(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    if (json_is_string(value) && json_string_length(value) == 0) return TERN_OK;
    request->n_stops = 0; /* those of the model's settings */
    if (!json_is_array(value)) return add_stop(into, value, err);
    for (size_t i = 0; i < json_array_size(value); i++) TERN_TRY(add_stop(into, json_array_get(value, i), err));
    return TERN_OK;
}

tern_status tern_api_request_add_bias(tern_api_request *request, int32_t id, double bias, tern_error *err)
{
    TERN_TRY(tern_grow((void **)&request->biases, &request->cap_biases, request->n_biases + 1, sizeof *request->biases,
                       err));
    /* -100 bans a token in the APIs that have it */
    request->biases[request->n_biases++] = (tern_logit_bias){id, bias <= -100 ? -INFINITY : (float)bias};
    return TERN_OK;
}

/* A number; false bans the token. */
static tern_status read_bias_value(const json_t *value, double *bias, tern_error *err)
{
    *bias = json_is_false(value) ? -100 : json_number_value(value);
    if (json_is_false(value) || (json_is_number(value) && fabs(*bias) <= 1e6)) return TERN_OK;
    return tern_fields_fail("logit_bias", value, "a number", err);
}

static tern_status read_bias_object(tern_api_request *request, const json_t *object, tern_error *err)
{
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        char *end;
        double bias;
        errno = 0;
        const long id = strtol(key, &end, 10);
        if (*key < '0' || *key > '9' || *end || errno || id > INT32_MAX)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "logit_bias: \"%s\" found, a token id expected",
                             tern_show_z(key).text);
        TERN_TRY(read_bias_value(value, &bias, err));
        TERN_TRY(tern_api_request_add_bias(request, (int32_t)id, bias, err));
    }
    return TERN_OK;
}

/* A text's tokens are known once its model is. */
static tern_status read_bias_pair(tern_api_request *request, const json_t *pair, tern_error *err)
{
    const json_t *what = json_array_get(pair, 0);
    int64_t id;
    double bias;
    if (json_array_size(pair) != 2) return tern_fields_fail("logit_bias", pair, "pairs [id, bias]", err);
    TERN_TRY(read_bias_value(json_array_get(pair, 1), &bias, err));
    if (tern_json_int(what, &id) && id >= 0 && id <= INT32_MAX)
        return tern_api_request_add_bias(request, (int32_t)id, bias, err);
    if (!json_is_string(what)) return tern_fields_fail("logit_bias", what, "a token id or a text", err);
    if (!request->text_biases) request->text_biases = json_array();
    if (json_array_append_new(request->text_biases, json_pack("[O, f]", what, bias)) == 0) return TERN_OK;
    return tern_fail_alloc(err, sizeof bias);
}

tern_status tern_api_request_read_bias(void *into, const json_t *value, tern_error *err)
{
    if (json_is_object(value)) return read_bias_object(into, value, err);
    if (!json_is_array(value)) return tern_fields_fail("logit_bias", value, "an object of token ids", err);
    for (size_t i = 0; i < json_array_size(value); i++) TERN_TRY(read_bias_pair(into, json_array_get(value, i), err));
    return TERN_OK;
}

tern_status tern_api_request_read_seed(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    int64_t seed;
    if (!tern_json_int(value, &seed)) return tern_fields_fail("seed", value, "a whole number", err);
    request->seed_given = seed >= 0;
    request->sampler.seed = (uint64_t)seed;
    return TERN_OK;
}

/* A text of the request's own, of all parts one after the other. */
static tern_status join(tern_api_request *request, const json_t *parts, const char *name, tern_chat_message *message,
                        tern_error *err)
{
    tern_buf text = {0};
    tern_status status = TERN_OK;
    if (tern_chat_json_join(parts, &text, err) != TERN_OK) TERN_GOTO(tern_error_prefix(err, "%s", name));
    TERN_GOTO(tern_buf_add(&text, "", 1, err));
    TERN_GOTO(
        tern_grow((void **)&request->owned, &request->cap_owned, request->n_owned + 1, sizeof *request->owned, err));
    request->owned[request->n_owned++] = text.data;
    *message = (tern_chat_message){message->role, text.data, text.size - 1};
    return TERN_OK;
fail:
    tern_buf_deinit(&text);
    return status;
}

static tern_status add_message(tern_api_request *request, tern_chat_message message, tern_error *err)
{
    TERN_TRY(
        tern_grow((void **)&request->messages, &request->cap_messages, request->n_messages + 1, sizeof message, err));
    request->messages[request->n_messages++] = message;
    return TERN_OK;
}

tern_status tern_api_request_add_text(tern_api_request *request, const char *role, const char *text, size_t n,
                                      tern_error *err)
{
    return add_message(request, (tern_chat_message){role, text, n}, err);
}

tern_status tern_api_request_add_message(tern_api_request *request, const char *role, const json_t *content,
                                         const char *name, tern_error *err)
{
    tern_chat_message message = {.role = role};
    if (json_is_array(content)) {
        TERN_TRY(join(request, content, name, &message, err));
        return add_message(request, message, err);
    }
    if (!json_is_string(content)) return tern_fields_fail(name, content, "a string or a list of parts", err);
    return tern_api_request_add_text(request, role, json_string_value(content), json_string_length(content), err);
}

/* The last message becomes the first. */
static tern_status move_to_front(tern_api_request *request, tern_error *err)
{
    const tern_chat_message last = request->messages[request->n_messages - 1];
    memmove(request->messages + 1, request->messages, (request->n_messages - 1) * sizeof last);
    request->messages[0] = last;
    if (request->more && json_array_insert_new(request->more, 0, json_null()) != 0)
        return tern_fail_alloc(err, sizeof last);
    return TERN_OK;
}

tern_status tern_api_request_prepend_message(tern_api_request *request, const char *role, const json_t *content,
                                             const char *name, tern_error *err)
{
    TERN_TRY(tern_api_request_add_message(request, role, content, name, err));
    return move_to_front(request, err);
}

tern_status tern_api_request_prepend_text(tern_api_request *request, const char *role, const char *text, size_t n,
                                          tern_error *err)
{
    TERN_TRY(tern_api_request_add_text(request, role, text, n, err));
    return move_to_front(request, err);
}

/* A message's members beside its text. */
static tern_status read_calls(tern_api_request *request, const json_t *message, const char *name, tern_error *err)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    const json_t *called = json_object_get(message, "tool_name"); /* Ollama's */
    json_t *old = json_object_get(message, "function_call");
    TERN_TRY(tern_api_request_add_thoughts(request, message, err));
    if (json_is_array(calls) && json_array_size(calls)) TERN_TRY(tern_api_request_add_calls(request, calls, name, err));
    if (json_is_object(old)) {
        json_t *one = json_pack("[{s:O}]", "function", old);
        const tern_status status = tern_api_request_add_calls(request, one, name, err);
        json_decref(one);
        if (status != TERN_OK) return status;
    }
    if (strcmp(request->messages[request->n_messages - 1].role, "tool") != 0) return TERN_OK;
    return tern_api_request_add_result(request, json_object_get(message, "tool_call_id"),
                                       called ? called : json_object_get(message, "name"), err);
}

static tern_status read_message(tern_api_request *request, const json_t *message, size_t i, tern_error *err)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content");
    char name[48];
    snprintf(name, sizeof name, "messages[%zu]", i);
    if (!json_is_object(message)) return tern_fields_fail(name, message, "an object", err);
    if (!role) return tern_fields_fail(name, json_object_get(message, "role"), "a role", err);
    const json_t *images = json_object_get(message, "images");
    if (json_array_size(images) || (images && !json_is_null(images) && !json_is_array(images)))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s.images: images are not supported", name);
    if (strcmp(role, "developer") == 0) role = "system"; /* the newer word for it */
    if (strcmp(role, "function") == 0) role = "tool";    /* and for this */
    snprintf(name, sizeof name, "messages[%zu].content", i);
    const bool calls = tern_json_has(message, "tool_calls") || tern_json_has(message, "function_call");
    if (calls && (!content || json_is_null(content))) TERN_TRY(tern_api_request_add_text(request, role, "", 0, err));
    else TERN_TRY(tern_api_request_add_message(request, role, content, name, err));
    snprintf(name, sizeof name, "messages[%zu].tool_calls", i);
    return read_calls(request, message, name, err);
}

tern_status tern_api_request_read_messages(void *into, const json_t *value, tern_error *err)
{
    if (!json_is_array(value) || json_array_size(value) == 0)
        return tern_fields_fail("messages", value, "a list of at least one message", err);
    for (size_t i = 0; i < json_array_size(value); i++) TERN_TRY(read_message(into, json_array_get(value, i), i, err));
    return TERN_OK;
}

static tern_status add_prompt(tern_api_request *request, const json_t *value, tern_error *err)
{
    tern_api_prompt prompt = {.text = json_string_value(value), .n = json_string_length(value)};
    if (json_is_array(value)) prompt.ids = value;
    else if (!json_is_string(value)) return tern_fields_fail("prompt", value, "a text or a list of token ids", err);
    if (request->n_prompts == TERN_API_MAX_PROMPTS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "prompt: at most %d texts expected", TERN_API_MAX_PROMPTS);
    TERN_TRY(tern_grow((void **)&request->prompts, &request->cap_prompts, request->n_prompts + 1, sizeof prompt, err));
    request->prompts[request->n_prompts++] = prompt;
    return TERN_OK;
}

tern_status tern_api_request_read_prompts(void *into, const json_t *value, tern_error *err)
{
    const bool several = json_is_array(value) && !json_is_number(json_array_get(value, 0));
    if (!several) return add_prompt(into, value, err);
    for (size_t i = 0; i < json_array_size(value); i++) TERN_TRY(add_prompt(into, json_array_get(value, i), err));
    return TERN_OK;
}

tern_status tern_api_request_read_suffix(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    if (!json_is_string(value)) return tern_fields_fail("suffix", value, "a string", err);
    request->gap.suffix = value;
    request->gap.wanted = json_string_length(value) > 0;
    return TERN_OK;
}

tern_status tern_api_request_check_gap(const tern_api_request *request, tern_error *err)
{
    if (!request->gap.wanted) return TERN_OK;
    if (request->echo) return tern_fail(err, TERN_INVALID_ARGUMENT, "echo: not supported with suffix");
    for (size_t i = 0; i < request->n_prompts; i++)
        if (request->prompts[i].ids)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "prompt: token ids found, a text expected with suffix");
    return TERN_OK;
}

tern_status tern_api_request_constrain(tern_api_request *request, tern_grammar_kind kind, tern_error *err)
{
    if (request->constrained)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "a grammar and a schema found for one answer, one of them expected");
    request->grammar_kind = kind;
    request->constrained = true;
    return TERN_OK;
}

tern_status tern_api_request_read_grammar(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
        return tern_fields_fail("grammar", value, "a text in GBNF", err);
    if (json_string_length(value) == 0) return TERN_OK;
    request->grammar = json_string_value(value);
    return tern_api_request_constrain(request, TERN_GRAMMAR_GBNF, err);
}

tern_status tern_api_request_read_schema(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    if (!json_is_object(value) && !json_is_boolean(value))
        return tern_fields_fail("the schema", value, "an object", err);
    request->schema = value;
    return tern_api_request_constrain(request, TERN_GRAMMAR_SCHEMA, err);
}

/* An assistant's last message is the beginning of the answer, unless it ends with calls. */
static void find_continued(tern_api_request *request)
{
    const size_t n = request->n_messages;
    if (request->continues || request->starts_turn || n == 0) return;
    request->continues = strcmp(request->messages[n - 1].role, "assistant") == 0 &&
                         !json_object_get(json_array_get(request->more, n - 1), "tool_calls");
}

tern_status tern_api_request_finish(tern_api_request *request, tern_error *err)
{
    find_continued(request);
    request->sampler.biases = request->biases;
    request->sampler.n_biases = (uint32_t)request->n_biases;
    tern_api_request_finish_chain(request);
    if (request->n == 0) request->n = 1;
    if (request->best_of < request->n) request->best_of = request->n;
    if (request->best_of > TERN_API_MAX_COMPLETIONS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "n: %u found, at most %d expected", request->best_of,
                         TERN_API_MAX_COMPLETIONS);
    TERN_TRY(tern_api_request_check_tools(request, err));
    TERN_TRY(tern_api_request_check_gap(request, err));
    if (request->seed_given) return TERN_OK;
    if (getrandom(&request->sampler.seed, sizeof request->sampler.seed, 0) == (ssize_t)sizeof request->sampler.seed)
        return TERN_OK;
    return tern_fail(err, TERN_IO, "the system gives no random numbers");
}
