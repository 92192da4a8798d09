/* One opened model on one backend. */
#include "infer/engine/engine.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "infer/engine/head.h"
#include "infer/engine/memory_need.h"
#include "infer/engine/tiers.h"
#include "infer/follow/follow.h"
#include "infer/session/session.h"
#include "model/cut.h"
#include "quant/encoding.h"
#include "quant/weight.h"

typedef struct weight_slot {
    const tern_weight *weight;
    tern_buffer *buffer;
} weight_slot;

struct tern_engine {
    tern_model *model;
    tern_backend *backend;
    weight_slot *slots;
    size_t n_slots;
    tern_weight head;   /* the requantised table, when asked for */
    uint8_t *head_data; /* of it */
    bool other_head;    /* else the model's table is the head */
    bool head_exact, f32_activations;
    tern_block_rows int8_blocks;
    tern_half_rows half_rows;
    uint32_t no_fusion;
    bool batch_invariant;
    bool no_memory_check;
    tern_ranks *ranks, group; /* all, and those of the same layers */
    atomic_uint n_numbers;
    atomic_uint n_loras; /* loaded so far */
    void *thing;         /* that it closes, by: */
    void (*close_thing)(void *thing);
    const tern_engine_params *params; /* only while opening; NULL: opened in steps */
};

/* By the backend's threads, or where it has none by some that are opened for it. */
static tern_status requantize(tern_engine *e, const tern_weight *head, const tern_encoding *to, uint32_t n_threads,
                              tern_error *err)
{
    tern_pool *own = NULL, *pool = e->backend->info.pool;
    if (!pool) TERN_TRY(tern_pool_open(&own, n_threads, false, err));
    const tern_status status = tern_engine__requantize(&e->head, &e->head_data, head, to, pool ? pool : own, err);
    tern_pool_close(own);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(err, "head %s", head->name);
}

static tern_status open_head(tern_engine *e, const tern_encoding *to, uint32_t n_threads, tern_error *err)
{
    const tern_weight *head = tern_model_weight(e->model, TERN_ROLE_OUTPUT, 0);
    if (!to || to == head->encoding) return TERN_OK;
    if (to->ternary)
        return tern_fail(err, TERN_UNSUPPORTED, "head in %s: one of " TERN_ENCODING_DENSE_NAMES " expected", to->name);
    e->other_head = true;
    if (!tern_model_is_own(e->model, TERN_ROLE_OUTPUT, 0)) { /* another stage has it */
        e->head = *head;
        e->head.encoding = to;
        e->head.data = NULL;
        return tern_encoding_bytes(to, head->rows, head->cols, &e->head.bytes, err);
    }
    return requantize(e, head, to, n_threads, err);
}

/* Once the backend is open. */
static tern_status check_exact(const tern_engine *e, tern_error *err)
{
    if (!e->head_exact || e->backend->info.screens) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "head \"exact\" on %s: only the CPU and CUDA have it; an encoding such as q6_k or q8_0 reads less "
                     "of the table here",
                     e->backend->info.name);
}

static tern_status check_invariant(const tern_engine *e, tern_error *err)
{
    if (!e->batch_invariant || e->backend->info.batch_invariant) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "batch-invariant kernels on %s: not supported; cpu, vulkan or webgpu expected",
                     e->backend->info.name);
}

static tern_status add_weight(tern_engine *e, const tern_weight *w, tern_error *err)
{
    if (!w->encoding || tern_engine__weight_buffer(e, w)) return TERN_OK;
    weight_slot *slot = &e->slots[e->n_slots];
    TERN_TRY(e->backend->weight_create(e->backend, w, &slot->buffer, err));
    slot->weight = w;
    e->n_slots++;
    return TERN_OK;
}

tern_status tern_engine__reserve_weight(tern_engine *e, const tern_weight *w, tern_error *err)
{
    weight_slot *slot = &e->slots[e->n_slots];
    if (tern_engine__weight_buffer(e, w)) return TERN_OK;
    TERN_TRY(e->backend->weight_create(e->backend, w, &slot->buffer, err));
    slot->weight = w;
    e->n_slots++;
    return TERN_OK;
}

static tern_status report(const tern_engine *e, uint32_t layers_done, tern_error *err)
{
    const tern_engine_params *p = e->params;
    const float share = (float)layers_done / (float)tern_model_config(e->model)->n_layers;
    if (!p || !p->progress || p->progress(p->progress_context, share)) return TERN_OK;
    return tern_fail(err, TERN_CANCELLED, "opening the engine was cancelled");
}

static tern_status add_weights(tern_engine *e, tern_error *err)
{
    uint32_t n_layers = tern_model_config(e->model)->n_layers;
    if (tern_model_is_own(e->model, TERN_ROLE_OUTPUT, 0)) TERN_TRY(add_weight(e, tern_engine_head(e), err));
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            bool outside = role == TERN_ROLE_TOKEN_EMBD || role == TERN_ROLE_OUTPUT_NORM || role == TERN_ROLE_OUTPUT;
            if (role == TERN_ROLE_OUTPUT || (outside && layer)) continue;
            if (!tern_model_is_own(e->model, (tern_role)role, layer)) continue;
            TERN_TRY(add_weight(e, tern_model_weight(e->model, (tern_role)role, layer), err));
        }
        TERN_TRY(report(e, layer + 1, err));
    }
    const tern_model *mtp = tern_model_mtp(e->model);
    for (int role = 0; mtp && role < TERN_ROLE_COUNT; role++)
        if (role != TERN_ROLE_OUTPUT) TERN_TRY(add_weight(e, tern_model_weight(mtp, (tern_role)role, 0), err));
    return TERN_OK;
}

