/* From logits to what the caller sees: the next token, its text, its log-probability, and whether it is the last; and
 * from hidden states to the vector of a prompt. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "infer/batch/batch_internal.h"
#include "infer/sample/internal.h"

/* ---- log-probabilities */

/* The number that a softmax subtracts from logits. */
typedef struct softmax_stats {
    double highest, log_sum;
} softmax_stats;

static softmax_stats softmax_stats_of(const float *logits, uint32_t n_vocab)
{
    const double highest = (double)tern_logits__max(logits, n_vocab);
    double sum = 0;
    for (uint32_t i = 0; i < n_vocab; i++) sum += exp((double)logits[i] - highest);
    return (softmax_stats){highest, log(sum)};
}

static float logprob_of(float logit, softmax_stats b)
{
    return (float)((double)logit - b.highest - b.log_sum);
}

/* log softmax of the logits at id; sums in f64 around the highest. */
static float logprob_at(const float *logits, uint32_t n_vocab, int32_t id)
{
    return logprob_of(logits[id], softmax_stats_of(logits, n_vocab));
}

/* The n highest, highest first, ties by the lower id. */
static void top_logprobs(const float *logits, uint32_t n_vocab, uint32_t n, tern_token_logprob *top)
{
    uint32_t n_found = 0;
    for (uint32_t id = 0; id < n_vocab && n; id++) {
        if (n_found == n && !(logits[id] > top[n - 1].logprob)) continue;
        uint32_t at = n_found < n ? n_found++ : n - 1;
        for (; at > 0 && logits[id] > top[at - 1].logprob; at--) top[at] = top[at - 1];
        top[at] = (tern_token_logprob){(int32_t)id, logits[id]};
    }
    if (n_found == 0) return;
    const softmax_stats b = softmax_stats_of(logits, n_vocab);
    for (uint32_t i = 0; i < n_found; i++) top[i].logprob = logprob_of(top[i].logprob, b);
}

static void logprobs_of(const float *logits, uint32_t n_vocab, const int32_t *ids, uint32_t n, tern_token_logprob *top)
{
    const softmax_stats b = softmax_stats_of(logits, n_vocab);
    for (uint32_t i = 0; i < n; i++) top[i] = (tern_token_logprob){ids[i], logprob_of(logits[ids[i]], b)};
}

/* ---- text */

/* The log-probability of a token, as far as it is known. */
typedef struct token_logprobs {
    float logprob;
    uint32_t n_top;
    tern_token_logprob top[TERN_BATCH_MAX_TOP_LOGPROBS];
} token_logprobs;

void tern_sequence__stop(tern_sequence *s, tern_stop_reason reason)
{
    s->result.reason = reason;
    s->stopped = true;
}

static void show(tern_sequence *s, const tern_request_piece *piece)
{
    const tern_request_params *p = &s->request->params;
    if (p->on_piece && !p->on_piece(p->context, piece) && !s->stopped) tern_sequence__stop(s, TERN_STOP_CALLER);
}

/* The highest ones, or those that were asked for, before the sampler changes the logits. */
static void find_top(const tern_batch *b, const tern_sequence *s, const float *logits, token_logprobs *out)
{
    const tern_request_params *p = &s->request->params;
    out->logprob = NAN;
    out->n_top = 0;
    if (!p->logprobs || !logits) return;
    out->n_top = p->n_top_logprobs < b->n_vocab ? p->n_top_logprobs : b->n_vocab;
    if (p->top_ids) logprobs_of(logits, b->n_vocab, p->top_ids, out->n_top, out->top);
    else top_logprobs(logits, b->n_vocab, out->n_top, out->top);
}

static tern_request_piece piece_of(const tern_sequence *s, int32_t id, const token_logprobs *o)
{
    return (tern_request_piece){.index = s->index,
                                .id = id,
                                .logprob = o ? o->logprob : NAN,
                                .top = o && o->n_top ? o->top : NULL,
                                .n_top = o ? o->n_top : 0};
}

tern_status tern_sequence__echo(tern_batch *b, tern_sequence *s, uint32_t first, uint32_t end, const float *logits,
                                tern_error *err)
{
    tern_buf text = {0};
    tern_status status = TERN_OK;
    for (uint32_t i = first; i < end && !s->stopped && status == TERN_OK; i++) {
        if (i < s->n_echoed) continue; /* before it was put back */
        token_logprobs o;
        const float *before = logits && i ? logits + (size_t)(i - first) * b->n_vocab : NULL;
        find_top(b, s, before, &o);
        if (before) o.logprob = logprob_at(before, b->n_vocab, s->tokens[i]);
        text.size = 0;
        if (b->tokenizer)
            status =
                tern_text_stream_add(&s->echo, b->tokenizer, s->tokens[i], s->request->params.show_special, &text, err);
        if (status == TERN_OK && i + 1 == s->result.n_prompt) status = tern_text_stream_finish(&s->echo, &text, err);
        tern_request_piece piece = piece_of(s, s->tokens[i], &o);
        piece.prompt = true;
        piece.text = text.data;
        piece.n_text = text.size;
        if (status == TERN_OK) show(s, &piece);
        s->n_echoed = i + 1;
    }
    tern_buf_deinit(&text);
    return status;
}

static bool is_end(const tern_batch *b, const tern_sequence *s, int32_t id)
{
    const bool counts = s->mask.grammar || !s->request->params.ignore_eos;
    return counts && b->tokenizer && tern_token_is_end(b->tokenizer, id);
}

