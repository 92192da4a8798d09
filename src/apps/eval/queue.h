/* Questions that a model answers, many at once: requests of one batch. */
#ifndef TERN_APPS_EVAL_QUEUE_H
#define TERN_APPS_EVAL_QUEUE_H

#include "apps/eval/score.h"

/* All borrowed for as long as the queue is. */
typedef struct tern_eval_asking {
    tern_engine *engine;
    tern_batch_params batch;
    uint32_t max_tokens; /* of a written answer */
} tern_eval_asking;

typedef struct tern_eval_queue tern_eval_queue;

/* Takes the memory of the sequences. Errors: OUT_OF_MEMORY, those of tern_batch_open. */
tern_status tern_eval_queue_open(tern_eval_queue **queue, const tern_eval_asking *how, tern_error *err);
/* Puts a question in line, with the adapters that answer it (borrowed until `finish`), and takes what *item holds;
 * `where` names it in messages. On the way others are answered. Errors: those of tern_batch_submit and of
 * tern_eval_queue_finish. */
tern_status tern_eval_queue_add(tern_eval_queue *queue, tern_eval_item *item, const char *where,
                                const tern_lora_use *loras, uint32_t n_loras, tern_error *err);
/* Waits for all answers and counts them. On the CPU, the result of a question has the same bits whatever else is
 * answered beside it. Errors: that of the first question that could not be answered, with its place; CANCELLED; those
 * of a step.
 */
tern_status tern_eval_queue_finish(tern_eval_queue *queue, tern_eval_score *score, tern_error *err);
/* Safe on NULL. */
void tern_eval_queue_close(tern_eval_queue *queue);

#endif
