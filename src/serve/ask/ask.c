/* What a client asks for: the parts that all protocols share. */
#include "serve/ask/ask.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/show.h"
#include "format/json.h"

void tern_ask_init(tern_ask *ask)
{
    *ask = (tern_ask){.sampler = TERN_SAMPLER_DEFAULTS};
    ask->sampler.temperature = 1;
    ask->sampler.top_k = 0;
    ask->sampler.top_p = 1;
    ask->sampler.min_p = 0;
}

void tern_ask_deinit(tern_ask *ask)
{
    for (size_t i = 0; i < ask->n_owned; i++) tern_free(ask->owned[i]);
    tern_free(ask->owned);
    tern_free(ask->messages);
    tern_free(ask->prompts);
    tern_free(ask->biases);
    tern_free(ask->lora_scales);
    json_decref(ask->more);
    json_decref(ask->tools);
    json_decref(ask->tool_choice);
    *ask = (tern_ask){0};
}

static tern_status add_stop(tern_ask *ask, const json_t *value, tern_error *err)
{
    if (!json_is_string(value) || json_string_length(value) == 0)
        return tern_fields_fail("stop", value, "a text that is not empty", err);
    if (strlen(json_string_value(value)) != json_string_length(value))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "stop: a NUL character found, none expected");
    if (ask->n_stops == TERN_ASK_MAX_STOPS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "stop: at most %d texts expected", TERN_ASK_MAX_STOPS);
    ask->stops[ask->n_stops++] = json_string_value(value);
    return TERN_OK;
}

tern_status tern_ask_read_stop(void *into, const json_t *value, tern_error *err)
{
    if (json_is_string(value) && json_string_length(value) == 0) return TERN_OK;
    if (!json_is_array(value)) return add_stop(into, value, err);
    for (size_t i = 0; i < json_array_size(value); i++) TERN_TRY(add_stop(into, json_array_get(value, i), err));
    return TERN_OK;
}

tern_status tern_ask_read_bias(void *into, const json_t *value, tern_error *err)
{
    tern_ask *ask = into;
    const char *key;
    const json_t *bias;
    if (!json_is_object(value)) return tern_fields_fail("logit_bias", value, "an object of token ids", err);
    json_object_foreach((json_t *)(uintptr_t)value, key, bias)
    {
        char *end;
        errno = 0;
        const long id = strtol(key, &end, 10);
        if (*key < '0' || *key > '9' || *end || errno || id > INT32_MAX)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "logit_bias: \"%s\" found, a token id expected",
                             tern_show_z(key).text);
        if (!json_is_number(bias) || fabs(json_number_value(bias)) > 1e6)
            return tern_fields_fail("logit_bias", bias, "a number", err);
        TERN_TRY(tern_grow((void **)&ask->biases, &ask->cap_biases, ask->n_biases + 1, sizeof *ask->biases, err));
        const double b = json_number_value(bias); /* -100 bans a token in the APIs that have it */
        ask->biases[ask->n_biases++] = (tern_logit_bias){(int32_t)id, b <= -100 ? -INFINITY : (float)b};
    }
    return TERN_OK;
}

tern_status tern_ask_read_seed(void *into, const json_t *value, tern_error *err)
{
    tern_ask *ask = into;
    int64_t seed;
    if (!tern_json_int(value, &seed)) return tern_fields_fail("seed", value, "a whole number", err);
    ask->seed_given = seed >= 0;
    ask->sampler.seed = (uint64_t)seed;
    return TERN_OK;
}

/* A text of the ask's own, of all parts one after the other. */
static tern_status join(tern_ask *ask, const json_t *parts, const char *name, tern_chat_message *message,
                        tern_error *err)
{
    tern_buf text = {0};
    tern_status status = TERN_OK;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *words = json_object_get(part, "text");
        const bool is_text =
            type && (strcmp(type, "text") == 0 || strcmp(type, "input_text") == 0 || strcmp(type, "output_text") == 0);
        if (!is_text || !json_is_string(words))
            TERN_GOTO(tern_fail(err, TERN_INVALID_ARGUMENT,
                                "%s: a part of the type \"%s\" found, parts of the type \"text\" expected", name,
                                type ? tern_show_z(type).text : ""));
        TERN_GOTO(tern_buf_add(&text, json_string_value(words), json_string_length(words), err));
    }
    TERN_GOTO(tern_buf_add(&text, "", 1, err));
    TERN_GOTO(tern_grow((void **)&ask->owned, &ask->cap_owned, ask->n_owned + 1, sizeof *ask->owned, err));
    ask->owned[ask->n_owned++] = text.data;
    *message = (tern_chat_message){message->role, text.data, text.size - 1};
    return TERN_OK;
fail:
    tern_buf_deinit(&text);
    return status;
}

static tern_status add_message(tern_ask *ask, tern_chat_message message, tern_error *err)
{
    TERN_TRY(tern_grow((void **)&ask->messages, &ask->cap_messages, ask->n_messages + 1, sizeof message, err));
    ask->messages[ask->n_messages++] = message;
    return TERN_OK;
}

tern_status tern_ask_add_text(tern_ask *ask, const char *role, const char *text, size_t n, tern_error *err)
{
    return add_message(ask, (tern_chat_message){role, text, n}, err);
}

tern_status tern_ask_add_message(tern_ask *ask, const char *role, const json_t *content, const char *name,
                                 tern_error *err)
{
    tern_chat_message message = {.role = role};
    if (json_is_array(content)) {
        TERN_TRY(join(ask, content, name, &message, err));
        return add_message(ask, message, err);
    }
    if (!json_is_string(content)) return tern_fields_fail(name, content, "a string or a list of parts", err);
    return tern_ask_add_text(ask, role, json_string_value(content), json_string_length(content), err);
}

