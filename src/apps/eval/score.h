/* Scores of a model's answers. */
#ifndef TERN_APPS_EVAL_SCORE_H
#define TERN_APPS_EVAL_SCORE_H

#include "apps/eval/item.h"
#include "tern/batch.h"

/* Sums over questions; zero-initialised is none. */
typedef struct tern_eval_score {
    uint64_t n_choices, n_exact; /* questions of each kind */
    uint64_t right;              /* the choice of highest log-probability is the answer */
    uint64_t right_norm;         /* the same, each divided by its characters */
    uint64_t exact;              /* what the model wrote is the answer */
} tern_eval_score;

/* Standard error of the mean of n answers of which `right` are 1 and the others 0; 0 below two. */
double tern_eval_stderr(uint64_t right, uint64_t n);

/* One request of a question: a choice that is scored, or the answer that is written. */
typedef struct tern_eval_part {
    struct tern_eval_question *question;
    tern_request *request; /* NULL: not submitted yet */
    uint32_t n_left;       /* of a choice: tokens without a log-probability yet */
    double sum;            /* of the log-probabilities */
    bool ended;
} tern_eval_part;

/* A question that is being answered. */
typedef struct tern_eval_question {
    struct tern_eval_question *next;
    tern_eval_item item;
    tern_engine *engine;
    tern_batch *batch;
    const tern_lora_use *loras; /* [n_loras] */
    uint32_t n_loras, max_tokens;
    tern_eval_part parts[TERN_EVAL_MAX_CHOICES];
    tern_buf written;
    char where[160];
    tern_error error; /* the first one; code OK: none */
} tern_eval_question;

/* Submits the first choice. The others follow once it has ended: then the pool holds the question's context, which is
 * evaluated once. Errors: INVALID_ARGUMENT (no token before a choice), those of tern_batch_submit; of the others they
 * are the question's. */
tern_status tern_eval_choose(tern_eval_question *question, tern_error *err);
/* Which choice is the likeliest, and which by its characters. */
void tern_eval_choose_count(const tern_eval_question *question, tern_eval_score *score);

/* Submits a question whose answer is written, and compares it with the target. Errors: those of tern_batch_submit. */
tern_status tern_eval_write(tern_eval_question *question, tern_error *err);
void tern_eval_write_count(tern_eval_question *question, tern_eval_score *score);

/* tern_request_params.on_end of a part: keeps the question's first error. */
void tern_eval_part_end(void *part, const tern_request_result *result);

#endif
