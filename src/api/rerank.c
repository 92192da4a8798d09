/* Rating documents by a query: what a model has for it, prompts and scores. */
#include <math.h>

#include "base/sized.h"
#include "infer/engine/engine.h"
#include "tern.h"
#include "text/rerank.h"

static const tern_classifier *classifier_of(const tern_engine *engine)
{
    const tern_model *model = tern_engine_model(engine);
    return model ? tern_model_classifier(model) : NULL;
}

static tern_status find(const tern_engine *engine, bool any, tern_reranker *r, tern_error *err)
{
    const tern_tokenizer *t = tern_engine_tokenizer(engine);
    const tern_classifier *c = classifier_of(engine);
    if (!t) return tern_fail(err, TERN_UNSUPPORTED, "the model has no tokenizer");
    r->classifier = c != NULL;
    r->yes = r->no = -1;
    if (c && c->n_labels > 2)
        return tern_fail(err, TERN_UNSUPPORTED, "the model's classifier has %u labels, 1 or 2 expected", c->n_labels);
    if (c) return TERN_OK;
    const bool answers = tern_rerank_answers(t, &r->yes, &r->no);
    if (answers && (any || tern_tokenizer_rerank_template(t))) return TERN_OK;
    if (any)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "the vocabulary does not have the tokens \"yes\", \"no\" and \"<|im_start|>\"");
    return tern_fail(
        err, TERN_UNSUPPORTED,
        "the model is no reranker: its file has neither cls.output.weight nor tokenizer.chat_template.rerank "
        "with tokens \"yes\" and \"no\"");
}

tern_status tern_engine_reranker(const tern_engine *engine, bool any, tern_reranker *reranker, tern_error *err)
{
    tern_reranker found = {.size = sizeof found};
    TERN_NEED(engine, err);
    TERN_TRY(find(engine, any, &found, err));
    return TERN_SIZED_WRITE(reranker, &found, err);
}

tern_status tern_engine_rerank_prompt(const tern_engine *engine, const char *query, size_t n_query,
                                      const char *document, size_t n_document, tern_tokens *tokens, tern_error *err)
{
    TERN_NEED(engine, err);
    TERN_NEED(tokens, err);
    if (n_query) TERN_NEED(query, err);
    if (n_document) TERN_NEED(document, err);
    const tern_tokenizer *t = tern_engine_tokenizer(engine);
    if (!t) return tern_fail(err, TERN_UNSUPPORTED, "the model has no tokenizer");
    const tern_rerank_pair pair = {query, document, n_query, n_document};
    return tern_rerank_tokenize(t, !classifier_of(engine), &pair, tokens, err);
}

tern_status tern_engine_rerank_score(const tern_engine *engine, const float *state, float *score, tern_error *err)
{
    double labels[2] = {0};
    TERN_NEED(engine, err);
    TERN_NEED(state, err);
    TERN_NEED(score, err);
    const tern_classifier *c = classifier_of(engine);
    if (!c || c->n_labels > 2) return tern_fail(err, TERN_UNSUPPORTED, "the model has no classifier of 1 or 2 labels");
    for (uint32_t i = 0; i < c->n_labels; i++) {
        labels[i] = c->bias ? (double)c->bias[i] : 0;
        for (uint32_t k = 0; k < c->n_embd; k++)
            labels[i] += (double)c->weights[(size_t)i * c->n_embd + k] * (double)state[k];
    }
    *score = (float)(c->n_labels == 1 ? labels[0] : 1 / (1 + exp(labels[1] - labels[0])));
    return TERN_OK;
}
