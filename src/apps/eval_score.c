/* Log-probabilities of choices. */
#include "apps/eval_score.h"

#include <math.h>

/* A question's context and one choice as ids: the choice's begin at n_context. */
typedef struct spelled {
    tern_tokens ids;
    uint32_t n_context;
} spelled;

/* As lm-evaluation-harness does: the whole is tokenised at once, and what goes beyond the context's tokens is the
 * choice; at least one token is. */
static tern_status spell(const tern_engine *engine, const tern_buf *context, const tern_buf *choice, spelled *out,
                         tern_error *err)
{
    tern_buf text = {0};
    tern_tokens alone = {0};
    tern_status status;
    TERN_GOTO(tern_buf_add(&text, context->data, context->size, err));
    TERN_GOTO(tern_engine_tokenize(engine, text.data, text.size, TERN_TOKENIZE_BOS, &alone, err));
    TERN_GOTO(tern_buf_add(&text, choice->data, choice->size, err));
    TERN_GOTO(tern_engine_tokenize(engine, text.data, text.size, TERN_TOKENIZE_BOS, &out->ids, err));
    out->n_context = (uint32_t)(alone.n < out->ids.n ? alone.n : out->ids.n - 1);
    if (out->n_context == 0)
        status = tern_fail(err, TERN_INVALID_ARGUMENT, "a choice without a context: a token before it expected");
fail:
    tern_buf_deinit(&text);
    tern_tokens_deinit(&alone);
    return status;
}

/* Forgets what the session holds behind the first tokens that ids has too, at most n of them. */
static uint32_t keep_common(tern_session *session, const int32_t *ids, uint32_t n)
{
    const int32_t *held = tern_session_tokens(session);
    uint32_t common = 0;
    while (common < n && common < tern_session_n_tokens(session) && held[common] == ids[common]) common++;
    tern_session_truncate(session, common);
    return common;
}

/* log softmax of one logit. */
static double log_probability(const float *logits, uint32_t n, int32_t id)
{
    double max = (double)logits[0], sum = 0;
    for (uint32_t i = 1; i < n; i++)
        if ((double)logits[i] > max) max = (double)logits[i];
    for (uint32_t i = 0; i < n; i++) sum += exp((double)logits[i] - max);
    return (double)logits[id] - max - log(sum);
}

/* The log-probability of the ids behind the context. */
static tern_status score_choice(tern_engine *engine, tern_session *session, const spelled *s, double *sum,
                                tern_error *err)
{
    const int32_t *ids = s->ids.ids;
    const uint32_t n = (uint32_t)s->ids.n - 1, first = s->n_context - 1, step = tern_session_max_outputs(session);
    tern_engine_info info;
    TERN_TRY(tern_engine_describe(engine, &info, err));
    const uint32_t common = keep_common(session, ids, first);
    if (common < first) TERN_TRY(tern_session_append(session, ids + common, first - common, err));
    *sum = 0;
    for (uint32_t at = first; at < n; at += step) {
        const uint32_t rows = n - at < step ? n - at : step;
        TERN_TRY(tern_session_append_all(session, ids + at, rows, err));
        for (uint32_t row = 0; row < rows; row++) {
            float *logits;
            TERN_TRY(tern_session_logits(session, row, &logits, err));
            *sum += log_probability(logits, info.n_vocab, ids[at + row + 1]);
        }
    }
    return TERN_OK;
}

/* Characters of UTF-8, without the space that a choice begins with. */
static size_t characters(const tern_buf *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->size; i++) n += ((uint8_t)text->data[i] & 0xC0) != 0x80;
    return n > 1 && text->data[0] == ' ' ? n - 1 : n;
}

tern_status tern_eval_choose(tern_engine *engine, tern_session *session, const tern_eval_item *item,
                             tern_eval_score *score, tern_error *err)
{
    double best = -INFINITY, best_norm = -INFINITY;
    uint32_t at = 0, at_norm = 0;
    for (uint32_t i = 0; i < item->n_choices; i++) {
        spelled s = {0};
        double sum = 0;
        tern_status status = spell(engine, &item->context, &item->choices[i], &s, err);
        if (status == TERN_OK) status = score_choice(engine, session, &s, &sum, err);
        tern_tokens_deinit(&s.ids);
        TERN_TRY(status);
        const double norm = sum / (double)characters(&item->choices[i]);
        if (sum > best) best = sum, at = i;
        if (norm > best_norm) best_norm = norm, at_norm = i;
    }
    score->n_choices++;
    score->right += at == item->answer;
    score->right_norm += at_norm == item->answer;
    return TERN_OK;
}

double tern_eval_stderr(uint64_t right, uint64_t n)
{
    const double p = n ? (double)right / (double)n : 0;
    return n > 1 ? sqrt(p * (1 - p) / (double)(n - 1)) : 0;
}
