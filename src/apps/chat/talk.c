/* Conversations: rendering, answering, keeping the session's tokens. */
#include "apps/chat/talk.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/show.h"

enum { LEAST_ANSWER = 16 }; /* tokens of context that an answer should find free */

tern_status tern_chat_talk_open(tern_chat_talk *t, tern_options *options, tern_error *err)
{
    *t = (tern_chat_talk){.options = options};
    const uint32_t n_drafted = tern_app_draft_tokens(options);
    json_t *variables;
    int thinks;
    TERN_TRY(tern_chat_variables_read(&variables, &thinks, options, err));
    json_decref(variables);
    TERN_TRY(tern_app_open_reader(&t->engine, options, err));
    TERN_TRY(tern_chat_template_choose(&t->template, t->engine, options->template, err));
    TERN_TRY(tern_chat_thoughts_open(&t->thinking, t->engine, options, err));
    t->thinking.folded = options->fold_thoughts;
    TERN_TRY(tern_app_load_loras(&t->loras, options, t->engine, err));
    tern_session_params params = {.size = sizeof params,
                                  .max_outputs = n_drafted + 1,
                                  .host_sampling = n_drafted > 0,
                                  .loras = t->loras.uses,
                                  .n_loras = t->loras.n};
    TERN_TRY(tern_app_open_session(&t->session, t->engine, options, params, err));
    TERN_TRY(tern_app_draft_open(&t->draft, options, tern_session_n_ctx(t->session), err));
    return options->system ? tern_chat_talk_set_system(t, options->system, strlen(options->system), err) : TERN_OK;
}

void tern_chat_talk_close(tern_chat_talk *t)
{
    tern_chat_talk_truncate(t, 0);
    tern_free(t->messages);
    tern_free(t->thoughts);
    tern_chat_thoughts_close(&t->thinking);
    tern_free(t->file);
    for (size_t i = 0; i < t->n_settings; i++) tern_free(t->settings[i]);
    tern_free(t->settings);
    tern_tokens_deinit(&t->ids);
    tern_buf_deinit(&t->answer);
    tern_chat_template_close(t->template);
    tern_app_draft_close(&t->draft);
    tern_session_close(t->session);
    tern_app_close_loras(&t->loras);
    tern_engine_close(t->engine);
    *t = (tern_chat_talk){0};
}

static void free_content(tern_chat_message *m)
{
    tern_free((void *)(uintptr_t)m->content);
}

tern_status tern_chat_talk_add(tern_chat_talk *t, const char *role, const char *content, size_t n, tern_error *err)
{
    void *messages = t->messages;
    TERN_TRY(tern_grow(&messages, &t->cap, t->n + 1, sizeof *t->messages, err));
    t->messages = messages;
    void *thoughts = t->thoughts;
    TERN_TRY(tern_grow(&thoughts, &t->thoughts_cap, t->n + 1, sizeof *t->thoughts, err));
    t->thoughts = thoughts;
    char *copy = tern_alloc(n + 1);
    if (!copy) return tern_fail_alloc(err, n + 1);
    memcpy(copy, content, n);
    copy[n] = 0;
    t->thoughts[t->n] = NULL;
    t->messages[t->n++] = (tern_chat_message){role, copy, n};
    return TERN_OK;
}

tern_status tern_chat_talk_add_thoughts(tern_chat_talk *t, const char *text, size_t n, tern_error *err)
{
    t->thoughts[t->n - 1] = tern_strndup(text, n);
    return t->thoughts[t->n - 1] ? TERN_OK : tern_fail_alloc(err, n);
}

void tern_chat_talk_truncate(tern_chat_talk *t, size_t keep)
{
    while (t->n > keep) {
        free_content(&t->messages[--t->n]);
        tern_free(t->thoughts[t->n]);
    }
}

static bool has_system(const tern_chat_talk *t)
{
    return t->n && strcmp(t->messages[0].role, "system") == 0;
}

static void remove_message(tern_chat_talk *t, size_t at)
{
    free_content(&t->messages[at]);
    tern_free(t->thoughts[at]);
    memmove(t->thoughts + at, t->thoughts + at + 1, (t->n - at - 1) * sizeof *t->thoughts);
    memmove(t->messages + at, t->messages + at + 1, (t->n - at - 1) * sizeof *t->messages);
    t->n--;
}

tern_status tern_chat_talk_set_system(tern_chat_talk *t, const char *content, size_t n, tern_error *err)
{
    if (n) TERN_TRY(tern_chat_talk_add(t, "system", content, n, err));
    tern_chat_message system = n ? t->messages[--t->n] : (tern_chat_message){0};
    if (has_system(t)) remove_message(t, 0);
    if (n == 0) return TERN_OK;
    memmove(t->messages + 1, t->messages, t->n * sizeof *t->messages);
    memmove(t->thoughts + 1, t->thoughts, t->n * sizeof *t->thoughts);
    t->thoughts[0] = NULL;
    t->messages[0] = system;
    t->n++;
    return TERN_OK;
}

/* Whether the template is told of more than messages. */
static bool has_variables(const tern_chat_talk *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->thoughts[i]) return true;
    return t->options->thought_budget_given || t->options->variables;
}

static json_t *message_of(const tern_chat_talk *t, size_t i)
{
    const tern_chat_message *m = &t->messages[i];
    json_t *message = json_pack("{s:s, s:o}", "role", m->role, "content", tern_app_json_text(m->content, m->n_content));
    static const char *const names[] = {"reasoning_content", "thinking"}; /* as templates know them */
    for (size_t k = 0; t->thoughts[i] && k < sizeof names / sizeof *names; k++)
        json_object_set_new(message, names[k], tern_app_json_text(t->thoughts[i], strlen(t->thoughts[i])));
    return message;
}

