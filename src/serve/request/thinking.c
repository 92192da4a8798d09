/* Variables of chat templates, how much a model thinks, and whether its last message is continued. */
#include <string.h>

#include "format/chat_json.h"
#include "format/json.h"
#include "serve/request/request.h"

#define AT(member) offsetof(tern_api_request, member)

tern_status tern_api_request_set_variable(tern_api_request *request, const char *name, json_t *value, tern_error *err)
{
    if (!request->variables) request->variables = json_object();
    if (json_object_set_new(request->variables, name, value) == 0) return TERN_OK;
    return tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
}

static tern_status set_word(tern_api_request *request, const char *name, const char *word, tern_error *err)
{
    return tern_api_request_set_variable(request, name, json_string(word), err);
}

tern_status tern_api_request_read_effort(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    static const char *const words[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    const char *word = json_string_value(value);
    for (size_t i = 0; word && i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i]) != 0) continue;
        request->thinking = i ? TERN_THINKING_ON : TERN_THINKING_OFF;
        return i ? set_word(request, "reasoning_effort", word, err) : TERN_OK;
    }
    return tern_fields_fail("reasoning_effort", value, "none, minimal, low, medium, high, xhigh or max", err);
}

tern_status tern_api_request_read_think(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    if (!json_is_boolean(value) && !json_is_string(value))
        return tern_fields_fail("think", value, "true, false or an effort", err);
    if (json_is_string(value)) TERN_TRY(tern_api_request_read_effort(request, value, err));
    else request->thinking = json_is_true(value) ? TERN_THINKING_ON : TERN_THINKING_OFF;
    request->needs_thoughts = request->thinking == TERN_THINKING_ON;
    return TERN_OK;
}

static tern_status read_budget(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    int64_t n;
    if (!tern_json_int(value, &n) || n < -1 || n > 1 << 24)
        return tern_fields_fail("the budget of thoughts", value, "a whole number from 0 to 16777216, or -1", err);
    request->budget_given = true;
    request->thought_budget = (int32_t)n;
    if (n == 0) request->thinking = TERN_THINKING_OFF;
    return TERN_OK;
}

tern_status tern_api_request_read_thinking(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    const json_t *type = json_object_get(value, "type"), *budget = json_object_get(value, "budget_tokens");
    const char *word = json_string_value(type);
    const bool off = word && strcmp(word, "disabled") == 0;
    if (!off && (!word || (strcmp(word, "enabled") != 0 && strcmp(word, "adaptive") != 0)))
        return tern_fields_fail("thinking: type", type, "enabled, adaptive or disabled", err);
    request->thinking = off ? TERN_THINKING_OFF : TERN_THINKING_ON;
    return budget && !off ? read_budget(request, budget, err) : TERN_OK;
}

tern_status tern_api_request_read_verbosity(void *into, const json_t *value, tern_error *err)
{
    static const char *const words[] = {"low", "medium", "high"};
    const char *word = json_string_value(value);
    for (size_t i = 0; word && i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0) return set_word(into, "verbosity", word, err);
    return tern_fields_fail("verbosity", value, "low, medium or high", err);
}

static tern_status read_enabled(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    if (!json_is_boolean(value)) return tern_fields_fail("enable_thinking", value, "true or false", err);
    request->thinking = json_is_true(value) ? TERN_THINKING_ON : TERN_THINKING_OFF;
    return TERN_OK;
}

tern_status tern_api_request_read_variables(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    const char *name;
    json_t *member;
    if (!json_is_object(value)) return tern_fields_fail("chat_template_kwargs", value, "an object", err);
    if ((name = tern_chat_json_own_variable(value)))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "chat_template_kwargs: %s found, which the request itself gives",
                         name);
    json_object_foreach((json_t *)(uintptr_t)value, name, member)
    {
        if (strcmp(name, "enable_thinking") == 0) TERN_TRY(read_enabled(request, member, err));
        else TERN_TRY(tern_api_request_set_variable(request, name, json_incref(member), err));
    }
    return TERN_OK;
}

static tern_status read_format(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    const char *word = json_string_value(value);
    request->thoughts_in_text = word && strcmp(word, "none") == 0;
    if (word && (request->thoughts_in_text || strcmp(word, "auto") == 0 || strcmp(word, "deepseek") == 0))
        return TERN_OK;
    return tern_fields_fail("reasoning_format", value, "auto, deepseek or none", err);
}

static tern_status read_continue(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    if (!json_is_boolean(value)) return tern_fields_fail("continue_final_message", value, "true or false", err);
    request->continues = json_is_true(value);
    request->starts_turn = !request->continues;
    return TERN_OK;
}

static tern_status read_generation_prompt(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    if (!json_is_boolean(value)) return tern_fields_fail("add_generation_prompt", value, "true or false", err);
    request->no_generation_prompt = json_is_false(value);
    return TERN_OK;
}

const tern_field tern_api_thinking[] = {
    {"chat_template_kwargs", TERN_FIELD_READ, .read = tern_api_request_read_variables},
    {"enable_thinking", TERN_FIELD_READ, .read = read_enabled},
    {"reasoning_effort", TERN_FIELD_READ, .read = tern_api_request_read_effort},
    {"thinking", TERN_FIELD_READ, .read = tern_api_request_read_thinking},
    {"thinking_budget_tokens", TERN_FIELD_READ, .read = read_budget},
    {"reasoning_budget", TERN_FIELD_READ, .read = read_budget},
    {"reasoning_budget_tokens", TERN_FIELD_READ, .read = read_budget},
    {"reasoning_format", TERN_FIELD_READ, .read = read_format},
    {"continue_final_message", TERN_FIELD_READ, .read = read_continue},
    {"add_generation_prompt", TERN_FIELD_READ, .read = read_generation_prompt},
    {0},
};