static tern_status check_activations(const tern_engine_params *p, tern_error *err)
{
    tern_error ignored = {0};
    const bool chosen = p->backend.kernel && strcmp(p->backend.kernel, "dot") != 0 &&
                        tern_backend_kernel_check(p->backend.kernel, true, &ignored) != TERN_OK;
    if (!p->f32_activations || (!chosen && !p->backend.n_choices)) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "kernel %s multiplies int8 activations: no f32 activations expected, which have one kernel",
                     chosen ? p->backend.kernel : "as measured");
}

tern_status tern_engine__begin(tern_engine **engine, const tern_engine_params *params, tern_error *err)
{
    *engine = NULL;
    TERN_TRY(check_activations(params, err));
    tern_engine *e = *engine = tern_calloc(1, sizeof *e);
    if (!e) return tern_fail_alloc(err, sizeof *e);
    e->f32_activations = params->f32_activations;
    e->no_fusion = params->no_fusion;
    e->batch_invariant = params->batch_invariant;
    e->no_memory_check = params->no_memory_check;
    e->int8_blocks = params->int8_blocks;
    e->half_rows = params->half_rows;
    e->head_exact = params->head_exact;
    e->ranks = params->ranks;
    if (!e->ranks) return TERN_OK;
    const uint32_t each = e->ranks->n / (params->n_stages ? params->n_stages : 1);
    e->group = tern_ranks_some(e->ranks, e->ranks->rank / each * each, each);
    return TERN_OK;
}

/* AUTO, which is the same for all ranks: what the backends of all have. */
static tern_status settle_activations(tern_engine *e, tern_error *err)
{
    typedef struct able {
        bool int8_blocks, halves;
    } able;
    const tern_backend_info *info = &e->backend->info;
    const able mine = {info->int8_blocks, info->halves};
    able all[TERN_MAX_RANKS] = {mine};
    size_t bytes[TERN_MAX_RANKS];
    const uint32_t n = e->ranks ? e->ranks->n : 1;
    for (uint32_t i = 0; i < n; i++) bytes[i] = sizeof mine;
    if (e->ranks) TERN_TRY(e->ranks->gather(e->ranks, &mine, bytes, all, err));
    bool halves = true;
    for (uint32_t i = 0; i < n; i++) {
        if (!all[i].int8_blocks && e->int8_blocks == TERN_BLOCK_ROWS_AUTO) e->int8_blocks = TERN_BLOCK_ROWS_F32;
        halves = halves && all[i].halves;
    }
    if (e->half_rows == TERN_HALF_ROWS_AUTO) e->half_rows = halves ? TERN_HALF_ROWS_F16 : TERN_HALF_ROWS_F32;
    return TERN_OK;
}

tern_status tern_engine__open_backend(tern_engine *e, const tern_backend_options *options, tern_error *err)
{
    TERN_TRY(tern_backend_open(&e->backend, options, err));
    TERN_TRY(settle_activations(e, err));
    TERN_TRY(check_invariant(e, err));
    return check_exact(e, err);
}

tern_status tern_engine__reserve_slots(tern_engine *e, uint32_t n_layers, tern_error *err)
{
    size_t max = ((size_t)n_layers + 2) * TERN_ROLE_COUNT + 1; /* with a block that drafts tokens */
    e->slots = tern_calloc(max, sizeof *e->slots);
    return e->slots ? TERN_OK : tern_fail_alloc(err, max * sizeof *e->slots);
}

tern_status tern_engine__check_memory(tern_engine *e, tern_model *model, const tern_session_params *session,
                                      tern_error *err)
{
    tern_runner_params params;
    uint32_t steps;
    tern_model *before = e->model;
    e->model = model;
    tern_status status = tern_session_resolve(e, session, &params, &steps, err);
    if (status == TERN_OK) status = tern_memory_check(e, &params, true, err);
    e->model = before;
    return status;
}

tern_status tern_engine__open_tiers(tern_engine *e, tern_model *model, const tern_engine_params *params,
                                    tern_error *err)
{
    tern_runner_params session;
    uint32_t steps;
    tern_model *before = e->model;
    e->model = model;
    tern_status status = tern_session_resolve(e, params->session, &session, &steps, err);
    if (status == TERN_OK) status = tern_engine__tiers(&e->backend, e, params, &session, err);
    e->model = before;
    return status;
}

tern_status tern_engine__end(tern_engine *e, tern_model *model, const tern_encoding *head, uint32_t n_threads,
                             tern_error *err)
{
    e->model = model;
    TERN_TRY(open_head(e, head, n_threads, err));
    return add_weights(e, err);
}

