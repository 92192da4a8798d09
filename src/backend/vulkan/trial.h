/* One op of a graph, tried on made-up inputs on two backends: the device's result against the CPU's. Real weights, real
 * shapes. */
#ifndef TERN_BACKEND_VULKAN_TRIAL_H
#define TERN_BACKEND_VULKAN_TRIAL_H

#include "backend/backend.h"
#include "backend/gpu/program.h"
#include "base/rng.h"
#include "ops/operands.h"

typedef tern_status (*tern_vulkan_prepare_fn)(tern_backend *b, const tern_graph *graph, const tern_binding *bindings,
                                              tern_prepared **out, tern_error *err);

typedef struct tern_vulkan_trial {
    const tern_graph *from;
    const tern_gpu_caps *caps; /* of the device */
    tern_op op;                /* with rows from the first on, and fewer of large states */
    tern_graph graph;          /* of that op alone */
    tern_value *values; /* from's, each at offset 0, and two more: what lies between the two ops of a fused one, or
                         * what is seen of a weight that the op has made; and what that is multiplied by */
    uint8_t **contents; /* [n_values + 2] of what the op reads; NULL: zeros, or a weight */
    uint32_t made;      /* the weight that it writes, or TERN_NO_VALUE */
    tern_weight weight; /* which is then this one: some of its rows, copied */
    uint8_t *weight_data;
    float *weight_scales;
    tern_weight fetched[TERN_OP_MAX_INPUTS]; /* weights that only the device had */
    uint8_t *fetched_data[TERN_OP_MAX_INPUTS];
    size_t n_fetched;
    uint8_t *params;
    uint32_t n_tokens, n_outputs;
    tern_rng rng;
} tern_vulkan_trial;

/* One of the two backends. The CPU takes fused ops apart. */
typedef struct tern_vulkan_side {
    tern_backend *backend;
    tern_vulkan_prepare_fn prepare;
    const tern_binding *weights; /* where the weights lie already; NULL: they are made */
    bool apart;
    tern_op ops[2];
    tern_graph graph;
    tern_binding *bindings;
    tern_buffer **owned; /* [n_values + 3] */
    tern_prepared *prepared;
    uint8_t **results; /* [n_values + 2] of the values that the op writes */
    bool *used;        /* [TERN_GPU_PIPELINE_COUNT] set where a pipeline ran; NULL on the host */
} tern_vulkan_side;

/* Runs `op` of `graph` on both and compares. *what is empty, or says where the device is wrong. Errors: OUT_OF_MEMORY
 * and those of the backends; UNSUPPORTED: the CPU cannot tell. */
tern_status tern_vulkan__try_op(const tern_graph *graph, const tern_op *op, tern_vulkan_side *device,
                                tern_vulkan_side *host, char *what, size_t n_what, tern_error *err);

/* selftest.c: sets used[i] for each pipeline of a graph prepared on the device. */
void tern_vulkan__pipelines_of(const tern_prepared *prepared, bool *used);
/* trial_shrink.c: gives the trial an op of few rows, with a weight of its own where the op writes one. */
tern_status tern_vulkan__trial_shrink(tern_vulkan_trial *t, const tern_op *op, tern_error *err);
/* The weight of its own as the op's is, for the next side: the CPU works in place. */
void tern_vulkan__trial_restore(const tern_vulkan_trial *t);
/* trial_weight.c: gives the op's weights that have no data some, from the device, for the host. */
tern_status tern_vulkan__trial_fetch(tern_vulkan_trial *t, const tern_vulkan_side *device, tern_error *err);
void tern_vulkan__trial_drop(tern_vulkan_trial *t);
/* trial_inputs.c: fills contents and params. */
tern_status tern_vulkan__trial_inputs(tern_vulkan_trial *t, tern_error *err);
/* trial_training.c: those of training. */
void tern_vulkan__trial_state(tern_vulkan_trial *t, const tern_value *v, uint8_t *to);
void tern_vulkan__trial_training(tern_vulkan_trial *t);
uint32_t *tern_vulkan__trial_param(tern_vulkan_trial *t, tern_param which); /* NULL: the graph has none */
float tern_vulkan__trial_number(tern_vulkan_trial *t);                      /* in -1 .. 1 */
/* Bytes of a value that a trial touches. */
uint64_t tern_vulkan__trial_bytes(const tern_vulkan_trial *t, const tern_value *v);
/* trial_compare.c */
void tern_vulkan__trial_compare(const tern_vulkan_trial *t, uint8_t *const *got, uint8_t *const *want, char *what,
                                size_t n_what);
/* Whether the op writes value i, so that it is to be compared. */
bool tern_vulkan__trial_writes(const tern_vulkan_trial *t, uint32_t i);
uint32_t tern_vulkan__trial_rows(const tern_vulkan_trial *t, const tern_value *v);

#endif