/* Bans the tokens that the grammar does not allow; where it allows none, the text ends. */
static tern_status restrict_to_grammar(tern_batch *b, tern_sequence *s, float *logits, tern_error *err)
{
    const uint32_t *words = s->mask.words;
    uint32_t any = 0;
    if (s->mask.error.code != TERN_OK) return tern_fail(err, s->mask.error.code, "%s", s->mask.error.message);
    for (size_t i = 0; i < b->sampling.masker.n_words; i++) any |= words[i];
    for (uint32_t i = 0; i < b->n_vocab; i++)
        if (!(words[i / 32] >> i % 32 & 1)) logits[i] = -INFINITY;
    if (!any) tern_sequence__stop(s, TERN_STOP_END_TOKEN);
    return TERN_OK;
}

static tern_status emit(tern_batch *b, tern_sequence *s, int32_t id, const token_logprobs *o, tern_error *err)
{
    const tern_request_params *p = &s->request->params;
    if (++s->result.n_generated == p->max_tokens) tern_sequence__stop(s, TERN_STOP_LENGTH);
    if (p->logprobs) s->result.logprob += (double)o->logprob;
    tern_stop_filter_advance(&s->filter);
    if (b->tokenizer)
        TERN_TRY(tern_text_stream_add(&s->stream, b->tokenizer, id, p->show_special, &s->filter.text, err));
    if (tern_stop_filter_scan(&s->filter)) tern_sequence__stop(s, TERN_STOP_STRING);
    tern_request_piece piece = piece_of(s, id, o);
    piece.text = s->filter.text.data;
    piece.n_text = s->filter.n_shown;
    show(s, &piece);
    return TERN_OK;
}

tern_status tern_sequence__sample(tern_batch *b, tern_sequence *s, float *logits, uint32_t chosen, int32_t *id,
                                  tern_error *err)
{
    const tern_request_params *p = &s->request->params;
    token_logprobs o;
    *id = -1;
    if (p->no_tokens) {
        tern_sequence__stop(s, TERN_STOP_LENGTH);
        return TERN_OK;
    }
    if (s->n_tokens == b->params.n_ctx) {
        tern_sequence__stop(s, TERN_STOP_CONTEXT);
        return TERN_OK;
    }
    const bool forced = s->forced_at < s->n_forced;
    const bool constrained = s->mask.grammar && !s->unconstrained && !forced;
    find_top(b, s, logits, &o);
    if (p->logprobs) memcpy(b->sampling.raw_logits, logits, b->n_vocab * sizeof *logits);
    if (constrained) TERN_TRY(restrict_to_grammar(b, s, logits, err));
    if (s->stopped) return TERN_OK;
    if (!logits) tern_sampler_consume(s->sampler, 1);
    const int32_t next = forced   ? s->forced[s->forced_at++]
                         : logits ? tern_sampler_try(s->sampler, logits, s->tokens, s->n_tokens, s->tail)
                                  : (int32_t)chosen;
    s->redo = next == TERN_SAMPLER_UNDECIDED;
    if (s->redo) return TERN_OK;
    if (!logits) b->counters.device_tokens++;
    if (!forced && is_end(b, s, next)) {
        tern_sequence__stop(s, TERN_STOP_END_TOKEN);
        return TERN_OK;
    }
    if (p->logprobs) o.logprob = logprob_at(b->sampling.raw_logits, b->n_vocab, next);
    *id = next;
    TERN_TRY(emit(b, s, next, &o, err));
    if (constrained && !s->stopped) tern_mask_go_on(&s->mask, &b->sampling.masker, next);
    return TERN_OK;
}

tern_status tern_sequence__flush(tern_sequence *s, tern_error *err)
{
    if (s->result.reason == TERN_STOP_STRING && s->stopped) return TERN_OK;
    tern_stop_filter_advance(&s->filter);
    TERN_TRY(tern_text_stream_finish(&s->stream, &s->filter.text, err));
    tern_stop_filter_release(&s->filter);
    if (!s->filter.n_shown || s->result.reason == TERN_STOP_CALLER) return TERN_OK;
    tern_request_piece piece = piece_of(s, -1, NULL);
    piece.text = s->filter.text.data;
    piece.n_text = s->filter.n_shown;
    show(s, &piece);
    return TERN_OK;
}

/* ---- embeddings */

tern_status tern_sequence__open_embedding(const tern_batch *b, tern_sequence *s, tern_error *err)
{
    const uint32_t n_embd = tern_engine_config(b->engine)->n_embd;
    s->embedding = tern_calloc(n_embd, sizeof *s->embedding);
    if (!s->embedding) return tern_fail_alloc(err, n_embd * sizeof *s->embedding);
    return tern_pool_states_init(&s->pool, s->request->params.pooling, n_embd, err);
}

void tern_sequence__pool_states(const tern_batch *b, tern_sequence *s)
{
    const float *states = b->outputs.states + (size_t)s->first_row * s->pool.n_embd;
    tern_pool_states_add(&s->pool, states, s->n_evaluated, s->n_rows, s->n_tokens);
}

tern_status tern_sequence__finish_embedding(tern_sequence *s, tern_error *err)
{
    tern_pool_states_finish(&s->pool, s->request->params.normalize, s->embedding);
    for (uint32_t i = 0; i < s->pool.n_embd; i++)
        if (!isfinite(s->embedding[i]))
            return tern_fail(err, TERN_NOT_FINITE, "element %u of the vector is not finite", i);
    s->result.embedding = s->embedding;
    s->first_ms = tern_batch__now_ms();
    tern_sequence__stop(s, TERN_STOP_LENGTH);
    return TERN_OK;
}
