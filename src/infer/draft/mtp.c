/* Drafting by a model's own block. Source: Gloeckle et al., "Better & Faster Large Language Models via Multi-token
 * Prediction", arXiv:2404.19737; its use as a chain: DeepSeek-V3, arXiv:2412.19437, section 2.2. */
#include "infer/draft/mtp.h"

#include "base/alloc.h"
#include "infer/draft/model.h"
#include "infer/engine/engine.h"

struct tern_mtp {
    tern_runner runner;
    uint32_t n_embd, n_vocab, n_rows_max;
    float *rows; /* [n_rows_max][n_embd] hidden states of the session's tokens from first_row on */
    uint32_t first_row, n_rows;
    uint32_t origin, n_done; /* pairs of the block's sequence: those of the session's tokens from origin on */
    float *logits, *state;   /* [n_vocab]; [n_embd] that the block leaves */
};

tern_runner_params tern_mtp_params(const tern_runner_params *session)
{
    const uint32_t n = session->n_sequences;
    return (tern_runner_params){.n_ctx = session->n_ctx,
                                .n_batch = session->n_batch + n,
                                .max_outputs = n ? n : 1,
                                .n_sequences = n,
                                .n_pages = session->n_pages,
                                .kv = session->kv,
                                .keep_hidden = true,
                                .mtp = true};
}

tern_status tern_mtp_check(tern_engine *engine, tern_error *err)
{
    if (!tern_model_mtp(tern_engine_model(engine)))
        return tern_fail(err, TERN_UNSUPPORTED,
                         "drafting by the model's own block: none was read; one block of nextn.* tensors (GGUF) or "
                         "mtp.* (Hugging Face) behind the last layer expected, in a file or folder that is no package");
    return tern_engine__needs_waiting(engine, "drafting by the model's own block", err);
}

tern_status tern_mtp_open(tern_mtp **mtp, tern_engine *engine, const tern_runner_params *session, tern_error *err)
{
    const tern_config *c = tern_engine_config(engine);
    const tern_runner_params params = tern_mtp_params(session);
    *mtp = NULL;
    TERN_TRY(tern_mtp_check(engine, err));
    tern_mtp *m = tern_calloc(1, sizeof *m);
    if (!m) return tern_fail_alloc(err, sizeof *m);
    tern_status status;
    m->n_embd = c->n_embd;
    m->n_vocab = c->n_vocab;
    m->n_rows_max = session->n_batch;
    m->rows = tern_calloc((size_t)m->n_rows_max * c->n_embd, sizeof *m->rows);
    m->logits = tern_calloc(c->n_vocab, sizeof *m->logits);
    m->state = tern_calloc(c->n_embd, sizeof *m->state);
    if (!m->rows || !m->logits || !m->state)
        TERN_GOTO(tern_fail_alloc(err, (uint64_t)m->n_rows_max * c->n_embd * sizeof *m->rows));
    TERN_GOTO(tern_runner_open(&m->runner, engine, &params, err));
    *mtp = m;
    return TERN_OK;
fail:
    tern_mtp_close(m);
    return status;
}

void tern_mtp_close(tern_mtp *mtp)
{
    if (!mtp) return;
    tern_runner_deinit(&mtp->runner);
    tern_free(mtp->rows);
    tern_free(mtp->logits);
    tern_free(mtp->state);
    tern_free(mtp);
}

/* Runs the block over n pairs from the session's token `first` on; logits of the last one, and what it leaves. */
static tern_status run(tern_mtp *m, const int32_t *next, uint32_t first, uint32_t n, const float *hidden, bool output,
                       tern_error *err)
{
    const tern_runner_step step = {
        .ids = next, .n_tokens = n, .first_position = first - m->origin, .n_outputs = output, .hidden = hidden};
    TERN_TRY(tern_runner_run(&m->runner, &step, m->logits, err));
    if (!output) return TERN_OK;
    tern_runner_graph *g = tern_runner_graph_of(&m->runner, &step);
    return tern_runner_read(g, tern_graph_hidden(&g->graph, 1), 1, m->state, err);
}

/* All pairs before the session's token `end`; output: with the logits of the last one. */
static tern_status catch_up(tern_mtp *m, const int32_t *tokens, uint32_t end, bool output, tern_error *err)
{
    uint32_t first = m->origin + m->n_done;
    if (first < m->first_row) {
        m->origin = first = m->first_row;
        m->n_done = 0;
    }
    if (first >= end) return TERN_OK;
    const float *hidden = m->rows + (size_t)(first - m->first_row) * m->n_embd;
    TERN_TRY(run(m, tokens + first + 1, first, end - first, hidden, output, err));
    m->n_done = end - m->origin;
    return TERN_OK;
}

tern_status tern_mtp_take(tern_mtp *m, tern_runner *runner, const tern_runner_step *step, const int32_t *tokens,
                          tern_error *err)
{
    const uint32_t first = step->first_position, n = step->n_tokens;
    tern_mtp_truncate(m, first); /* they may have been evaluated again */
    const bool follows = first == m->first_row + m->n_rows;
    if (follows && m->n_rows + n > m->n_rows_max) TERN_TRY(catch_up(m, tokens, first, false, err));
    if (!follows || m->n_rows + n > m->n_rows_max) {
        m->first_row = first;
        m->n_rows = 0;
    }
    tern_runner_graph *g = tern_runner_graph_of(runner, step);
    TERN_TRY(tern_runner_read(g, g->graph.states, n, m->rows + (size_t)m->n_rows * m->n_embd, err));
    m->n_rows += n;
    return TERN_OK;
}

void tern_mtp_truncate(tern_mtp *m, uint32_t n)
{
    const uint32_t pairs = n ? n - 1 : 0;
    if (pairs <= m->origin) m->origin = m->n_done = 0;
    else if (m->origin + m->n_done > pairs) m->n_done = pairs - m->origin;
    if (m->first_row + m->n_rows > n) m->n_rows = n > m->first_row ? n - m->first_row : 0;
}

tern_status tern_mtp_propose(tern_mtp *m, const int32_t *tokens, uint32_t n_tokens, int32_t *out, uint32_t n,
                             uint32_t *n_out, tern_error *err)
{
    const uint32_t last = n_tokens - 1;
    *n_out = 0;
    if (n == 0 || !m->n_rows || m->first_row + m->n_rows != last) return TERN_OK;
    TERN_TRY(catch_up(m, tokens, last, true, err));
    for (uint32_t i = 0; i < n; i++) {
        double share;
        out[i] = tern_draft_model__likeliest(m->logits, m->n_vocab, &share);
        if (!(share >= 0.5)) return TERN_OK;
        *n_out = i + 1;
        if (i + 1 < n) TERN_TRY(run(m, &out[i], last + i, 1, m->state, true, err));
    }
    return TERN_OK;
}
