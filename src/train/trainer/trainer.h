/* Training in memory: the weights that learn, their states and the graphs, step by step. Nothing here knows of files
 * (checkpoint.h) or of people (run.h). */
#ifndef TERN_TRAIN_TRAINER_TRAINER_H
#define TERN_TRAIN_TRAINER_TRAINER_H

#include "infer/engine/engine.h"
#include "model/adapter/adapter.h"
#include "ops/ref/update.h"
#include "ranks/ranks.h"
#include "train/data/pack.h"

/* Low-rank adapters on a frozen model (arXiv:2106.09685). */
typedef struct tern_trainer_lora {
    uint32_t rank; /* 0: none, all weights are tuned */
    float alpha;
    float dropout;              /* 0 <= p < 1 */
    const char *const *targets; /* [n_targets] PEFT's words, "q_proj"; none: all linear layers but experts */
    size_t n_targets;
    const tern_adapter *start; /* goes on from this one, whose rank, alpha and targets count; NULL: A is random
                                * (Kaiming uniform, as PEFT), B zero */
} tern_trainer_lora;

/* Zero-initialised is not valid: see tern_trainer_defaults. */
typedef struct tern_trainer_params {
    uint32_t batch, seq; /* rows of one run of the graph, and their length */
    uint32_t accumulate; /* runs to a step */
    bool checkpoint;     /* activations are computed again in the backward */
    /* Each weight is updated in the backward, as soon as its gradient is there, so that gradients are never whole; the
     * same bits. accumulate is 1 then. Clipping (clip > 0) needs the norm of all gradients first: the backward runs
     * twice. */
    bool optimizer_in_backward;
    bool f32_activations; /* no int8 quantiser (W1.58A32) */
    bool bf16;            /* factors of gradients' products and of attention are rounded to bf16 (tern_op.halves) */
    tern_optimizer optimizer;
    double lr, beta1, beta2, eps, decay, momentum;
    double clip; /* largest norm of all gradients; 0: no clipping */
    tern_schedule schedule;
    uint64_t n_warmup, n_steps; /* of the schedule */
    tern_dtype master;          /* F32, or BF16 with stochastic rounding */
    tern_dtype m, v;            /* F32, BF16, or M8 and V8 */
    uint32_t sync_every;        /* ternary codes are made anew every so many steps; 1 */
    float threshold, clamp;     /* as --threshold and --clamp say; 0, 0: absmean */
    uint64_t blend_steps;       /* the quantisers come in linearly over so many steps; 0: at once */
    const char *const
        *freeze; /* [n_freeze] patterns (fnmatch) of the names in the Hugging Face form; what matches stays */
    size_t n_freeze;
    tern_trainer_lora lora;
    uint64_t seed;         /* dropout, stochastic rounding, new adapters */
    uint64_t memory_limit; /* bytes on the device; 0: what it has */
    /* Processes that train together, on the CPU, in step: each has the same model and parameters and makes the same
     * calls with the same rows. They share the passes of a step, `accumulate` of them, at least one each, in turn; and
     * the gradients' sums and the moments by whole tensors (ZeRO-1, arXiv:1910.02054). The bits are those of one
     * process. Borrowed; NULL: alone. */
    tern_ranks *ranks;
    bool from_nothing;         /* the model is new: an adapter beside it does not help against too little memory */
    const tern_engine *engine; /* of the same model and backend: weights that stay as they are lie there already and are
                                * borrowed, which leaves its sessions as they were; NULL: the trainer makes its own */
} tern_trainer_params;

tern_trainer_params tern_trainer_defaults(void);
/* The default for a model: wide models want smaller steps; adapters, which begin at nothing, larger ones.
 */
double tern_trainer_default_lr(const tern_config *config, bool lora);
uint64_t tern_trainer_default_warmup(uint64_t n_steps);
/* Positions of a row: at most the model's context. */
uint32_t tern_trainer_default_seq(const tern_config *config);

/* The memory of a run on the device, in bytes, known before anything is allocated. */
typedef struct tern_trainer_plan {
    uint64_t weights; /* what the forward reads and is not its own master, an engine's aside */
    uint64_t masters; /* with the dense weights that learn */
    uint64_t gradients, moments;
    uint64_t activations;  /* with the logits of a chunk of rows */
    uint64_t other;        /* parameters, losses, tables */
    uint64_t total, limit; /* limit 0: not known */
    uint64_t n_trained;    /* parameters that learn, of n_parameters */
    uint64_t n_parameters;
    uint32_t n_tokens, chunk; /* rows of a run of the graph; rows of logits at a time */
} tern_trainer_plan;

/* Errors: INVALID_ARGUMENT (params, with the value found and expected; nothing to train), UNSUPPORTED, OUT_OF_MEMORY.
 */
tern_status tern_trainer_make_plan(tern_trainer_plan *plan, tern_backend *backend, const tern_model *model,
                                   const tern_trainer_params *params, tern_error *err);

