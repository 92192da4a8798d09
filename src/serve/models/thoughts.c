/* Thoughts before an answer: whether the prompt opens them, and how many tokens they may have. */
#include <string.h>

#include "base/bytes.h"
#include "serve/server.h"

enum { TAIL_TOKENS = 32 }; /* of a prompt, in which a mark is looked for */

void tern_thoughts_resolve(tern_answer *a)
{
    tern_api_request *r = &a->request;
    const tern_serve_options *o = &a->exchange->server->options;
    if (o->no_thoughts && r->thinking == TERN_THINKING_AUTO && !r->budget_given) r->thinking = TERN_THINKING_OFF;
    if (r->thinking == TERN_THINKING_OFF) r->thought_budget = 0;
    else if (!r->budget_given && o->thought_budget) r->thought_budget = (int32_t)o->thought_budget;
}

bool tern_thoughts_wanted(const tern_answer *a)
{
    return a->host->marks && a->request.n_messages && !a->request.raw && !a->request.thoughts_in_text;
}

static tern_status tokenize_ending(tern_answer *a, const tern_host *host, tern_error *err)
{
    const char *message = a->exchange->server->options.thought_message;
    const bool says = message && a->request.thought_budget > 0;
    tern_buf text = {0};
    tern_status status;
    TERN_GOTO(tern_buf_addf(&text, err, "%s%s", says ? message : "", host->marks->ending));
    TERN_GOTO(tern_engine_tokenize(host->engine, text.data, text.size, TERN_TOKENIZE_SPECIAL, &a->ending, err));
fail:
    tern_buf_deinit(&text);
    return status;
}

/* The ending where the prompt itself opens thoughts that should not be. */
static tern_status close_at_once(tern_answer *a, const tern_host *host, tern_tokens *prompt, tern_error *err)
{
    const char *ending = host->marks->ending;
    a->opened = false;
    return tern_engine_tokenize(host->engine, ending, strlen(ending), TERN_TOKENIZE_SPECIAL, prompt, err);
}

tern_status tern_thoughts_prepare(tern_answer *a, tern_host *host, tern_error *err)
{
    tern_buf text = {0};
    tern_tokens *prompt = &a->prompts[0];
    if (a->request.needs_thoughts && !host->marks)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "think: the model %s does not support thinking", host->name);
    if (!a->request.n_messages || !host->marks) return TERN_OK;
    const size_t n = prompt->n < TAIL_TOKENS ? prompt->n : TAIL_TOKENS;
    tern_status status = tern_engine_detokenize(host->engine, prompt->ids + prompt->n - n, n, true, &text, err);
    a->opened = status == TERN_OK && tern_thought_marks_opened(host->marks, text.data, text.size);
    tern_buf_deinit(&text);
    TERN_TRY(status);
    if (a->opened && a->request.thought_budget == 0) return close_at_once(a, host, prompt, err);
    return a->request.thought_budget < 0 ? TERN_OK : tokenize_ending(a, host, err);
}

static void begin_grammar(const tern_answer_part *part, tern_completion *c)
{
    if (!part->answer->grammar || !part->answer->opened || c->thinks || c->constrained) return;
    c->constrained = true;
    tern_request_constrain(part->batch_request, c->index - part->first);
}

tern_status tern_thoughts_count(tern_answer_part *part, tern_completion *c, tern_error *err)
{
    const tern_answer *a = part->answer;
    const bool thought = c->thinks;
    if (!c->parser) return TERN_OK;
    c->thinks = tern_tool_parser_is_thinking(c->parser);
    c->n_thought += thought && c->thinks;
    begin_grammar(part, c);
    if (!c->thinks || a->ending.n == 0 || c->thoughts_ended) return TERN_OK;
    if ((int64_t)c->n_thought < a->request.thought_budget) return TERN_OK;
    c->thoughts_ended = true;
    return tern_request_force(part->batch_request, c->index - part->first, a->ending.ids, (uint32_t)a->ending.n, err);
}

uint32_t tern_thoughts_tokens(const tern_answer *a)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->n; i++) n += a->completions[i].n_thought;
    return n;
}
