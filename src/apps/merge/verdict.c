/* A merged model beside its base with the adapters: both go through what the latter writes. */
#include "apps/merge/verdict.h"

#include <math.h>

#include "apps/progress.h"
#include "infer/engine/lora.h"
#include "infer/session/session.h"
#include "model/derive.h"
#include "text/tokenizer/tokenizer.h"

enum { TEXTS = 4, TOKENS = 32, MOST_ADAPTERS = 16 };

/* ---- words */

static const double nothing = 1e-5, as_good = 0.05, usable = 0.25;

tern_merge_word tern_merge_judge(const tern_merge_verdict *v)
{
    if (v->merged <= nothing) return v->base <= nothing ? TERN_MERGE_NOTHING : TERN_MERGE_SAME;
    if (v->merged <= as_good * v->base) return TERN_MERGE_SAME;
    return v->merged <= usable * v->base ? TERN_MERGE_WORSE : TERN_MERGE_RUINED;
}

const char *tern_merge_word_name(tern_merge_word word)
{
    static const char *const names[] = {"the same", "worse", "ruined", "no change"};
    return names[word];
}

void tern_merge_say(const tern_merge_verdict *v, FILE *out)
{
    static const char *const sentences[] = {
        "the merged model says what the model with the adapters beside it says",
        "the merged model is worse than the adapters beside the model, and keeps three quarters of what they do",
        "the merged model is ruined, much of what the adapters do is lost: use them with --lora, beside the model",
        "the adapters do not change what the model says"};
    fprintf(out,
            "verdict: %s.\nKL divergence from the model with adapters: %.4g of the merged model, %.4g of the model "
            "without; same top token %.0f %% (%u tokens)\n",
            sentences[tern_merge_judge(v)], v->merged, v->base, 100 * v->same_top, v->n_tokens);
}

/* ---- numbers */

/* One of the three. */
typedef struct reader {
    tern_engine *engine;
    tern_lora *loras[MOST_ADAPTERS];
    tern_lora_use uses[MOST_ADAPTERS];
    uint32_t n;
    tern_session *session;
} reader;

static void close_reader(reader *r)
{
    tern_session_close(r->session);
    for (uint32_t i = 0; i < r->n; i++) tern_lora_close(r->loras[i]);
    tern_engine_close(r->engine);
}

/* The model stays the caller's. */
static tern_status open_engine(reader *r, const tern_model *model, tern_error *err)
{
    static const tern_derivation as_it_is;
    const tern_engine_params params = {.backend = {.name = "cpu"}};
    tern_model *view;
    TERN_TRY(tern_model_derive(&view, model, &as_it_is, err));
    return tern_engine_open(&r->engine, view, &params, err);
}

static tern_status open_reader(reader *r, const tern_model *model, const tern_merge *merge, tern_error *err)
{
    TERN_TRY(open_engine(r, model, err));
    for (size_t i = 0; merge && i < merge->n_items; i++) {
        TERN_TRY(tern_lora_open(&r->loras[i], r->engine, merge->items[i].adapter, err));
        r->uses[r->n++] = (tern_lora_use){r->loras[i], merge->items[i].scale};
    }
    const tern_session_params params = {.size = sizeof params,
                                        .n_ctx = TOKENS + 1,
                                        .n_batch = TOKENS + 1,
                                        .max_outputs = TOKENS + 1,
                                        .host_sampling = true,
                                        .loras = r->uses,
                                        .n_loras = r->n};
    return tern_session_open(&r->session, r->engine, &params, err);
}

/* log softmax, in f64. */
static double log_sum(const float *x, uint32_t n, uint32_t *top)
{
    double sum = 0;
    *top = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[*top]) *top = i;
    for (uint32_t i = 0; i < n; i++) sum += exp((double)x[i] - (double)x[*top]);
    return (double)x[*top] + log(sum);
}

