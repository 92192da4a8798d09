/* A LoRA adapter for an engine's model from a text in memory, step by step: what `tern finetune --lora` does, without
 * files, on the engine's own weights and device, and where nothing can be waited for. */
#ifndef TERN_TRAIN_TUNING_H
#define TERN_TRAIN_TUNING_H

#include "infer/engine/engine.h"
#include "tern/bytes.h"

/* Zero-initialised means sensible defaults. */
typedef struct tern_tuning_params {
    uint32_t rank;  /* 0: 8 */
    float alpha;    /* 0: twice the rank */
    double lr;      /* the highest of the schedule (cosine, after a warm-up); 0: as suits the model */
    uint32_t steps; /* 0: three times the text */
    uint32_t batch; /* rows of a step; 0: 4 */
    uint32_t seq;   /* positions of a row; 0: the model's, at most 256 */
    uint64_t seed;  /* of the order of rows, of those held out, of the adapter's first values; 0: 1 */
} tern_tuning_params;

/* One step. */
typedef struct tern_tuning_result {
    uint64_t step, n_steps; /* steps done, of all */
    double loss;            /* mean over the step's labels, before its update */
    double norm;            /* of its gradients, before clipping */
    double validation;      /* mean loss over the rows held out, after the step; NaN: not measured now */
    uint64_t n_positions;   /* tokens that it saw */
    double seconds;         /* from its start to its end, validation aside */
} tern_tuning_result;

typedef struct tern_tuning tern_tuning; /* one thread at a time */

/* The text is one document of n bytes of UTF-8, cut into rows; where there are 20 rows or more, a tenth is held out.
 * It may go afterwards; the engine must stay, and sessions on it go on as they were. Errors: INVALID_ARGUMENT (a
 * parameter; text shorter than two tokens; no tokenizer), OUT_OF_MEMORY (with the plan), UNSUPPORTED, LIMIT. */
tern_status tern_tuning_open(tern_tuning **tuning, tern_engine *engine, const void *text, size_t n,
                             const tern_tuning_params *params, tern_error *err);
/* NULL is fine. */
void tern_tuning_close(tern_tuning *tuning);
/* How many steps there will be. */
uint64_t tern_tuning_n_steps(const tern_tuning *tuning);
/* The next step. PENDING as tern_trainer_step. Errors: INVALID_ARGUMENT (a loss that is not finite; no step is left),
 * those of the backend. */
tern_status tern_tuning_step(tern_tuning *tuning, tern_tuning_result *result, tern_error *err);
/* The adapter as it is now, a GGUF file at the end of a buffer. PENDING as tern_trainer_adapter. */
tern_status tern_tuning_adapter(tern_tuning *tuning, tern_buf *gguf, tern_error *err);

#endif
