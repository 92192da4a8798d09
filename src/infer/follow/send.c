/* Rank 0: messages to the other ranks about what it opens, makes and closes. */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "infer/follow/follow.h"
#include "ranks/ranks.h"

tern_status tern_follow__send(const tern_engine *engine, tern_bound_message message, const void *data, size_t bytes,
                              tern_error *err)
{
    tern_ranks *ranks = tern_engine_ranks(engine);
    if (!ranks || ranks->rank != 0) return TERN_OK;
    return ranks->tell(ranks, &message, sizeof message, data, bytes, err);
}

/* A rank that is gone is told of by the next step. */
static void send_close(const tern_engine *engine, tern_bound_message message)
{
    tern_error ignored = {0};
    (void)tern_follow__send(engine, message, NULL, 0, &ignored);
}

static bool is_sender(const tern_engine *engine)
{
    const tern_ranks *ranks = tern_engine_ranks(engine);
    return ranks && ranks->rank == 0;
}

static tern_status add_uses(tern_buf *out, const tern_lora_use *loras, uint32_t n, tern_error *err)
{
    TERN_TRY(tern_buf_add(out, &n, sizeof n, err));
    for (uint32_t i = 0; i < n; i++) {
        const tern_follow_lora_use use = {tern_lora__number(loras[i].lora), loras[i].scale};
        TERN_TRY(tern_buf_add(out, &use, sizeof use, err));
    }
    return TERN_OK;
}

tern_status tern_follow__open_runner(tern_runner *runner, tern_error *err)
{
    tern_engine *engine = runner->engine;
    tern_runner_params params = runner->params;
    tern_buf data = {0};
    if (!tern_engine_ranks(engine)) return TERN_OK;
    runner->number = tern_engine__next_number(engine);
    if (!is_sender(engine)) return TERN_OK;
    params.loras = NULL;
    tern_status status;
    TERN_GOTO(tern_buf_add(&data, &params, sizeof params, err));
    TERN_GOTO(add_uses(&data, runner->params.loras, params.n_loras, err));
    const tern_bound_message message = {.kind = TERN_MESSAGE_OPEN_RUNNER, .number = runner->number};
    TERN_GOTO(tern_follow__send(engine, message, data.data, data.size, err));
fail:
    tern_buf_deinit(&data);
    return status;
}

void tern_follow__close_runner(const tern_runner *runner)
{
    if (runner->number)
        send_close(runner->engine, (tern_bound_message){TERN_MESSAGE_CLOSE_RUNNER, runner->number, 0, 0});
}

tern_status tern_follow__add_graphs(const tern_runner *runner, uint32_t number, const tern_lora_set *sets,
                                    uint32_t n_sets, bool additional, tern_error *err)
{
    tern_buf data = {0};
    if (!is_sender(runner->engine)) return TERN_OK;
    const uint32_t first = additional;
    tern_status status;
    TERN_GOTO(tern_buf_add(&data, &first, sizeof first, err));
    for (uint32_t i = 0; i < n_sets; i++) TERN_GOTO(add_uses(&data, sets[i].loras, sets[i].n_loras, err));
    const tern_bound_message message = {TERN_MESSAGE_ADD_GRAPHS, runner->number, n_sets, number};
    TERN_GOTO(tern_follow__send(runner->engine, message, data.data, data.size, err));
fail:
    tern_buf_deinit(&data);
    return status;
}

void tern_follow__drop_graphs(const tern_engine *engine, uint32_t number)
{
    if (number) send_close(engine, (tern_bound_message){TERN_MESSAGE_DROP_GRAPHS, number, 0, 0});
}

void tern_follow__end(const tern_engine *engine)
{
    if (tern_engine_model(engine)) send_close(engine, (tern_bound_message){.kind = TERN_MESSAGE_END});
}

/* ---- adapters */

tern_status tern_follow__load_lora(const tern_engine *engine, uint32_t number, const tern_lora_header *head,
                                   tern_error *err)
{
    const tern_bound_message message = {.kind = TERN_MESSAGE_LOAD_LORA, .number = number};
    return tern_follow__send(engine, message, head, sizeof *head, err);
}

tern_status tern_follow__add_lora_pair(const tern_engine *engine, uint32_t number, const tern_lora_target *target,
                                       const tern_adapter_pair *pair, uint32_t rank, tern_error *err)
{
    const size_t a = (size_t)rank * pair->n_experts * pair->in, b = (size_t)pair->out * rank;
    const uint32_t shape[] = {(uint32_t)target->role, target->layer, pair->in, pair->out, pair->n_experts, rank};
    tern_buf data = {0};
    if (!is_sender(engine)) return TERN_OK;
    tern_status status;
    TERN_GOTO(tern_buf_add(&data, shape, sizeof shape, err));
    TERN_GOTO(tern_buf_add(&data, pair->a, a * sizeof *pair->a, err));
    TERN_GOTO(tern_buf_add(&data, pair->b, b * sizeof *pair->b, err));
    const tern_bound_message message = {.kind = TERN_MESSAGE_ADD_LORA_PAIR, .number = number};
    TERN_GOTO(tern_follow__send(engine, message, data.data, data.size, err));
fail:
    tern_buf_deinit(&data);
    return status;
}

void tern_follow__unload_lora(const tern_engine *engine, uint32_t number)
{
    if (number) send_close(engine, (tern_bound_message){.kind = TERN_MESSAGE_UNLOAD_LORA, .number = number});
}
