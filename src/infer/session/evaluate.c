/* One sequence: appending tokens batch by batch, forgetting them, making room. */
#include <string.h>

#include "infer/session/internal.h"

static tern_status check_append(const tern_session *s, const int32_t *ids, uint32_t n, tern_error *err)
{
    if (n) TERN_NEED(ids, err);
    uint32_t n_vocab = tern_engine_config(s->runner.engine)->n_vocab, n_ctx = s->runner.params.n_ctx;
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= n_vocab)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "token %u is id %d: 0 to %u expected", i, ids[i], n_vocab - 1);
    if (n > n_ctx - s->n_tokens)
        return tern_fail(err, TERN_CONTEXT_FULL, "context full: %u tokens and %u more, of %u", s->n_tokens, n, n_ctx);
    return TERN_OK;
}

void tern_session__abandon(tern_session *session)
{
    tern_runner_abandon(&session->runner);
    tern_nonfinite_close(session->search);
    session->search = NULL;
    session->evaluation = (tern_session_evaluation){0};
}

/* Tokens of a batch at most: with stages in several processes a prompt is cut so that all of them work. */
static uint32_t max_batch(const tern_session *s)
{
    enum { LEAST = 64, OF_EACH = 4 };
    const uint32_t n_batch = s->runner.params.n_batch, n_stages = s->runner.graphs->prefill.graph.n_stages;
    if (n_stages < 2) return n_batch;
    uint32_t n = s->evaluation.n_evaluated / (OF_EACH * n_stages) / TERN_PAGE_SIZE * TERN_PAGE_SIZE;
    if (n < LEAST) n = LEAST;
    if (n < s->evaluation.n_outputs) n = s->evaluation.n_outputs;
    return n < n_batch ? n : n_batch;
}

/* The batch that comes next. */
static tern_runner_step next_batch(tern_session *s)
{
    const uint32_t n_batch = max_batch(s), n_outputs = s->evaluation.n_outputs;
    uint32_t left = s->evaluation.n_evaluated - s->n_evaluated, size = left < n_batch ? left : n_batch;
    if (size < left && left - size < n_outputs) size = left - n_outputs; /* all outputs belong to one step */
    tern_runner_step step = {.ids = s->tokens + s->n_evaluated,
                             .n_tokens = size,
                             .first_position = s->n_evaluated,
                             .n_outputs = size == left ? n_outputs : 0,
                             .wanted = &s->wanted};
    tern_wanted_begin(&s->wanted, &step.n_top);
    tern_wanted_add(&s->wanted, &step.n_top, &s->needed, s->tokens, s->n_evaluated + size, step.n_outputs);
    return step;
}

/* With the exact head rows may be left out; each row has some. */
static bool logits_are_finite(const tern_session *s, uint32_t n_rows)
{
    const size_t n_vocab = tern_engine_config(s->runner.engine)->n_vocab;
    const bool screened = tern_engine_head_exact(s->runner.engine);
    for (uint32_t r = 0; r < n_rows; r++)
        if (!tern_all_finite(s->logits + r * n_vocab, n_vocab, screened)) return false;
    return true;
}

tern_status tern_session__search_nonfinite(tern_session *s, const tern_runner_step *step, tern_error *err)
{
    tern_error why = {0};
    s->evaluation.active = s->evaluation.begun = true;
    if (tern_nonfinite_open(&s->search, &s->runner, s->tokens, step, &why) == TERN_OK) return TERN_OK;
    return tern_fail(err, TERN_NOT_FINITE,
                     "logits that are not finite, at position %u; the search for the op that they come from failed: "
                     "%s",
                     step->first_position + step->n_tokens - 1, why.message);
}

static tern_status run_batch(tern_session *s, const tern_runner_step *batch, tern_error *err)
{
    if (!s->evaluation.running) TERN_TRY(tern_runner_start(&s->runner, batch, err));
    s->evaluation.running = true;
    TERN_TRY(tern_runner_finish(&s->runner, batch, s->logits, err));
    s->evaluation.running = false;
    if (!logits_are_finite(s, batch->n_outputs)) {
        TERN_TRY(tern_session__search_nonfinite(s, batch, err));
        return tern_nonfinite_advance(s->search, err);
    }
    if (s->mtp) TERN_TRY(tern_mtp_take(s->mtp, &s->runner, batch, s->tokens, err));
    s->n_evaluated += batch->n_tokens;
    if (s->n_tokens < s->n_evaluated) s->n_tokens = s->n_evaluated;
    return TERN_OK;
}

/* Keys and values that layers with a window have lost, and states that were not kept, come back when tokens are
 * evaluated again. */
static void rewind_to_held(tern_session *s)
{
    if (!s->evaluation.begun) s->n_evaluated = tern_runner_last_start(&s->runner, s->n_evaluated);
    s->evaluation.begun = true;
}

tern_status tern_session__advance(tern_session *session, tern_error *err)
{
    tern_session_evaluation *evaluation = &session->evaluation;
    rewind_to_held(session);
    if (session->search || session->n_evaluated < evaluation->n_evaluated) {
        const tern_runner_step batch = next_batch(session);
        tern_status status =
            session->search ? tern_nonfinite_advance(session->search, err) : run_batch(session, &batch, err);
        if (status == TERN_PENDING) return status;
        if (status != TERN_OK) tern_session__abandon(session);
        TERN_TRY(status);
    }
    if (session->n_evaluated < evaluation->n_evaluated) return TERN_OK;
    session->n_tokens = evaluation->n_tokens;
    evaluation->active = false;
    return TERN_OK;
}