static tern_status render_variables(tern_chat_talk *t, tern_error *err)
{
    json_t *all = json_pack("{s:[], s:b}", "messages", "add_generation_prompt", 1), *given;
    int thinks;
    tern_status status = tern_chat_variables_read(&given, &thinks, t->options, err);
    if (thinks < 0 && t->options->thought_budget_given) thinks = t->options->thought_budget > 0;
    t->thinking.off = thinks == 0;
    for (size_t i = 0; i < t->n; i++) json_array_append_new(json_object_get(all, "messages"), message_of(t, i));
    if (thinks >= 0) {
        json_object_set_new(all, "enable_thinking", json_boolean(thinks));
        json_object_set_new(all, "thinking", json_boolean(thinks));
    }
    if (given) json_object_update(all, given);
    json_decref(given);
    char *text = status == TERN_OK ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    TERN_TRY(status);
    if (!text) return tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
    status = tern_engine_chat_prompt_json(t->engine, t->template, text, strlen(text), &t->ids, err);
    tern_free(text);
    return status;
}

static tern_status render_once(tern_chat_talk *t, tern_error *err)
{
    t->ids.n = 0;
    t->thinking.off = false;
    if (has_variables(t)) return render_variables(t, err);
    return tern_engine_chat_prompt(t->engine, t->template, t->messages, t->n, true, &t->ids, err);
}

/* Renders the conversation, forgetting its oldest turns where the context is too small and that is allowed. */
static tern_status render(tern_chat_talk *t, tern_error *err)
{
    const size_t n_ctx = tern_session_n_ctx(t->session);
    for (;;) {
        const size_t first = has_system(t);
        TERN_TRY(render_once(t, err));
        if (t->ids.n == 0)
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "the chat template renders this conversation to an empty text");
        if (t->ids.n + LEAST_ANSWER <= n_ctx) return TERN_OK;
        if (!t->options->context_shift || t->n < first + 3) break;
        remove_message(t, first);
        remove_message(t, first);
    }
    return tern_fail(err, TERN_CONTEXT_FULL,
                     "the conversation has %zu tokens, the context %zu: /clear forgets it, --ctx makes more room, "
                     "--context-shift forgets the oldest turns",
                     t->ids.n, n_ctx);
}

/* How many tokens the session and the conversation have in common; at least one token is left to evaluate. */
static uint32_t common_tokens(const tern_chat_talk *t)
{
    const int32_t *held = tern_session_tokens(t->session);
    uint32_t n = tern_session_n_tokens(t->session), i = 0;
    while (i < n && i + 1 < t->ids.n && held[i] == t->ids.ids[i]) i++;
    return i;
}

/* The last piece: its thoughts, and its part of the answer. */
static bool show(tern_chat_talk *t)
{
    const tern_buf *thought = &t->thinking.thought, *fresh = &t->thinking.fresh;
    bool shown = true;
    if (thought->size) shown = tern_chat_style_think(&t->style, thought->data, thought->size, t->thinking.folded);
    if (fresh->size)
        shown = tern_chat_style_write(&t->style, fresh->data, fresh->size) && shown &&
                tern_buf_add(&t->answer, fresh->data, fresh->size, NULL) == TERN_OK;
    return shown && tern_app_flushed();
}

static bool on_piece(void *context, const tern_piece *piece)
{
    tern_chat_talk *t = context;
    tern_error err;
    t->failed = tern_chat_thoughts_read(&t->thinking, piece->text, piece->n_text, false, &err) != TERN_OK || !show(t);
    return !t->failed && !tern_app_interrupted();
}

static tern_status generate(tern_chat_talk *t, tern_error *err)
{
    tern_app_generation g;
    uint32_t common;
    tern_status status;
    TERN_GOTO(tern_app_generation_init(&g, t->options, err));
    TERN_GOTO(tern_app_generation_constrain(&g, t->options, t->engine, err));
    g.params.on_piece = on_piece;
    g.params.context = t;
    g.params.draft = t->draft.session;
    g.params.context_shift = false;
    TERN_GOTO(tern_chat_thoughts_begin(&t->thinking, t->engine, t->options, &t->ids, &g.params, err));
    common = common_tokens(t);
    t->cost = (tern_app_cost){.seed = g.params.sampler.seed, .result.size = sizeof t->cost.result};
    t->failed = false;
    t->answer.size = 0;
    tern_session_truncate(t->session, common);
    TERN_GOTO(
        tern_generate(t->session, t->ids.ids + common, (uint32_t)t->ids.n - common, &g.params, &t->cost.result, err));
    tern_app_note_steps(&t->cost.result, t->options);
    TERN_GOTO(tern_chat_thoughts_read(&t->thinking, NULL, 0, true, err));
    t->failed |= !show(t);
fail:
    tern_app_generation_deinit(&g);
    return status;
}

tern_status tern_chat_talk_answer(tern_chat_talk *t, tern_error *err)
{
    TERN_TRY(render(t, err));
    tern_chat_style_begin(&t->style);
    const tern_status status = generate(t, err);
    tern_chat_style_end(&t->style);
    TERN_TRY(status);
    putchar('\n');
    if (t->cost.result.reason == TERN_STOP_CONTEXT) fputs("(the context is full: the answer was cut short)\n", stderr);
    TERN_TRY(tern_chat_talk_add(t, "assistant", t->answer.data ? t->answer.data : "", t->answer.size, err));
    const tern_buf *thoughts = &t->thinking.text;
    return thoughts->size ? tern_chat_talk_add_thoughts(t, thoughts->data, thoughts->size, err) : TERN_OK;
}
