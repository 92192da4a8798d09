/* One question of an evaluation, from a line of JSON. */
#ifndef TERN_APPS_EVAL_ITEM_H
#define TERN_APPS_EVAL_ITEM_H

#include "apps/app.h"

enum { TERN_EVAL_MAX_CHOICES = 26 };

/* Zero-initialised is empty; deinit frees. */
typedef struct tern_eval_item {
    tern_buf context;                        /* what the model reads */
    tern_buf choices[TERN_EVAL_MAX_CHOICES]; /* what may follow it, with the space before */
    uint32_t n_choices;                      /* 0: the model writes, and that is compared with `target` */
    uint32_t answer;                         /* of the choices */
    tern_buf target;
    bool number; /* GSM8K: of what is written and of the target the last number counts */
} tern_eval_item;

/* Reads an object of HellaSwag, PIQA, ARC, MMLU or GSM8K, or {"prompt", "choices", "answer"}, or {"prompt", "answer"};
 * told apart by their members. Prompts are worded as in EleutherAI's lm-evaluation-harness 0.4 without examples.
 * Errors: MALFORMED (naming the member), OUT_OF_MEMORY. */
tern_status tern_eval_item_read(tern_eval_item *item, const json_t *object, tern_error *err);
void tern_eval_item_deinit(tern_eval_item *item);

#endif