tern_status tern_ask_put_first(tern_ask *ask, const char *role, const json_t *content, const char *name,
                               tern_error *err)
{
    TERN_TRY(tern_ask_add_message(ask, role, content, name, err));
    const tern_chat_message last = ask->messages[ask->n_messages - 1];
    memmove(ask->messages + 1, ask->messages, (ask->n_messages - 1) * sizeof last);
    ask->messages[0] = last;
    if (ask->more && json_array_insert_new(ask->more, 0, json_null()) != 0) return tern_fail_alloc(err, sizeof last);
    return TERN_OK;
}

/* What a message of tools has beside its text. */
static tern_status read_calls(tern_ask *ask, const json_t *message, const char *name, tern_error *err)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    const json_t *called = json_object_get(message, "tool_name"); /* Ollama's */
    if (json_is_array(calls) && json_array_size(calls)) TERN_TRY(tern_ask_add_calls(ask, calls, name, err));
    if (strcmp(ask->messages[ask->n_messages - 1].role, "tool") != 0) return TERN_OK;
    return tern_ask_add_result(ask, json_object_get(message, "tool_call_id"),
                               called ? called : json_object_get(message, "name"), err);
}

static tern_status read_message(tern_ask *ask, const json_t *message, size_t i, tern_error *err)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content");
    char name[48];
    snprintf(name, sizeof name, "messages[%zu]", i);
    if (!json_is_object(message)) return tern_fields_fail(name, message, "an object", err);
    if (!role) return tern_fields_fail(name, json_object_get(message, "role"), "a role", err);
    if (tern_json_has(message, "images"))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s.images: images are not supported", name);
    if (strcmp(role, "developer") == 0) role = "system"; /* the newer word for it */
    snprintf(name, sizeof name, "messages[%zu].content", i);
    if (tern_json_has(message, "tool_calls") && (!content || json_is_null(content)))
        TERN_TRY(tern_ask_add_text(ask, role, "", 0, err));
    else TERN_TRY(tern_ask_add_message(ask, role, content, name, err));
    snprintf(name, sizeof name, "messages[%zu].tool_calls", i);
    return read_calls(ask, message, name, err);
}

tern_status tern_ask_read_messages(void *into, const json_t *value, tern_error *err)
{
    if (!json_is_array(value) || json_array_size(value) == 0)
        return tern_fields_fail("messages", value, "a list of at least one message", err);
    for (size_t i = 0; i < json_array_size(value); i++) TERN_TRY(read_message(into, json_array_get(value, i), i, err));
    return TERN_OK;
}

static tern_status add_prompt(tern_ask *ask, const json_t *value, tern_error *err)
{
    tern_ask_prompt prompt = {.text = json_string_value(value), .n = json_string_length(value)};
    if (json_is_array(value)) prompt.ids = value;
    else if (!json_is_string(value)) return tern_fields_fail("prompt", value, "a text or a list of token ids", err);
    if (ask->n_prompts == TERN_ASK_MAX_PROMPTS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "prompt: at most %d texts expected", TERN_ASK_MAX_PROMPTS);
    TERN_TRY(tern_grow((void **)&ask->prompts, &ask->cap_prompts, ask->n_prompts + 1, sizeof prompt, err));
    ask->prompts[ask->n_prompts++] = prompt;
    return TERN_OK;
}

tern_status tern_ask_read_prompts(void *into, const json_t *value, tern_error *err)
{
    const bool several = json_is_array(value) && !json_is_number(json_array_get(value, 0));
    if (!several) return add_prompt(into, value, err);
    for (size_t i = 0; i < json_array_size(value); i++) TERN_TRY(add_prompt(into, json_array_get(value, i), err));
    return TERN_OK;
}

tern_status tern_ask_constrain(tern_ask *ask, tern_grammar_kind kind, tern_error *err)
{
    if (ask->constrained)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "a grammar and a schema found for one answer, one of them expected");
    ask->grammar_kind = kind;
    ask->constrained = true;
    return TERN_OK;
}

tern_status tern_ask_read_grammar(void *into, const json_t *value, tern_error *err)
{
    tern_ask *ask = into;
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
        return tern_fields_fail("grammar", value, "a text in GBNF", err);
    if (json_string_length(value) == 0) return TERN_OK;
    ask->grammar = json_string_value(value);
    return tern_ask_constrain(ask, TERN_GRAMMAR_GBNF, err);
}

tern_status tern_ask_read_schema(void *into, const json_t *value, tern_error *err)
{
    tern_ask *ask = into;
    if (!json_is_object(value) && !json_is_boolean(value))
        return tern_fields_fail("the schema", value, "an object", err);
    ask->schema = value;
    return tern_ask_constrain(ask, TERN_GRAMMAR_SCHEMA, err);
}

tern_status tern_ask_finish(tern_ask *ask, tern_error *err)
{
    ask->sampler.biases = ask->biases;
    ask->sampler.n_biases = (uint32_t)ask->n_biases;
    if (ask->n == 0) ask->n = 1;
    if (ask->best_of < ask->n) ask->best_of = ask->n;
    if (ask->best_of > TERN_ASK_MAX_COMPLETIONS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "n: %u found, at most %d expected", ask->best_of,
                         TERN_ASK_MAX_COMPLETIONS);
    TERN_TRY(tern_ask_check_tools(ask, err));
    if (ask->seed_given) return TERN_OK;
    if (getrandom(&ask->sampler.seed, sizeof ask->sampler.seed, 0) == (ssize_t)sizeof ask->sampler.seed) return TERN_OK;
    return tern_fail(err, TERN_IO, "no random numbers of the system");
}
