/* Answers that a model writes, many at once, compared with those that are right. */
#ifndef TERN_APPS_EVAL_WRITE_H
#define TERN_APPS_EVAL_WRITE_H

#include "apps/eval_score.h"
#include "tern/batch.h"

/* All borrowed for as long as the writer is. */
typedef struct tern_eval_writing {
    tern_engine *engine;
    uint32_t n_parallel, n_ctx; /* sequences of a step, and their positions */
    tern_kv_types kv;
    uint32_t max_tokens; /* of an answer */
} tern_eval_writing;

typedef struct tern_eval_writer tern_eval_writer;

/* Takes the memory of the sequences with the first question. Errors: OUT_OF_MEMORY. */
tern_status tern_eval_writer_open(tern_eval_writer **writer, const tern_eval_writing *how, tern_error *err);
/* Puts a question without choices in line, with the adapters that write it, and takes what *item holds; `where` names
 * it in messages. On the way others are answered. Errors: those of tern_batch_submit and of tern_eval_writer_finish. */
tern_status tern_eval_writer_add(tern_eval_writer *writer, tern_eval_item *item, const char *where,
                                 const tern_lora_use *loras, uint32_t n_loras, tern_error *err);
/* Waits for all answers and counts them. What a question gets has the same bits whatever else is answered beside it, on
 * the CPU. Errors: that of the first question that could not be answered, with its place; CANCELLED; those of a step.
 */
tern_status tern_eval_writer_finish(tern_eval_writer *writer, tern_eval_score *score, tern_error *err);
/* Safe on NULL. */
void tern_eval_writer_close(tern_eval_writer *writer);

#endif
