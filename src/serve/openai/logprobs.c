/* Log-probabilities in the two forms of the OpenAI API. */
#include <math.h>

#include "base/bytes.h"
#include "serve/openai/openai.h"

/* JSON has no infinities: what cannot be is as unlikely as -9999. */
static json_t *number(float logprob)
{
    if (isnan(logprob)) return json_null();
    return json_real(logprob < -9999 ? -9999.0 : (double)logprob);
}

static json_t *entry(const tern_answer *a, int32_t id, float logprob)
{
    tern_buf text = {0};
    json_t *bytes = json_array();
    (void)tern_answer_token_text(a, id, &text, NULL);
    for (size_t i = 0; i < text.size; i++) json_array_append_new(bytes, json_integer((unsigned char)text.data[i]));
    json_t *e = json_pack("{s:o, s:o, s:o}", "token", tern_serve_string(text.data, text.size), "logprob",
                          number(logprob), "bytes", bytes);
    tern_buf_deinit(&text);
    return e;
}

json_t *tern_openai__chat_logprobs(const tern_answer *a, const tern_completion *c, size_t first)
{
    if (!a->request.logprobs) return json_null();
    json_t *content = json_array();
    for (size_t i = first; i < c->n_tokens; i++) {
        const tern_answer_token *t = &c->tokens[i];
        json_t *e = entry(a, t->id, t->logprob), *top = json_array();
        for (uint32_t k = 0; k < t->n_top; k++) {
            const tern_token_logprob *other = &c->tops[t->first_top + k];
            json_array_append_new(top, entry(a, other->id, other->logprob));
        }
        json_object_set_new(e, "top_logprobs", top);
        json_array_append_new(content, e);
    }
    return json_pack("{s:o, s:n}", "content", content, "refusal");
}

static json_t *token_string(const tern_answer *a, int32_t id)
{
    tern_buf text = {0};
    (void)tern_answer_token_text(a, id, &text, NULL);
    json_t *string = tern_serve_string(text.data, text.size);
    tern_buf_deinit(&text);
    return string;
}

/* The characters that a token adds to the answer's text, which has no special tokens. One of several tokens counts for
 * the first of them. */
static size_t characters(const tern_answer *a, int32_t id)
{
    tern_buf text = {0};
    size_t n = 0;
    (void)tern_engine_detokenize(a->host->engine, &id, 1, false, &text, NULL);
    for (size_t i = 0; i < text.size; i++) n += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    tern_buf_deinit(&text);
    return n;
}

static json_t *tops_of(const tern_answer *a, const tern_completion *c, const tern_answer_token *t)
{
    if (!t->n_top) return json_null();
    json_t *top = json_object();
    for (uint32_t k = 0; k < t->n_top; k++) {
        const tern_token_logprob *other = &c->tops[t->first_top + k];
        json_t *name = token_string(a, other->id);
        json_object_set_new(top, json_string_value(name), number(other->logprob));
        json_decref(name);
    }
    return top;
}

json_t *tern_openai__text_logprobs(const tern_answer *a, const tern_completion *c, size_t first)
{
    if (!a->request.logprobs) return json_null();
    json_t *tokens = json_array(), *own = json_array(), *tops = json_array(), *offsets = json_array();
    size_t at = 0;
    for (size_t i = 0; i < c->n_tokens; at += characters(a, c->tokens[i++].id)) {
        if (i < first) continue;
        json_array_append_new(tokens, token_string(a, c->tokens[i].id));
        json_array_append_new(own, number(c->tokens[i].logprob));
        json_array_append_new(tops, tops_of(a, c, &c->tokens[i]));
        json_array_append_new(offsets, json_integer((json_int_t)at));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", own, "top_logprobs", tops,
                     "text_offset", offsets);
}
