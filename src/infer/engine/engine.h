/* One opened model on one backend: immutable after opening, shared by threads. */
#ifndef TERN_INFER_ENGINE_ENGINE_H
#define TERN_INFER_ENGINE_ENGINE_H

#include "backend/open.h"
#include "backend/paged/paged.h"
#include "graph/graph.h"
#include "model/model.h"
#include "tern/infer.h"

/* How many experts are on the device at once; zeros: as many as fit, all where they do. */
typedef struct tern_experts_size {
    uint64_t bytes;     /* of all of them together */
    uint32_t per_layer; /* on an average */
    bool all;
} tern_experts_size;

/* The room on the device for keys and values; zeros: as much as is free, where they do not fit. */
typedef struct tern_kv_room {
    uint64_t bytes;
    bool all; /* all of them are there, or the engine does not open */
} tern_kv_room;

/* Dense layers in steps of several tokens. AUTO: F16 where the backends of all ranks are fastest so (CUDA), else F32.
 */
typedef enum tern_half_rows { TERN_HALF_ROWS_F32, TERN_HALF_ROWS_F16, TERN_HALF_ROWS_AUTO } tern_half_rows;

/* Zero-initialised means sensible defaults. */
typedef struct tern_engine_params {
    tern_backend_options backend;
    const tern_encoding *head; /* requantise the output table when opening; NULL: as the file has it */
    bool head_exact;           /* read only the rows of the output table that can be among the logits wanted
                                * (docs/decisions/0011-exact-head.md) */
    /* Ternary layers without the int8 quantiser (W1.58A32). Excludes backend.kernel, except "dot", and backend.choices,
     * which are all of int8 products (INVALID_ARGUMENT). */
    bool f32_activations;
    /* Sessions that are to follow (NULL: the defaults), whose memory is counted with the weights' before these are
     * loaded; and whether nothing is counted, then or when a session is opened (infer/engine/memory_need.h). */
    const tern_session_params *session;
    bool no_memory_check;
    tern_experts_size experts;
    tern_kv_room kv_memory;
    const char *kv_disk;    /* the folder for keys and values that have no room; NULL: memory of the host. Borrowed */
    bool kv_on_host;        /* in the host's memory also where the device has no other (for tests) */
    tern_paged_fetch fetch; /* brings experts whose weights have no data; NULL: all have */
    void *fetch_context;
    uint32_t no_fusion; /* passes that the graphs of sessions go without (graph/fusions.h) */
    /* Each row of a step has the same bits whatever else is in it (graphs with kernel_rows). UNSUPPORTED on a backend
     * that cannot; the CPU always does so. */
    bool batch_invariant;
    tern_ranks
        *ranks; /* that run the model together, borrowed (infer/follow/follow.h); NULL: this process is the only one */
    uint32_t n_stages; /* runs of layers, each of as many ranks; 0: 1, all ranks share every layer */
    /* INT8 on a backend without such products: the graphs of sessions are UNSUPPORTED. AUTO: as INT8 where the backends
     * of all ranks have them (the CPU), else F32. */
    tern_block_rows int8_blocks;
    tern_half_rows half_rows;
    /* Called with 0..1 while the backend takes the weights, which is long where it rearranges them; may be NULL.
     * Returning false cancels. */
    bool (*progress)(void *context, float done);
    void *progress_context;
} tern_engine_params;

/* f32_activations, int8_blocks and half_rows of what a program has chosen. */
void tern_engine_set_activations(tern_engine_params *params, tern_activation_mode mode);

/* Opens a backend and gives it the model's weights. The engine owns `model` from here on, also when this fails. */
tern_status tern_engine_open(tern_engine **engine, tern_model *model, const tern_engine_params *params,
                             tern_error *err);

/* A GGUF file, a Hugging Face folder or a package, which goes to a backend with memory of its own piece by piece. The
 * progress of `options` is that of the whole, `params` has none. Errors: those of tern_model_open and tern_engine_open.
 */
