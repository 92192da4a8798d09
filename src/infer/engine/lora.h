/* Adapters on an engine: their matrices as weights of its backend, and where they stand in the graphs of a session. */
#ifndef TERN_INFER_ENGINE_LORA_H
#define TERN_INFER_ENGINE_LORA_H

#include "infer/engine/engine.h"
#include "model/adapter/adapter.h"

/* An adapter on an engine, opened or made with the engine's model, whose order of rows it has. Each matrix is kept in
 * the shortest of bf16, f16 and f32 that holds all its values; a scale that is a power of two goes into B. The adapter
 * is the caller's, and may go. Errors: INVALID_ARGUMENT (layers or shapes that are not the model's), OUT_OF_MEMORY,
 * those of the backend. */
tern_status tern_lora_open(tern_lora **lora, tern_engine *engine, const tern_adapter *adapter, tern_error *err);

/* An adapter without its pairs, as other ranks receive it (infer/follow). */
typedef struct tern_lora_header {
    tern_lora_info info;
    float scale, fold;
} tern_lora_header;

typedef struct tern_lora_target {
    tern_role role;
    uint32_t layer;
} tern_lora_target;

/* An adapter without pairs, and one pair more: of B what the engine's rank has of the layer's rows. */
tern_status tern_lora__begin(tern_lora **lora, tern_engine *engine, uint32_t number, const tern_lora_header *head,
                             tern_error *err);
tern_status tern_lora__add_pair(tern_lora *lora, const tern_lora_target *target, const tern_adapter_pair *pair,
                                tern_error *err);
/* Equal on all ranks. */
uint32_t tern_lora__number(const tern_lora *lora);

/* Errors: INVALID_ARGUMENT (no adapter, one of another engine, a scale that is not finite), by their index. */
tern_status tern_lora__check(const tern_engine *engine, const tern_lora_use *uses, uint32_t n, tern_error *err);
/* The buffer of one of its matrices; NULL for other weights. */
tern_buffer *tern_lora__buffer(const tern_lora *lora, const tern_weight *weight);

/* Adapters, in their order; with groups: some for some rows of a step alone. */
typedef struct tern_lora_uses {
    tern_lora_use *uses; /* [n] */
    uint32_t *groups;    /* [n] of each: tern_op.group, in no order; 0: all rows */
    uint32_t n, n_groups;
} tern_lora_uses;

/* The weights beside the layers of a graph that uses these adapters: for tern_graph_options.weights. */
typedef struct tern_lora_weights {
    tern_graph_weight *weights; /* [n_layers][TERN_ROLE_COUNT]; NULL without adapters */
    tern_graph_lora *loras;
} tern_lora_weights;

tern_status tern_lora__weights(tern_lora_weights *weights, const tern_engine *engine, const tern_lora_uses *uses,
                               tern_error *err);
void tern_lora__weights_deinit(tern_lora_weights *weights);
/* A number that differs between adapters; of one of them always the same. */
uint64_t tern_lora__fingerprint(const tern_lora *lora);

#endif
