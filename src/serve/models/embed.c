/* Asks that want vectors: their texts to the batch, which evaluates them in the steps of what others generate. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "serve/server.h"

static json_t *as_base64(const float *vector, uint32_t n)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t bytes = 4 * (size_t)n;
    unsigned char *in = tern_calloc(bytes + 3, 1);
    char *out = tern_alloc((bytes + 2) / 3 * 4 + 1);
    json_t *text = NULL;
    size_t k = 0;
    for (uint32_t i = 0; in && i < n; i++) tern_store_f32(in + 4 * (size_t)i, vector[i]);
    for (size_t i = 0; in && out && i < bytes; i += 3) {
        const uint32_t v = (uint32_t)in[i] << 16 | (uint32_t)in[i + 1] << 8 | in[i + 2];
        for (unsigned p = 0; p < 4; p++) out[k++] = i + p > bytes ? '=' : letters[v >> (18 - 6 * p) & 63];
    }
    if (in && out) text = json_stringn(out, k);
    tern_free(in);
    tern_free(out);
    return text;
}

static json_t *as_list(const float *vector, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++) json_array_append_new(list, json_real((double)vector[i]));
    return list;
}

/* The first n numbers, of length 1 if that is wanted. */
static json_t *vector_of(const tern_answer *a, const float *embedding)
{
    const uint32_t n = a->request.dimensions ? a->request.dimensions : a->host->info.n_embd;
    float *vector = tern_alloc(n * sizeof *vector);
    double sum = 0;
    if (!vector) return NULL;
    for (uint32_t i = 0; i < n; i++) sum += (double)embedding[i] * (double)embedding[i];
    const double length = sqrt(sum) > 1e-12 ? sqrt(sum) : 1e-12;
    for (uint32_t i = 0; i < n; i++)
        vector[i] = a->request.normalize ? (float)((double)embedding[i] / length) : embedding[i];
    json_t *made = a->request.base64 ? as_base64(vector, n) : as_list(vector, n);
    tern_free(vector);
    return made;
}

static void on_end(void *context, const tern_request_result *result);

/* The next text. */
static tern_status submit(tern_answer *a, tern_error *err)
{
    tern_host *h = a->host;
    const uint32_t i = a->n_parts, most = tern_batch_n_ctx(h->batch);
    tern_tokens ids = {0};
    tern_status status;
    a->parts[i] = (tern_answer_part){.answer = a, .first = i};
    TERN_GOTO(tern_answer_tokens(a, h, i, &ids, err));
    if (ids.n > most)
        TERN_GOTO(tern_fail(err, TERN_CONTEXT_FULL, "text %u: %zu tokens found, at most %u expected", i, ids.n, most));
    tern_request_params params = {.size = sizeof params,
                                  .prompt = ids.ids,
                                  .n_prompt = (uint32_t)ids.n,
                                  .loras = a->loras,
                                  .n_loras = a->n_uses,
                                  .embed = true,
                                  .pooling = a->request.own_pooling ? h->info.pooling : a->request.pooling,
                                  .on_end = on_end,
                                  .context = &a->parts[i]};
    if (a->request.query) tern_rerank_ask(a, &params);
    TERN_GOTO(tern_batch_submit(h->batch, &params, &a->parts[i].batch_request, err));
    a->n_parts++;
fail:
    tern_tokens_deinit(&ids);
    return status;
}

/* As many as a step takes; where the queue is full, more when one of them has ended. */
static tern_status submit_more(tern_answer *a, tern_error *err)
{
    const uint32_t most = tern_batch_n_parallel(a->host->batch);
    while (a->n_parts < a->n && a->n_parts - a->n_ended < most) {
        const tern_status status = submit(a, err);
        if (status == TERN_BUSY && a->n_parts > a->n_ended) return TERN_OK;
        if (status != TERN_OK) return status;
    }
    return TERN_OK;
}

static void on_end(void *context, const tern_request_result *result)
{
    const tern_answer_part *part = context;
    tern_answer *a = part->answer;
    tern_error err = {0};
    const bool rated = a->request.query && !result->error && !a->cancelled, made = rated || result->embedding;
    json_t *vector = rated ? tern_rerank_score(a, part, result) : made ? vector_of(a, result->embedding) : NULL;
    a->n_ended++;
    a->n_prompt += result->n_prompt;
    a->queued_ms = a->queued_ms > result->queued_ms ? a->queued_ms : result->queued_ms;
    if (result->error) err = *result->error;
    else if (made && (!vector || json_array_set_new(a->vectors, part->first, vector) != 0))
        tern_fail(&err, TERN_OUT_OF_MEMORY, "out of memory");
    else if (!a->cancelled && a->error.code == TERN_OK) (void)submit_more(a, &err);
    if (err.code != TERN_OK && a->error.code == TERN_OK) {
        a->error = err;
        tern_answer_cancel(a);
    }
    a->done = a->n_ended == a->n_parts;
}

tern_status tern_embed__start(tern_answer *a, tern_error *err)
{
    const uint32_t n = (uint32_t)a->request.n_prompts;
    if (!tern_answer_has_loras(a)) return TERN_OK;
    a->parts = tern_calloc(n, sizeof *a->parts);
    a->vectors = json_array();
    if (!a->parts || !a->vectors) return tern_fail_alloc(err, n * sizeof *a->parts);
    for (uint32_t i = 0; i < n; i++) json_array_append_new(a->vectors, json_null());
    a->n = n;
    tern_error later = {0};
    TERN_TRY(submit(a, err));
    if (submit_more(a, &later) == TERN_OK) return TERN_OK;
    a->error = later; /* once the others have ended */
    tern_answer_cancel(a);
    return TERN_OK;
}

tern_status tern_handle_embed(tern_answer *a, tern_host *h, tern_error *err)
{
    const uint32_t n_embd = h->info.n_embd;
    if (a->request.dimensions > n_embd)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "dimensions: %u found, at most %u expected", a->request.dimensions,
                         n_embd);
    if (!a->request.n_prompts) return tern_fail(err, TERN_INVALID_ARGUMENT, "input: none found, a text expected");
    return tern_embed__start(a, err);
}
