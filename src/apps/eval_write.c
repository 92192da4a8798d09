/* Written answers: requests of one batch, and texts compared. */
#include "apps/eval_write.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* ---- is it right? */

/* The last number of a text, without commas, "$" and a dot at its end; false: there is none. */
static bool last_number(const tern_buf *text, tern_buf *out)
{
    size_t end = text->size;
    while (end && !isdigit((uint8_t)text->data[end - 1])) end--;
    size_t begin = end;
    while (begin && (isdigit((uint8_t)text->data[begin - 1]) || strchr(",.", text->data[begin - 1]))) begin--;
    if (begin && text->data[begin - 1] == '-') begin--;
    out->size = 0;
    for (size_t i = begin; i < end; i++)
        if (text->data[i] != ',' && tern_buf_add(out, &text->data[i], 1, NULL) != TERN_OK) return false;
    return end > begin;
}

static void trim(tern_buf *text)
{
    size_t begin = 0;
    while (text->size && isspace((uint8_t)text->data[text->size - 1])) text->size--;
    while (begin < text->size && isspace((uint8_t)text->data[begin])) begin++;
    if (begin) memmove(text->data, text->data + begin, text->size - begin);
    text->size -= begin;
}

static bool equal(const tern_buf *a, const tern_buf *b)
{
    if (a->size != b->size || !a->data || !b->data) return a->size == b->size && a->size == 0;
    return memcmp(a->data, b->data, a->size) == 0;
}

static bool is_same(tern_buf *written, const tern_eval_item *item)
{
    tern_buf a = {0}, b = {0};
    bool same;
    if (item->number) {
        same = last_number(written, &a) && last_number(&item->target, &b) && equal(&a, &b);
    } else {
        tern_buf target = {0};
        same = tern_buf_add(&target, item->target.data, item->target.size, NULL) == TERN_OK;
        trim(&target);
        trim(written);
        same = same && equal(&target, written);
        tern_buf_deinit(&target);
    }
    tern_buf_deinit(&a);
    tern_buf_deinit(&b);
    return same;
}

/* ---- a question that is being answered */

typedef struct question {
    struct question *next;
    tern_eval_item item;
    tern_buf written;
    tern_request *request;
    char where[160];
    tern_error error; /* code OK: none */
    bool ended;
} question;

struct tern_eval_writer {
    tern_eval_writing how;
    tern_batch *batch;
    question *questions; /* the last one first */
    uint32_t n_waiting;
};

static bool take_piece(void *context, const tern_request_piece *piece)
{
    question *q = context;
    return tern_buf_add(&q->written, piece->text, piece->n_text, &q->error) == TERN_OK;
}

static void end(void *context, const tern_request_result *result)
{
    question *q = context;
    q->ended = true;
    if (result->error && q->error.code == TERN_OK) q->error = *result->error;
}

static void free_question(question *q)
{
    tern_request_free(q->request);
    tern_eval_item_deinit(&q->item);
    tern_buf_deinit(&q->written);
    tern_free(q);
}

static tern_status submit(tern_eval_writer *w, question *q, const tern_lora_use *loras, uint32_t n_loras,
                          tern_error *err)
{
    static const char *const of_number[] = {"Question:"}, *const of_text[] = {"\n"};
    tern_tokens ids = {0};
    tern_request_params how = {.sampler = TERN_SAMPLER_DEFAULTS,
                               .max_tokens = w->how.max_tokens,
                               .stops = q->item.number ? of_number : of_text,
                               .n_stops = 1,
                               .loras = loras,
                               .n_loras = n_loras,
                               .on_piece = take_piece,
                               .on_end = end,
                               .context = q};
    const tern_buf *text = &q->item.context;
    tern_status status;
    how.sampler.temperature = 0;
    TERN_GOTO(tern_engine_tokenize(w->how.engine, text->data, text->size, TERN_TOKENIZE_BOS, &ids, err));
    how.prompt = ids.ids;
    how.n_prompt = (uint32_t)ids.n;
    TERN_GOTO(tern_batch_submit(w->batch, &how, &q->request, err));
fail:
    tern_tokens_deinit(&ids);
    return status;
}

/* ---- all of them */

tern_status tern_eval_writer_open(tern_eval_writer **writer, const tern_eval_writing *how, tern_error *err)
{
    *writer = tern_calloc(1, sizeof **writer);
    if (!*writer) return tern_fail_alloc(err, sizeof **writer);
    (*writer)->how = *how;
    return TERN_OK;
}

static tern_status open_batch(tern_eval_writer *w, tern_error *err)
{
    const tern_batch_params params = {.n_parallel = w->how.n_parallel, .n_ctx = w->how.n_ctx, .kv = w->how.kv};
    return w->batch ? TERN_OK : tern_batch_open(&w->batch, w->how.engine, &params, err);
}

static void count_waiting(tern_eval_writer *w)
{
    w->n_waiting = 0;
    for (const question *q = w->questions; q; q = q->next) w->n_waiting += !q->ended;
}

/* Until no more than `most` wait. */
static tern_status answer(tern_eval_writer *w, uint32_t most, tern_error *err)
{
    for (bool busy = true; busy && w->n_waiting > most; count_waiting(w)) {
        TERN_TRY(tern_batch_step(w->batch, &busy, err));
        if (tern_app_interrupted()) return tern_app_fail_interrupted(err);
    }
    return TERN_OK;
}

tern_status tern_eval_writer_add(tern_eval_writer *writer, tern_eval_item *item, const char *where,
                                 const tern_lora_use *loras, uint32_t n_loras, tern_error *err)
{
    question *q = tern_calloc(1, sizeof *q);
    if (!q) return tern_fail_alloc(err, sizeof *q);
    q->item = *item;
    *item = (tern_eval_item){0};
    snprintf(q->where, sizeof q->where, "%s", where);
    tern_status status = open_batch(writer, err);
    if (status == TERN_OK) status = submit(writer, q, loras, n_loras, err);
    if (status != TERN_OK) {
        free_question(q);
        return status;
    }
    q->next = writer->questions;
    writer->questions = q;
    writer->n_waiting++;
    return answer(writer, 2 * writer->how.n_parallel, err);
}

static void count(question *q, tern_eval_score *score)
{
    score->n_exact++;
    score->exact += is_same(&q->written, &q->item);
}

static void free_questions(tern_eval_writer *w)
{
    while (w->questions) {
        question *q = w->questions;
        w->questions = q->next;
        free_question(q);
    }
}

tern_status tern_eval_writer_finish(tern_eval_writer *writer, tern_eval_score *score, tern_error *err)
{
    const question *bad = NULL;
    TERN_TRY(answer(writer, 0, err));
    for (const question *q = writer->questions; q; q = q->next)
        if (q->error.code != TERN_OK) bad = q; /* the earliest is the last in the list */
    if (bad) return tern_fail(err, bad->error.code, "%s: %s", bad->where, bad->error.message);
    for (question *q = writer->questions; q; q = q->next) count(q, score);
    free_questions(writer);
    return TERN_OK;
}

void tern_eval_writer_close(tern_eval_writer *writer)
{
    if (!writer) return;
    tern_batch_close(writer->batch); /* which ends what still runs, and calls back */
    free_questions(writer);
    tern_free(writer);
}