typedef struct tern_trainer tern_trainer; /* one thread at a time */

/* backend and model are borrowed and must outlive the trainer, as must the strings of params. Opening fails with
 * OUT_OF_MEMORY, the plan and options that would help, where it does not fit. Masters start from the
 * model's weights: bf16, f16 or f32 ones as the file has them, of ternary ones code * scale. */
tern_status tern_trainer_open(tern_trainer **trainer, tern_backend *backend, const tern_model *model,
                              const tern_trainer_params *params, tern_error *err);
void tern_trainer_close(tern_trainer *trainer);

const tern_trainer_params *tern_trainer_params_of(const tern_trainer *trainer);
const tern_trainer_plan *tern_trainer_plan_of(const tern_trainer *trainer);

/* One step. */
typedef struct tern_trainer_result {
    double loss; /* mean over the labels, before the update */
    double norm; /* of all gradients, before clipping */
    double lr;
    uint64_t n_labels, n_positions;
} tern_trainer_result;

/* Rows: batch * accumulate of them, each of seq positions; fewer leave the rest of the batch masked. Counts the steps
 * from 0. A loss or norm that is not finite changes nothing and fails with INVALID_ARGUMENT and the step's number; with
 * optimizer_in_backward and no clipping it is seen when weights have been updated, and the trainer is good for closing
 * alone. On a
 * backend that never waits PENDING: the same call again goes on where this one stopped; so do evaluate, backward, read
 * and adapter. Another of these calls gives it up, and nothing was learned from it. */
tern_status tern_trainer_step(tern_trainer *trainer, const tern_train_row *rows, size_t n_rows,
                              tern_trainer_result *result, tern_error *err);
uint64_t tern_trainer_steps(const tern_trainer *trainer);
/* How many rows each expert had in the last step, padding aside: [n_layers][n_experts]; NULL without experts. */
const uint64_t *tern_trainer_expert_rows(const tern_trainer *trainer);
/* The largest of them over their mean, of the layer where that is largest: 1 is even, n_experts / n_experts_used the
 * most; 0 without experts or steps. */
double tern_trainer_expert_imbalance(const tern_trainer *trainer);
/* Loss alone: the sum over the labels of any number of rows, and how many there are. */
tern_status tern_trainer_evaluate(tern_trainer *trainer, const tern_train_row *rows, size_t n_rows, double *sum,
                                  uint64_t *n_labels, tern_error *err);
/* The gradients of one batch without an update, for tests: tern_trainer_read afterwards gives them; the next step adds
 * to them unless they are cleared. UNSUPPORTED with optimizer_in_backward. */
tern_status tern_trainer_backward(tern_trainer *trainer, const tern_train_row *rows, size_t n_rows, double *loss,
                                  tern_error *err);
tern_status tern_trainer_clear(tern_trainer *trainer, tern_error *err);

/* The tensors that learn, in a fixed order. */
typedef struct tern_trainer_tensor {
    const char *name; /* Hugging Face's, "model.layers.0.self_attn.q_proj.weight"; of adapters PEFT's,
                       * "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" */
    tern_role role;
    uint32_t layer;
    uint32_t rows, cols; /* rows in the model's own order (tern_config.rope_adjacent); ranks of adapters are rounded up
                          * to a multiple of 4, with zeros that stay */
    bool ternary;        /* of the master of a ternary layer */
    tern_dtype dtype[TERN_STATE_COUNT]; /* of each state; U32: it has none */
} tern_trainer_tensor;

size_t tern_trainer_n_tensors(const tern_trainer *trainer);
const tern_trainer_tensor *tern_trainer_tensor_at(const tern_trainer *trainer, size_t i);
/* The bytes of one state of a tensor, tern_row_bytes(dtype, cols, rows), MASTER for all kinds of weights: for
 * checkpoints, exports and tests. MASTERs are as they are trained (tern_role_to_trained). Writing MASTERs takes effect
 * with tern_trainer_sync. Several ranks read and write the same states in the same order; rank 0 gets the bytes of any,
 * the others those of MASTERs (bytes of another state may be NULL there). */
tern_status tern_trainer_read(tern_trainer *trainer, size_t i, tern_state state, void *bytes, tern_error *err);
tern_status tern_trainer_write(tern_trainer *trainer, size_t i, tern_state state, const void *bytes, tern_error *err);
/* Requantises everything from the masters, and sets the number of steps done. */
tern_status tern_trainer_sync(tern_trainer *trainer, uint64_t n_steps, tern_error *err);

/* Nothing more is learned: what is left are the MASTERs, for reading, and the adapter; all other memory is given back.
 * A step or a loss fails with INVALID_ARGUMENT from now on. */
tern_status tern_trainer_finish(tern_trainer *trainer, tern_error *err);

/* The adapter as it is now, for tern_adapter_write_*; close it. UNSUPPORTED without LoRA. */
tern_status tern_trainer_adapter(tern_trainer *trainer, tern_adapter **adapter, tern_error *err);

#endif
