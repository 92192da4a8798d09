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
    TERN_TRY(tern_app_open_reader(&t->engine, options, err));
    TERN_TRY(tern_chat_template_choose(&t->template, t->engine, options->template, err));
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
    tern_free(t->file);
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
    char *copy = tern_alloc(n + 1);
    if (!copy) return tern_fail_alloc(err, n + 1);
    memcpy(copy, content, n);
    copy[n] = 0;
    t->messages[t->n++] = (tern_chat_message){role, copy, n};
    return TERN_OK;
}

void tern_chat_talk_truncate(tern_chat_talk *t, size_t keep)
{
    while (t->n > keep) free_content(&t->messages[--t->n]);
}

static bool has_system(const tern_chat_talk *t)
{
    return t->n && strcmp(t->messages[0].role, "system") == 0;
}

static void remove_message(tern_chat_talk *t, size_t at)
{
    free_content(&t->messages[at]);
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
    t->messages[0] = system;
    t->n++;
    return TERN_OK;
}

/* Renders the conversation, forgetting its oldest turns where the context is too small and that is allowed. */
static tern_status render(tern_chat_talk *t, tern_error *err)
{
    const size_t n_ctx = tern_session_n_ctx(t->session);
    for (;;) {
        const size_t first = has_system(t);
        t->ids.n = 0;
        TERN_TRY(tern_engine_chat_prompt(t->engine, t->template, t->messages, t->n, true, &t->ids, err));
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

static bool on_piece(void *context, const tern_piece *piece)
{
    tern_chat_talk *t = context;
    tern_error err;
    if (piece->n_text) {
        bool shown = tern_chat_style_write(&t->style, piece->text, piece->n_text) && tern_app_flushed();
        t->failed = !shown || tern_buf_add(&t->answer, piece->text, piece->n_text, &err) != TERN_OK;
    }
    return !t->failed && !tern_app_interrupted();
}

static tern_status generate(tern_chat_talk *t, tern_error *err)
{
    tern_app_generation g;
    uint32_t common = common_tokens(t);
    tern_status status;
    TERN_GOTO(tern_app_generation_init(&g, t->options, err));
    TERN_GOTO(tern_app_generation_constrain(&g, t->options, t->engine, err));
    g.params.on_piece = on_piece;
    g.params.context = t;
    g.params.draft = t->draft.session;
    g.params.context_shift = false;
    t->cost = (tern_app_cost){.seed = g.params.sampler.seed, .result.size = sizeof t->cost.result};
    t->failed = false;
    t->answer.size = 0;
    tern_session_truncate(t->session, common);
    TERN_GOTO(
        tern_generate(t->session, t->ids.ids + common, (uint32_t)t->ids.n - common, &g.params, &t->cost.result, err));
    tern_app_note_steps(&t->cost.result, t->options);
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
    return tern_chat_talk_add(t, "assistant", t->answer.data ? t->answer.data : "", t->answer.size, err);
}