tern_status tern_engine_open(tern_engine **engine, tern_model *model, const tern_engine_params *params, tern_error *err)
{
    tern_engine *e = NULL;
    tern_status status;
    *engine = NULL;
    tern_backend_options backend = params->backend;
    const uint32_t n_layers = tern_model_config(model)->n_layers;
    if (backend.gpu_layers > n_layers) backend.split = false; /* all of it, so one backend does it */
    TERN_GOTO(tern_engine__begin(&e, params, err));
    e->model = model;
    e->params = params;
    if (e->ranks) backend.ranks = &e->group;
    TERN_GOTO(tern_engine__open_backend(e, &backend, err));
    TERN_GOTO(tern_engine__open_tiers(e, model, params, err));
    TERN_GOTO(tern_engine__check_memory(e, model, params->session, err));
    TERN_GOTO(tern_engine__reserve_slots(e, n_layers, err));
    TERN_GOTO(tern_engine__end(e, model, params->head, backend.n_threads, err));
    e->params = NULL;
    *engine = e;
    return TERN_OK;
fail:
    if (e) tern_engine_close(e);
    else tern_model_close(model);
    return status;
}

void tern_engine_close(tern_engine *engine)
{
    if (!engine) return;
    tern_follow__end(engine);
    for (size_t i = 0; i < engine->n_slots; i++) engine->backend->buffer_free(engine->backend, engine->slots[i].buffer);
    if (engine->backend) engine->backend->close(engine->backend);
    tern_free_aligned(engine->head_data);
    tern_free(engine->slots);
    tern_model_close(engine->model);
    if (engine->close_thing) engine->close_thing(engine->thing);
    tern_free(engine);
}

void tern_engine__close_with(tern_engine *engine, void *thing, void (*close)(void *thing))
{
    engine->thing = thing;
    engine->close_thing = close;
}

const tern_model *tern_engine_model(const tern_engine *engine)
{
    return engine->model;
}

const tern_config *tern_engine_config(const tern_engine *engine)
{
    return tern_model_config(engine->model);
}

tern_backend *tern_engine_backend(const tern_engine *engine)
{
    return engine->backend;
}

const tern_weight *tern_engine_head(const tern_engine *engine)
{
    return engine->other_head ? &engine->head : tern_model_weight(engine->model, TERN_ROLE_OUTPUT, 0);
}

bool tern_engine_head_exact(const tern_engine *engine)
{
    return engine->head_exact;
}

tern_status tern_engine__needs_waiting(const tern_engine *engine, const char *what, tern_error *err)
{
    if (!engine->backend->info.never_waits) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "%s on %s: it cannot be waited for", what, engine->backend->info.name);
}

bool tern_engine_f32_activations(const tern_engine *engine)
{
    return engine->f32_activations;
}

bool tern_engine_no_memory_check(const tern_engine *engine)
{
    return engine->no_memory_check;
}

uint32_t tern_engine_no_fusion(const tern_engine *engine)
{
    return engine->no_fusion;
}

bool tern_engine_batch_invariant(const tern_engine *engine)
{
    return engine->batch_invariant;
}

tern_ranks *tern_engine_ranks(const tern_engine *engine)
{
    return engine->ranks;
}

uint32_t tern_engine__next_number(tern_engine *engine)
{
    return atomic_fetch_add(&engine->n_numbers, 1) + 1;
}

void tern_engine__expect_number(tern_engine *engine, uint32_t number)
{
    atomic_store(&engine->n_numbers, number - 1);
}

uint32_t tern_engine__next_lora(tern_engine *engine)
{
    return atomic_fetch_add(&engine->n_loras, 1) + 1;
}

tern_block_rows tern_engine_int8_blocks(const tern_engine *engine)
{
    return engine->int8_blocks;
}

bool tern_engine_half_rows(const tern_engine *engine)
{
    return engine->half_rows == TERN_HALF_ROWS_F16;
}

/* The bytes of the output table: an exact head hardly reads it. The bytes of an embedding table that is not the output
 * table: one row. */
static bool read_by_tokens(const tern_engine *engine, const tern_weight *w)
{
    if (w == tern_engine_head(engine)) return !engine->head_exact;
    return w != tern_model_weight(engine->model, TERN_ROLE_TOKEN_EMBD, 0);
}

double tern_engine_measure(const tern_engine *engine, tern_measure what, double seconds)
{
    size_t n = 0;
    tern_buffer **buffers = tern_calloc(engine->n_slots + 1, sizeof *buffers);
    if (!buffers) return 0;
    for (size_t i = 0; i < engine->n_slots; i++)
        if (read_by_tokens(engine, engine->slots[i].weight)) buffers[n++] = engine->slots[i].buffer;
    double rate = engine->backend->measure(engine->backend, what, buffers, n, seconds);
    tern_free(buffers);
    return rate;
}

tern_buffer *tern_engine__weight_buffer(const tern_engine *engine, const tern_weight *weight)
{
    for (size_t i = 0; i < engine->n_slots; i++)
        if (engine->slots[i].weight == weight) return engine->slots[i].buffer;
    return NULL;
}