/* The KL divergence of q from p. */
static double divergence(const float *p, const float *q, uint32_t n, bool *same_top)
{
    uint32_t top_p, top_q;
    const double log_p = log_sum(p, n, &top_p), log_q = log_sum(q, n, &top_q);
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double a = (double)p[i] - log_p, share = exp(a);
        if (share > 0) sum += share * (a - ((double)q[i] - log_q));
    }
    *same_top = top_p == top_q;
    return sum;
}

typedef struct readers {
    reader beside, merged, base;
    uint32_t n_vocab;
} readers;

/* The logits after each of the ids, in all three models. */
static tern_status compare(readers *r, const int32_t *ids, uint32_t n, tern_merge_verdict *sums, tern_error *err)
{
    reader *const all[] = {&r->beside, &r->merged, &r->base};
    for (size_t i = 0; i < 3; i++) {
        tern_session_truncate(all[i]->session, 0);
        TERN_TRY(tern_session_append_all(all[i]->session, ids, n, err));
    }
    for (uint32_t row = 0; row < n; row++) {
        float *beside, *merged, *base;
        bool same, unused;
        TERN_TRY(tern_session_logits(r->beside.session, row, &beside, err));
        TERN_TRY(tern_session_logits(r->merged.session, row, &merged, err));
        TERN_TRY(tern_session_logits(r->base.session, row, &base, err));
        sums->merged += divergence(beside, merged, r->n_vocab, &same);
        sums->base += divergence(beside, base, r->n_vocab, &unused);
        sums->same_top += same;
        sums->n_tokens++;
    }
    return TERN_OK;
}

static tern_status write_and_compare(readers *r, int32_t first, uint64_t seed, tern_merge_verdict *sums,
                                     tern_error *err)
{
    int32_t ids[TOKENS + 1];
    tern_generate_params how = {
        .size = sizeof how, .sampler = TERN_SAMPLER_DEFAULTS, .max_tokens = TOKENS - 1, .ignore_eos = true};
    tern_generate_result result = {.size = sizeof result};
    how.sampler.seed = seed;
    tern_session_truncate(r->beside.session, 0);
    TERN_TRY(tern_generate(r->beside.session, &first, 1, &how, &result, err));
    const uint32_t n = tern_session_n_tokens(r->beside.session);
    const int32_t *written = tern_session_tokens(r->beside.session);
    for (uint32_t i = 0; i < n; i++) ids[i] = written[i];
    return compare(r, ids, n, sums, err);
}

static tern_status measure(readers *r, const tern_merge *merge, tern_merge_verdict *out, tern_error *err)
{
    const tern_tokenizer *t = tern_model_tokenizer(merge->base);
    const int32_t bos = t ? tern_tokenizer_bos(t) : -1;
    tern_progress progress = {.label = "Judging"};
    tern_merge_verdict sums = {0};
    tern_status status = TERN_OK;
    r->n_vocab = tern_model_config(merge->base)->n_vocab;
    for (uint64_t i = 0; i < TEXTS && status == TERN_OK; i++) {
        status = write_and_compare(r, bos >= 0 ? bos : (int32_t)i, i + 1, &sums, err);
        if (status == TERN_OK && !tern_progress_update(&progress, (float)(i + 1) / TEXTS))
            status = tern_app_fail_interrupted(err);
    }
    tern_progress_end(&progress);
    TERN_TRY(status);
    const double n = sums.n_tokens;
    *out = (tern_merge_verdict){sums.merged / n, sums.base / n, sums.same_top / n, sums.n_tokens};
    return TERN_OK;
}

tern_status tern_merge_measure(const tern_merge *merge, const tern_model *merged, tern_merge_verdict *verdict,
                               tern_error *err)
{
    readers r = {0};
    tern_status status;
    TERN_GOTO(open_reader(&r.beside, merge->base, merge, err));
    TERN_GOTO(open_reader(&r.merged, merged, NULL, err));
    TERN_GOTO(open_reader(&r.base, merge->base, NULL, err));
    TERN_GOTO(measure(&r, merge, verdict, err));
fail:
    close_reader(&r.base);
    close_reader(&r.merged);
    close_reader(&r.beside);
    return status;
}
