/* Grammars, calls of tools and log-probabilities as one filter of tokens. */
#include "web/web_filter.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "infer/session/session.h"
#include "web/web_tools.h"

static void sort_in(tern_token_logprob *top, uint32_t *n, uint32_t most, int32_t id, float logit)
{
    if (*n == most && !(logit > top[most - 1].logprob)) return;
    uint32_t at = *n < most ? (*n)++ : most - 1;
    for (; at > 0 && logit > top[at - 1].logprob; at--) top[at] = top[at - 1];
    top[at] = (tern_token_logprob){id, logit};
}

/* last[0 ..]: log softmax of the model's logits. */
static void measure(web_filter *f, int32_t id)
{
    double sum = 0, highest = -INFINITY;
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n_vocab; i++) highest = fmax(highest, (double)f->logits[i]);
    for (uint32_t i = 0; i < f->n_vocab; i++) {
        sum += exp((double)f->logits[i] - highest);
        if (f->n_top) sort_in(f->last + 1, &n, f->n_top, (int32_t)i, f->logits[i]);
    }
    const double base = highest + log(sum);
    f->last[0] = (tern_token_logprob){id, (float)((double)f->logits[id] - base)};
    for (uint32_t i = 1; i <= n; i++) f->last[i].logprob = (float)((double)f->last[i].logprob - base);
}

static tern_status mask(void *context, uint32_t *words, size_t n_words, tern_error *err)
{
    web_filter *f = context;
    if (f->logprobs) {
        float *logits;
        TERN_TRY(tern_session_logits(f->session, 0, &logits, err));
        memcpy(f->logits, logits, f->n_vocab * sizeof *logits);
    }
    if (f->constraint.mask) return f->constraint.mask(f->constraint.context, words, n_words, err);
    memset(words, 0xff, n_words * sizeof *words);
    return TERN_OK;
}

static tern_status accept(void *context, int32_t id, tern_error *err)
{
    web_filter *f = context;
    if (f->logprobs) measure(f, id);
    return f->constraint.accept ? f->constraint.accept(f->constraint.context, id, err) : TERN_OK;
}

static tern_status open_grammar(web_filter *f, const json_t *grammar, tern_error *err)
{
    static const char *const kinds[] = {[TERN_GRAMMAR_GBNF] = "gbnf",
                                        [TERN_GRAMMAR_SCHEMA] = "schema",
                                        [TERN_GRAMMAR_REGEX] = "regex",
                                        [TERN_GRAMMAR_JSON] = "json"};
    const char *kind = json_string_value(json_object_get(grammar, "kind"));
    const json_t *source = json_object_get(grammar, "source");
    for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kind, kinds[i]) == 0)
            return tern_grammar_open(&f->grammar, f->vocab, (tern_grammar_kind)i,
                                     json_is_string(source) ? json_string_value(source) : "",
                                     json_string_length(source), err);
    return tern_fail(err, TERN_INVALID_ARGUMENT, "option grammar: kind schema, json, gbnf or regex expected");
}

static tern_status open_calls(web_filter *f, const json_t *tools, tern_error *err)
{
    char *list = json_dumps(json_object_get(tools, "list"), JSON_COMPACT);
    if (!list) return tern_fail(err, TERN_INVALID_ARGUMENT, "option tools: a list expected");
    const tern_status status = tern_grammar_open_tools(
        &f->grammar, f->vocab, tern_web__tool_form(tern_engine_tokenizer(tern_session_engine(f->session))), list,
        strlen(list), json_string_value(json_object_get(tools, "name")),
        json_is_true(json_object_get(tools, "parallel")), err);
    tern_free(list); /* jansson has base/alloc.h's */
    return status;
}

static tern_status constrain(web_filter *f, const json_t *grammar, const json_t *tools, tern_error *err)
{
    const tern_tokenizer *tokenizer = tern_engine_tokenizer(tern_session_engine(f->session));
    if (!tokenizer) return tern_fail(err, TERN_UNSUPPORTED, "grammar: the model has no tokenizer");
    TERN_TRY(tern_grammar_vocab_open(&f->vocab, tokenizer, err));
    TERN_TRY(grammar ? open_grammar(f, grammar, err) : open_calls(f, tools, err));
    TERN_TRY(tern_grammar_state_open(&f->state, f->grammar, err));
    f->constraint = tern_grammar_state_filter(f->state);
    return TERN_OK;
}

tern_status tern_web__filter_open(web_filter *f, tern_session *session, const json_t *grammar, const json_t *tools,
                                  tern_error *err)
{
    f->session = session;
    f->filter = (tern_token_filter){mask, accept, f};
    f->n_vocab = tern_engine_config(tern_session_engine(session))->n_vocab;
    if (f->n_top > TERN_WEB_MAX_TOP)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "option topLogprobs: %u, at most %d expected", f->n_top,
                         TERN_WEB_MAX_TOP);
    if (f->n_top > f->n_vocab) f->n_top = f->n_vocab;
    if (f->logprobs) {
        f->logits = tern_calloc(f->n_vocab, sizeof *f->logits);
        if (!f->logits) return tern_fail_alloc(err, f->n_vocab * sizeof *f->logits);
    }
    return grammar || tools ? constrain(f, grammar, tools, err) : TERN_OK;
}

const tern_token_filter *tern_web__filter_of(const web_filter *f)
{
    return f->logprobs || f->state ? &f->filter : NULL;
}

void tern_web__filter_close(web_filter *f)
{
    tern_grammar_state_close(f->state);
    tern_grammar_close(f->grammar);
    tern_grammar_vocab_close(f->vocab);
    tern_free(f->logits);
}
