/* Rating documents by a query: each is a prompt, evaluated like those of embeddings. */
#include <math.h>
#include <string.h>

#include "serve/server.h"

tern_status tern_rerank_tokens(tern_answer *a, tern_host *host, size_t i, tern_tokens *ids, tern_error *err)
{
    const tern_api_request *request = &a->request;
    return tern_engine_rerank_prompt(host->engine, json_string_value(request->query),
                                     json_string_length(request->query), request->prompts[i].text,
                                     request->prompts[i].n, ids, err);
}

/* The share of "yes" in the probabilities of both answers. */
static bool on_piece(void *context, const tern_request_piece *piece)
{
    const tern_answer_part *part = context;
    if (piece->n_top < 2) return true;
    const double share = 1 / (1 + exp((double)piece->top[1].logprob - (double)piece->top[0].logprob));
    return json_array_set_new(part->answer->vectors, part->first, json_real(share)) == 0;
}

void tern_rerank_ask(const tern_answer *a, tern_request_params *params)
{
    if (a->reranker.classifier) {
        params->pooling = TERN_POOLING_LAST;
        return;
    }
    params->embed = false;
    params->sampler = (tern_sampler_params)TERN_SAMPLER_DEFAULTS;
    params->sampler.temperature = 0;
    params->max_tokens = 1;
    params->ignore_eos = true; /* an end has no piece; log-probabilities are those of the model all the same */
    params->logprobs = true;
    params->n_top_logprobs = 2;
    params->top_ids = a->answers;
    params->on_piece = on_piece;
}

json_t *tern_rerank_score(const tern_answer *a, const tern_answer_part *part, const tern_request_result *result)
{
    float score;
    if (!a->reranker.classifier) {
        json_t *found = json_array_get(a->vectors, part->first);
        return json_is_real(found) ? json_incref(found) : NULL;
    }
    if (!result->embedding || tern_engine_rerank_score(a->host->engine, result->embedding, &score, NULL) != TERN_OK)
        return NULL;
    return json_real((double)score);
}

tern_status tern_handle_rerank(tern_answer *a, tern_host *h, tern_error *err)
{
    a->reranker.size = sizeof a->reranker;
    if (tern_engine_reranker(h->engine, h->server->options.rerank, &a->reranker, err) != TERN_OK)
        return tern_error_prefix(err, "the model %s cannot rate documents", h->name);
    a->answers[0] = a->reranker.yes;
    a->answers[1] = a->reranker.no;
    return tern_embed__start(a, err);
}
