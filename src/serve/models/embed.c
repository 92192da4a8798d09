/* Asks that want vectors, and those about tokens alone: on the thread of the model, at once. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "serve/models/acts.h"
#include "serve/server.h"

enum { MOST_POSITIONS = 2048, PIECE_TOKENS = 64 };

static tern_status open_session(tern_host *h, tern_error *err)
{
    const uint32_t given = h->server->options.batch.n_ctx;
    tern_session_params params = {.n_ctx = given ? given : MOST_POSITIONS,
                                  .max_outputs = PIECE_TOKENS,
                                  .keep_hidden = true,
                                  .host_sampling = true,
                                  .kv = h->server->options.batch.kv};
    if (params.n_ctx > h->info.n_ctx_train) params.n_ctx = h->info.n_ctx_train;
    return h->session ? TERN_OK : tern_session_open(&h->session, h->engine, &params, err);
}

static void normalize(float *vector, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)vector[i] * (double)vector[i];
    const double length = sqrt(sum) > 1e-12 ? sqrt(sum) : 1e-12;
    for (uint32_t i = 0; i < n; i++) vector[i] = (float)((double)vector[i] / length);
}

/* The vector of one text into vector[n_embd]. */
static tern_status embed(tern_answer *a, tern_host *h, size_t i, float *vector, uint32_t n_kept, tern_error *err)
{
    const tern_lora_use use = {a->lora >= 0 ? h->loras[a->lora] : NULL, 1};
    tern_tokens ids = {0};
    tern_status status;
    TERN_GOTO(tern_answer_tokens(a, h, i, &ids, err));
    if (ids.n > tern_session_n_ctx(h->session))
        TERN_GOTO(tern_fail(err, TERN_CONTEXT_FULL, "text %zu: %zu tokens found, at most %u expected", i, ids.n,
                            tern_session_n_ctx(h->session)));
    TERN_GOTO(tern_session_set_loras(h->session, a->lora >= 0 ? &use : NULL, a->lora >= 0, err));
    const tern_pooling pooling = a->ask.own_pooling ? h->info.pooling : a->ask.pooling;
    TERN_GOTO(tern_session_embed(h->session, ids.ids, (uint32_t)ids.n, pooling, false, vector, err));
    if (a->ask.normalize) normalize(vector, n_kept);
    a->n_prompt += (uint32_t)ids.n;
fail:
    tern_tokens_deinit(&ids);
    return status;
}

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

tern_status tern_act_embed_texts(tern_answer *a, tern_host *h, json_t **vectors, tern_error *err)
{
    const uint32_t n_embd = h->info.n_embd, n = a->ask.dimensions ? a->ask.dimensions : n_embd;
    tern_status status = TERN_OK;
    float *vector;
    if (n > n_embd)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "dimensions: %u found, at most %u expected", n, n_embd);
    if (!a->ask.n_prompts) return tern_fail(err, TERN_INVALID_ARGUMENT, "input: none found, a text expected");
    TERN_TRY(open_session(h, err));
    vector = tern_alloc(n_embd * sizeof *vector);
    if (!vector) return tern_fail_alloc(err, n_embd * sizeof *vector);
    *vectors = json_array();
    for (size_t i = 0; i < a->ask.n_prompts && status == TERN_OK; i++) {
        status = embed(a, h, i, vector, n, err);
        if (status != TERN_OK) break;
        json_array_append_new(*vectors, a->ask.base64 ? as_base64(vector, n) : as_list(vector, n));
    }
    if (status != TERN_OK) json_decref(*vectors);
    a->exchange->n_prompt = a->n_prompt;
    tern_free(vector);
    return status;
}