tern_status tern_engine_open_path(tern_engine **engine, const char *path, const tern_model_options *options,
                                  const tern_engine_params *params, tern_error *err);

const tern_model *tern_engine_model(const tern_engine *engine);
const tern_config *tern_engine_config(const tern_engine *engine);
tern_backend *tern_engine_backend(const tern_engine *engine);
const tern_weight *tern_engine_head(const tern_engine *engine);
bool tern_engine_head_exact(const tern_engine *engine);
bool tern_engine_f32_activations(const tern_engine *engine);
uint32_t tern_engine_no_fusion(const tern_engine *engine);
bool tern_engine_batch_invariant(const tern_engine *engine);
bool tern_engine_no_memory_check(const tern_engine *engine);
/* The engine's setting for blocks; AUTO where the backends have such products, else F32. */
tern_block_rows tern_engine_int8_blocks(const tern_engine *engine);
/* Whether graphs of several tokens multiply 16 bits in dense layers (tern_op.halves). */
bool tern_engine_half_rows(const tern_engine *engine);
/* Whether a layer of a model that is not ternary, or its output table, multiplies int8 by blocks. */
bool tern_engine_rounds_blocks(const tern_engine *engine);
/* "int8" where some layers multiply it, by tokens or by blocks; "f16" where steps of several tokens multiply 16 bits;
 * else "f32". */
const char *tern_engine_activations(const tern_engine *engine);
tern_ranks *tern_engine_ranks(const tern_engine *engine);
/* The next number for what all ranks have, from 1 on; and what it is to be. Thread-safe. */
uint32_t tern_engine__next_number(tern_engine *engine);
void tern_engine__expect_number(tern_engine *engine, uint32_t number);
/* The next number of an adapter, from 1 on. Thread-safe. */
uint32_t tern_engine__next_lora(tern_engine *engine);
/* UNSUPPORTED, said of `what`, where the backend never waits. */
tern_status tern_engine__needs_waiting(const tern_engine *engine, const char *what, tern_error *err);
/* The highest rates of the backend's device (backend.h): READ reads the weights that a token needs. 0 when it cannot be
 * measured. */
double tern_engine_measure(const tern_engine *engine, tern_measure what, double seconds);
/* The backend's buffer of a weight of the model (or of the engine's head); never NULL for weights that are there. */
tern_buffer *tern_engine__weight_buffer(const tern_engine *engine, const tern_weight *weight);

/* The engine closes `thing` when it is closed itself, behind all else. Once. */
void tern_engine__close_with(tern_engine *engine, void *thing, void (*close)(void *thing));

/* ---- the steps of opening, for infer/engine/loader.c; tern_engine_close takes what any of them left */

tern_status tern_engine__begin(tern_engine **engine, const tern_engine_params *params, tern_error *err);
tern_status tern_engine__open_backend(tern_engine *engine, const tern_backend_options *options, tern_error *err);
/* Puts backends around the engine's where a model, which stays the caller's, and params say so (infer/engine/tiers.h).
 * After the backend is open. */
tern_status tern_engine__open_tiers(tern_engine *engine, tern_model *model, const tern_engine_params *params,
                                    tern_error *err);
/* Slots for the weights of so many layers. */
tern_status tern_engine__reserve_slots(tern_engine *engine, uint32_t n_layers, tern_error *err);
/* Room in the backend for a weight without data, unless there is some. */
tern_status tern_engine__reserve_weight(tern_engine *engine, const tern_weight *weight, tern_error *err);
/* OUT_OF_MEMORY or LIMIT where the weights of a model, which stays the caller's, and a session of the engine's params
 * do not fit (tern_memory_check). After the backend is open. */
tern_status tern_engine__check_memory(tern_engine *engine, tern_model *model, const tern_session_params *session,
                                      tern_error *err);
/* The model, which is the engine's from here on also when this fails, and the weights that have no buffer yet. */
tern_status tern_engine__end(tern_engine *engine, tern_model *model, const tern_encoding *head, uint32_t n_threads,
                             tern_error *err);

#endif
