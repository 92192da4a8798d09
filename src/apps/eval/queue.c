/* Questions in line for one batch, and their answers counted. */
#include "apps/eval/queue.h"

#include <stdio.h>

#include "base/alloc.h"

struct tern_eval_queue {
    tern_eval_asking how;
    tern_batch *batch;
    tern_eval_question *questions; /* the last one first */
    uint32_t n_waiting;
};

tern_status tern_eval_queue_open(tern_eval_queue **queue, const tern_eval_asking *how, tern_error *err)
{
    tern_eval_queue *q = *queue = tern_calloc(1, sizeof *q);
    if (!q) return tern_fail_alloc(err, sizeof *q);
    q->how = *how;
    return tern_batch_open(&q->batch, how->engine, &how->batch, err);
}

void tern_eval_part_end(void *context, const tern_request_result *result)
{
    tern_eval_part *part = context;
    part->ended = true;
    if (result->error && part->question->error.code == TERN_OK) part->question->error = *result->error;
}

static bool is_answered(const tern_eval_question *q)
{
    const uint32_t n = q->item.n_choices ? q->item.n_choices : 1;
    bool all = true;
    for (uint32_t i = 0; i < n; i++) {
        if (q->parts[i].request && !q->parts[i].ended) return false;
        all = all && q->parts[i].ended;
    }
    return all || q->error.code != TERN_OK;
}

static void free_question(tern_eval_question *q)
{
    for (uint32_t i = 0; i < TERN_EVAL_MAX_CHOICES; i++) tern_request_free(q->parts[i].request);
    tern_eval_item_deinit(&q->item);
    tern_buf_deinit(&q->written);
    tern_free(q);
}

static void count_waiting(tern_eval_queue *queue)
{
    queue->n_waiting = 0;
    for (const tern_eval_question *q = queue->questions; q; q = q->next) queue->n_waiting += !is_answered(q);
}

/* Until no more than `most` wait. */
static tern_status answer(tern_eval_queue *queue, uint32_t most, tern_error *err)
{
    for (bool busy = true; busy && queue->n_waiting > most; count_waiting(queue)) {
        TERN_TRY(tern_batch_step(queue->batch, &busy, err));
        if (tern_app_interrupted()) return tern_app_fail_interrupted(err);
    }
    return TERN_OK;
}

tern_status tern_eval_queue_add(tern_eval_queue *queue, tern_eval_item *item, const char *where,
                                const tern_lora_use *loras, uint32_t n_loras, tern_error *err)
{
    tern_eval_question *q = tern_calloc(1, sizeof *q);
    if (!q) return tern_fail_alloc(err, sizeof *q);
    q->item = *item;
    *item = (tern_eval_item){0};
    q->engine = queue->how.engine;
    q->batch = queue->batch;
    q->loras = loras;
    q->n_loras = n_loras;
    q->max_tokens = queue->how.max_tokens;
    snprintf(q->where, sizeof q->where, "%s", where);
    const tern_status status = q->item.n_choices ? tern_eval_choose(q, err) : tern_eval_write(q, err);
    if (status != TERN_OK) {
        free_question(q);
        return status;
    }
    q->next = queue->questions;
    queue->questions = q;
    queue->n_waiting++;
    return answer(queue, 2 * tern_batch_n_parallel(queue->batch), err);
}

static void free_questions(tern_eval_queue *queue)
{
    while (queue->questions) {
        tern_eval_question *q = queue->questions;
        queue->questions = q->next;
        free_question(q);
    }
}

tern_status tern_eval_queue_finish(tern_eval_queue *queue, tern_eval_score *score, tern_error *err)
{
    const tern_eval_question *bad = NULL;
    TERN_TRY(answer(queue, 0, err));
    for (const tern_eval_question *q = queue->questions; q; q = q->next)
        if (q->error.code != TERN_OK) bad = q; /* the earliest is the last in the list */
    if (bad) return tern_fail(err, bad->error.code, "%s: %s", bad->where, bad->error.message);
    for (tern_eval_question *q = queue->questions; q; q = q->next) {
        if (q->item.n_choices) tern_eval_choose_count(q, score);
        else tern_eval_write_count(q, score);
    }
    free_questions(queue);
    return TERN_OK;
}

void tern_eval_queue_close(tern_eval_queue *queue)
{
    if (!queue) return;
    tern_batch_close(queue->batch); /* which ends what still runs, and calls back */
    free_questions(queue);
    tern_free(queue);
}
