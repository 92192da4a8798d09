/* Answers of llama.cpp's server that generate. */
#include <math.h>
#include <stdio.h>
#include <string.h>

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

/* n tokens in ms, as members whose names begin with `name`. */
static void add_pace(json_t *timings, const char *name, json_int_t n, double ms)
{
    const struct {
        const char *ending;
        json_t *value;
    } members[] = {{"n", json_integer(n)},
                   {"ms", json_real(ms)},
                   {"per_token_ms", json_real(n > 0 ? ms / (double)n : 0)},
                   {"per_second", json_real(ms > 0 ? (double)n / ms * 1e3 : 0)}};
    char member[48];
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        snprintf(member, sizeof member, "%s_%s", name, members[i].ending);
        json_object_set_new(timings, member, members[i].value);
    }
}

static json_t *timings(const tern_answer *a)
{
    json_t *made = json_pack("{s:I}", "cache_n", (json_int_t)a->n_cached);
    add_pace(made, "prompt", (json_int_t)a->n_prompt - a->n_cached, a->prefill_ms);
    add_pace(made, "predicted", (json_int_t)a->n_generated, a->decode_ms);
    return made;
}

/* The value at a path of names with slashes between; NULL: there is none. */
static json_t *at_path(json_t *document, const char *path)
{
    char name[64];
    for (; document && *path; path += *path == '/') {
        const size_t n = strcspn(path, "/");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        document = n < sizeof name ? json_object_get(document, name) : NULL;
        path += n;
    }
    return document;
}

/* The members of a document that the request names by their paths; takes the document. */
static json_t *select_fields(const tern_answer *a, json_t *document)
{
    const json_t *paths = a->request.wanted_fields;
    if (!paths) return document;
    json_t *chosen = json_object();
    for (size_t i = 0; i < json_array_size(paths); i++) {
        const char *path = json_string_value(json_array_get(paths, i));
        json_t *found = *path ? at_path(document, path) : NULL;
        if (found) json_object_set(chosen, path, found);
    }
    json_decref(document);
    return chosen;
}

static json_t *last(const tern_answer *a, json_t *content)
{
    const tern_completion *c = &a->completions[0];
    return json_pack("{s:i, s:o, s:[], s:i, s:b, s:s, s:I, s:I, s:I, s:s, s:s, s:b, s:o}", "index", 0, "content",
                     content, "tokens", "id_slot", -1, "stop", 1, "model", a->exchange->model, "tokens_predicted",
                     (json_int_t)a->n_generated, "tokens_evaluated", (json_int_t)a->n_prompt, "tokens_cached",
                     (json_int_t)a->n_cached, "stop_type", stop_type(c), "stopping_word", c->stop ? c->stop : "",
                     "truncated", a->shortened, "timings", timings(a));
}

static void finish(tern_answer *a)
{
    tern_answer_event(a, NULL, select_fields(a, last(a, json_string(""))));
}

static json_t *whole(tern_answer *a)
{
    const tern_completion *c = &a->completions[0];
    json_t *document = last(a, tern_serve_string(c->text.data, c->text.size));
    add_probabilities(a, c, 0, document);
    return select_fields(a, document);
}

const tern_dialect tern_native__completion = {
    .stream_type = "text/event-stream", .piece = piece, .finish = finish, .whole = whole};
