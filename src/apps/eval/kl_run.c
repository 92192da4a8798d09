/* A text's windows evaluated, of each the second half looked at. */
#include "apps/eval/kl_run.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

/* The use of the logits of a position; `next` is the token that follows, `row` counts them over all windows. */
typedef tern_status (*take_row)(void *context, const float *logits, int32_t next, size_t row, tern_error *err);

typedef struct walk {
    const tern_kl_reader *reader;
    uint32_t window, n_windows;
    take_row take;
    void *context;
} walk;

static tern_status take_rows(const walk *w, const int32_t *next, uint32_t n, size_t first_row, tern_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        float *logits;
        TERN_TRY(tern_session_logits(w->reader->session, i, &logits, err));
        TERN_TRY(w->take(w->context, logits, next[i], first_row + i, err));
    }
    return TERN_OK;
}

/* The first token stands for the beginning of a text: BOS, where the tokenizer begins texts with it. */
static tern_status run_window(const walk *w, int32_t *ids, uint32_t number, tern_error *err)
{
    tern_session *session = w->reader->session;
    const uint32_t step = tern_session_max_outputs(session), first = tern_kl_first(w->window), end = w->window - 1;
    const size_t row = (size_t)number * tern_kl_rows(w->window);
    if (w->reader->model->adds_bos) ids[0] = w->reader->model->bos;
    tern_session_truncate(session, 0);
    TERN_TRY(tern_session_append(session, ids, first, err));
    for (uint32_t at = first; at < end; at += step) {
        const uint32_t n = end - at < step ? end - at : step;
        TERN_TRY(tern_session_append_all(session, ids + at, n, err));
        TERN_TRY(take_rows(w, ids + at + 1, n, row + at - first, err));
    }
    if (tern_progress_update(w->reader->progress, (float)(number + 1) / (float)w->n_windows)) return TERN_OK;
    return tern_app_fail_interrupted(err);
}

/* ---- saving */

typedef struct saving {
    uint32_t n_vocab;
    tern_file_writer writer;
    uint8_t *row;
    double nll;
} saving;

static tern_status save_row(void *context, const float *logits, int32_t next, size_t row, tern_error *err)
{
    saving *s = context;
    (void)row, (void)err;
    s->nll += tern_kl_encode(logits, s->n_vocab, s->row) - (double)logits[next];
    tern_file_writer_add(&s->writer, s->row, tern_kl_row_bytes(s->n_vocab));
    return TERN_OK;
}

static void write_head(saving *s, const tern_kl_base *about, const int32_t *ids)
{
    uint8_t head[TERN_KL_HEAD_BYTES], id[4];
    tern_kl_base_head(about, head);
    tern_file_writer_add(&s->writer, head, sizeof head);
    for (size_t i = 0; i < (size_t)about->n_windows * about->window; i++) {
        tern_store_u32(id, (uint32_t)ids[i]);
        tern_file_writer_add(&s->writer, id, sizeof id);
    }
}

tern_status tern_kl_save(const tern_kl_reader *reader, const tern_tokens *ids, uint32_t window, const char *path,
                         tern_kl_saved *saved, tern_error *err)
{
    saving s = {.n_vocab = reader->model->n_vocab};
    if (window < 4 || ids->n < window)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "windows of %u tokens and a text of %zu found: 4 tokens or more in a window, and a text of "
                         "a window or more expected; --window sets their length",
                         window, ids->n);
    const tern_kl_base about = {.window = window, .n_vocab = s.n_vocab, .n_windows = (uint32_t)(ids->n / window)};
    const walk w = {reader, window, about.n_windows, save_row, &s};
    int32_t *copy = tern_alloc(window * sizeof *copy);
    tern_status status;
    s.row = tern_alloc(tern_kl_row_bytes(s.n_vocab));
    TERN_GOTO(copy && s.row ? TERN_OK : tern_fail_alloc(err, window * sizeof *copy));
    TERN_GOTO(tern_file_writer_open(&s.writer, path, err));
    write_head(&s, &about, ids->ids);
    for (uint32_t i = 0; i < about.n_windows; i++) {
        memcpy(copy, ids->ids + (size_t)i * window, window * sizeof *copy);
        TERN_GOTO(run_window(&w, copy, i, err));
    }
    TERN_GOTO(tern_file_writer_commit(&s.writer, err));
    saved->n_windows = about.n_windows;
    saved->n_scored = (uint64_t)about.n_windows * tern_kl_rows(window);
    saved->nll = s.nll / (double)saved->n_scored;
fail:
    tern_file_writer_abort(&s.writer);
    tern_free(s.row);
    tern_free(copy);
    return status;
}

/* ---- comparing */

typedef struct comparing {
    const tern_kl_base *base;
    tern_kl_token *tokens;
} comparing;

static tern_status compare_row(void *context, const float *logits, int32_t next, size_t row, tern_error *err)
{
    comparing *c = context;
    const uint32_t rows = tern_kl_rows(c->base->window);
    (void)err;
    tern_kl_compare(logits, tern_kl_base_row(c->base, (uint32_t)(row / rows), (uint32_t)(row % rows)), c->base->n_vocab,
                    next, &c->tokens[row]);
    return TERN_OK;
}

static tern_status check_fit(const tern_kl_reader *reader, const tern_kl_base *base, tern_error *err)
{
    const uint32_t n_ctx = tern_session_n_ctx(reader->session);
    if (base->n_vocab != reader->model->n_vocab)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "saved with a vocabulary of %u tokens, %u (this model's) expected",
                         base->n_vocab, reader->model->n_vocab);
    if (base->window > n_ctx)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "saved in windows of %u tokens: at most the context of %u expected", base->window, n_ctx);
    return TERN_OK;
}

tern_status tern_kl_read(const tern_kl_reader *reader, const tern_kl_base *base, tern_kl_token **tokens, size_t *n,
                         tern_error *err)
{
    comparing c = {.base = base};
    const walk w = {reader, base->window, base->n_windows, compare_row, &c};
    int32_t *ids = NULL;
    tern_status status;
    *tokens = NULL;
    *n = (size_t)base->n_windows * tern_kl_rows(base->window);
    TERN_GOTO(check_fit(reader, base, err));
    c.tokens = tern_calloc(*n, sizeof *c.tokens);
    ids = tern_alloc(base->window * sizeof *ids);
    TERN_GOTO(c.tokens && ids ? TERN_OK : tern_fail_alloc(err, *n * sizeof *c.tokens));
    for (uint32_t i = 0; i < base->n_windows; i++) {
        tern_kl_base_ids(base, i, ids);
        TERN_GOTO(run_window(&w, ids, i, err));
    }
    *tokens = c.tokens;
    c.tokens = NULL;
fail:
    tern_free(c.tokens);
    tern_free(ids);
    return status;
}