tern_status tern_session__begin(tern_session *session, const int32_t *ids, uint32_t n, uint32_t n_outputs,
                                tern_error *err)
{
    TERN_TRY(check_append(session, ids, n, err));
    if (n) memmove(session->tokens + session->n_tokens, ids, n * sizeof *ids); /* a shift's lie there already */
    uint32_t end = session->n_tokens + n;
    session->evaluation =
        (tern_session_evaluation){.active = true, .n_evaluated = end, .n_tokens = end, .n_outputs = n_outputs};
    return TERN_OK;
}

tern_status tern_session__begin_extend(tern_session *session, const int32_t *ids, uint32_t n, tern_error *err)
{
    TERN_TRY(tern_session__begin(session, ids, n, 0, err));
    session->evaluation.n_evaluated--;
    if (session->n_evaluated > session->evaluation.n_evaluated) session->n_evaluated--;
    return TERN_OK;
}

/* To the end of the evaluation, which may be under way already when this is called again after PENDING. */
static tern_status finish_evaluation(tern_session *s, tern_error *err)
{
    while (s->evaluation.active) TERN_TRY(tern_session__advance(s, err));
    return TERN_OK;
}

tern_status tern_session__evaluate_last(tern_session *session, tern_error *err)
{
    const uint32_t least = session->n_tokens ? session->n_tokens - 1 : 0;
    if (session->n_tokens == 0) tern_runner_mark_written(&session->runner, 0, 0);
    if (session->n_evaluated >= least && tern_runner_last_start(&session->runner, least) == least) return TERN_OK;
    session->evaluation =
        (tern_session_evaluation){.active = true, .n_evaluated = least, .n_tokens = session->n_tokens};
    session->n_evaluated = least < session->n_evaluated ? least : session->n_evaluated;
    return finish_evaluation(session, err);
}

tern_status tern_session_logits(tern_session *session, uint32_t row, float **logits, tern_error *err)
{
    TERN_NEED(logits, err);
    *logits = NULL;
    TERN_NEED(session, err);
    const uint32_t n_rows = session->runner.params.max_outputs;
    if (row >= n_rows)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "row %u of the logits: 0 to %u expected", row, n_rows - 1);
    if (session->n_evaluated < session->n_tokens && !session->evaluation.active)
        TERN_TRY(tern_session__begin(session, NULL, 0, 1, err));
    TERN_TRY(finish_evaluation(session, err));
    *logits = session->logits + (size_t)row * tern_engine_config(session->runner.engine)->n_vocab;
    return TERN_OK;
}

tern_status tern_session_append(tern_session *session, const int32_t *ids, uint32_t n, tern_error *err)
{
    TERN_NEED(session, err);
    if (!session->evaluation.active) TERN_TRY(tern_session__begin(session, ids, n, 1, err));
    return finish_evaluation(session, err);
}

tern_status tern_session_append_all(tern_session *session, const int32_t *ids, uint32_t n, tern_error *err)
{
    TERN_NEED(session, err);
    if (n == 0 || n > session->runner.params.max_outputs)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "logits of %u tokens: 1 to %u expected", n,
                         session->runner.params.max_outputs);
    if (!session->evaluation.active) TERN_TRY(tern_session__begin(session, ids, n, n, err));
    return finish_evaluation(session, err);
}

void tern_session_truncate(tern_session *session, uint32_t n)
{
    tern_session__abandon(session);
    tern_session__drop_embedding(session);
    if (session->mtp) tern_mtp_truncate(session->mtp, n);
    if (n < session->n_tokens) session->n_tokens = n;
    if (n < session->n_evaluated) session->n_evaluated = n;
}

/* Moves the newer half to the place after n_keep and forgets the rest; *n_moved tokens lie there, to be appended. */
static tern_status move_newer_half(tern_session *s, uint32_t n_keep, uint32_t *n_moved, tern_error *err)
{
    uint32_t n = s->n_tokens;
    if (n < 2 || n_keep > n - 2)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "context shift: %u tokens to keep, of %u: two fewer at most expected", n_keep, n);
    *n_moved = (n - n_keep) / 2;
    memmove(s->tokens + n_keep, s->tokens + n - *n_moved, *n_moved * sizeof *s->tokens);
    tern_session_truncate(s, n_keep);
    return TERN_OK;
}

tern_status tern_session__begin_shift(tern_session *session, uint32_t n_keep, bool extend, tern_error *err)
{
    uint32_t n = 0;
    TERN_TRY(move_newer_half(session, n_keep, &n, err));
    const int32_t *ids = session->tokens + n_keep;
    return extend ? tern_session__begin_extend(session, ids, n, err) : tern_session__begin(session, ids, n, 1, err);
}

tern_status tern_session_shift(tern_session *session, uint32_t n_keep, tern_error *err)
{
    TERN_NEED(session, err);
    if (!session->evaluation.active) TERN_TRY(tern_session__begin_shift(session, n_keep, false, err));
    return finish_evaluation(session, err);
}
