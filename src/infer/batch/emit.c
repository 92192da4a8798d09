/* From logits to what the caller sees: the next token, its text, its log-probability, and whether it is the last. */
#include <math.h>
#include <string.h>

#include "infer/batch/batch_internal.h"

/* What is known of a token's probability. */
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

/* The highest ones, before the sampler changes the logits. */
static void find_top(const tern_batch *b, const tern_sequence *s, const float *logits, token_logprobs *out)
{
    const tern_request_params *p = &s->request->params;
    out->logprob = NAN;
    out->n_top = 0;
    if (!p->logprobs || !logits) return;
    out->n_top = p->n_top_logprobs < b->n_vocab ? p->n_top_logprobs : b->n_vocab;
    tern_logprob__top(logits, b->n_vocab, out->n_top, out->top);
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
        if (before) o.logprob = tern_logprob__of(before, b->n_vocab, s->tokens[i]);
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
    const bool counts = s->grammar || !s->request->params.ignore_eos;
    return counts && b->tokenizer && tern_token_is_end(b->tokenizer, id);
}

/* Bans the tokens that the grammar does not allow; where it allows none, the text ends. */
static tern_status restrict_to_grammar(tern_batch *b, tern_sequence *s, float *logits, tern_error *err)
{
    uint32_t any = 0;
    if (!s->grammar) return TERN_OK;
    TERN_TRY(tern_grammar_state_mask(s->grammar, b->grammar_mask, b->n_mask_words, err));
    for (size_t i = 0; i < b->n_mask_words; i++) any |= b->grammar_mask[i];
    for (uint32_t i = 0; i < b->n_vocab; i++)
        if (!(b->grammar_mask[i / 32] >> i % 32 & 1)) logits[i] = -INFINITY;
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
    find_top(b, s, logits, &o);
    if (p->logprobs) memcpy(b->raw_logits, logits, b->n_vocab * sizeof *logits);
    TERN_TRY(restrict_to_grammar(b, s, logits, err));
    if (s->stopped) return TERN_OK;
    if (!logits) tern_sampler_consume(s->sampler, 1);
    const int32_t next =
        logits ? tern_sampler_try(s->sampler, logits, s->tokens, s->n_tokens, s->tail) : (int32_t)chosen;
    s->redo = next == TERN_SAMPLER_UNDECIDED;
    if (s->redo) return TERN_OK;
    if (!logits) b->counters.device_tokens++;
    if (s->grammar) TERN_TRY(tern_grammar_state_accept(s->grammar, next, err));
    if (is_end(b, s, next)) {
        tern_sequence__stop(s, TERN_STOP_END_TOKEN);
        return TERN_OK;
    }
    if (p->logprobs) o.logprob = tern_logprob__of(b->raw_logits, b->n_vocab, next);
    *id = next;
    return emit(b, s, next, &o, err);
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
