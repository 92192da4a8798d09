/* Answers of llama.cpp's server that generate. */
#include <math.h>

#include "base/bytes.h"
#include "serve/native/native.h"

static json_t *number(float logprob)
{
    return json_real(logprob < -9999 || isnan(logprob) ? -9999.0 : (double)logprob);
}

static json_t *entry(const tern_answer *a, int32_t id, float logprob)
{
    tern_buf text = {0};
    (void)tern_answer_token_text(a, id, &text, NULL);
    json_t *e = json_pack("{s:I, s:o, s:o}", "id", (json_int_t)id, "token", tern_serve_string(text.data, text.size),
                          "logprob", number(logprob));
    tern_buf_deinit(&text);
    return e;
}

static void add_probabilities(const tern_answer *a, const tern_completion *c, size_t first, json_t *document)
{
    if (!a->request.logprobs) return;
    json_t *list = json_array();
    for (size_t i = first; i < c->n_tokens; i++) {
        const tern_answer_token *t = &c->tokens[i];
        json_t *e = entry(a, t->id, t->logprob), *top = json_array();
        for (uint32_t k = 0; k < t->n_top; k++) {
            const tern_token_logprob *other = &c->tops[t->first_top + k];
            json_array_append_new(top, entry(a, other->id, other->logprob));
        }
        json_object_set_new(e, "top_logprobs", top);
        json_array_append_new(list, e);
    }
    json_object_set_new(document, "completion_probabilities", list);
}

static void piece(tern_answer *a, tern_completion *c, const char *text, size_t n, size_t first)
{
    json_t *document = json_pack("{s:i, s:o, s:[], s:b, s:i}", "index", (int)c->index, "content",
                                 tern_serve_string(text, n), "tokens", "stop", 0, "id_slot", -1);
    add_probabilities(a, c, first, document);
    tern_answer_event(a, NULL, document);
}

static const char *stop_type(const tern_completion *c)
{
    if (c->reason == TERN_STOP_STRING) return "word";
    return c->reason == TERN_STOP_END_TOKEN ? "eos" : "limit";
}

static json_t *timings(const tern_answer *a)
{
    const double prompt = a->prefill_ms > 0 ? a->prefill_ms : 1e-9, decode = a->decode_ms > 0 ? a->decode_ms : 1e-9;
    return json_pack("{s:I, s:I, s:f, s:f, s:I, s:f, s:f}", "cache_n", (json_int_t)a->n_cached, "prompt_n",
                     (json_int_t)a->n_prompt - a->n_cached, "prompt_ms", a->prefill_ms, "prompt_per_second",
                     ((double)a->n_prompt - a->n_cached) / prompt * 1e3, "predicted_n", (json_int_t)a->n_generated,
                     "predicted_ms", a->decode_ms, "predicted_per_second", a->n_generated / decode * 1e3);
}

static json_t *last(const tern_answer *a, json_t *content)
{
    const tern_completion *c = &a->completions[0];
    return json_pack("{s:i, s:o, s:[], s:i, s:b, s:s, s:I, s:I, s:I, s:s, s:s, s:b, s:o}", "index", 0, "content",
                     content, "tokens", "id_slot", -1, "stop", 1, "model", a->exchange->model, "tokens_predicted",
                     (json_int_t)a->n_generated, "tokens_evaluated", (json_int_t)a->n_prompt, "tokens_cached",
                     (json_int_t)a->n_cached, "stop_type", stop_type(c), "stopping_word", c->stop ? c->stop : "",
                     "truncated", 0, "timings", timings(a));
}

static void finish(tern_answer *a)
{
    tern_answer_event(a, NULL, last(a, json_string("")));
}

static json_t *whole(tern_answer *a)
{
    const tern_completion *c = &a->completions[0];
    json_t *document = last(a, tern_serve_string(c->text.data, c->text.size));
    add_probabilities(a, c, 0, document);
    return document;
}

const tern_dialect tern_native__completion = {
    .stream_type = "text/event-stream", .piece = piece, .finish = finish, .whole = whole};
