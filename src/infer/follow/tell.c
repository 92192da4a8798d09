/* Rank 0 tells the others what it opens, makes and closes. */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "infer/follow/follow.h"
#include "ranks/ranks.h"

tern_status tern_follow__tell(const tern_engine *engine, tern_bound_message message, const void *data, size_t bytes,
                              tern_error *err)
{
    tern_ranks *ranks = tern_engine_ranks(engine);
    if (!ranks || ranks->rank != 0) return TERN_OK;
    return ranks->tell(ranks, &message, sizeof message, data, bytes, err);
}

/* A rank that is gone is told of by the next step. */
static void tell_end(const tern_engine *engine, tern_bound_message message)
{
    tern_error ignored = {0};
    (void)tern_follow__tell(engine, message, NULL, 0, &ignored);
}

static bool tells(const tern_engine *engine)
{
    const tern_ranks *ranks = tern_engine_ranks(engine);
    return ranks && ranks->rank == 0;
}

static tern_status add_uses(tern_buf *out, const tern_lora_use *loras, uint32_t n, tern_error *err)
{
    TERN_TRY(tern_buf_add(out, &n, sizeof n, err));
    for (uint32_t i = 0; i < n; i++) {
        const tern_told_use use = {tern_lora__number(loras[i].lora), loras[i].scale};
        TERN_TRY(tern_buf_add(out, &use, sizeof use, err));
    }
    return TERN_OK;
}

tern_status tern_follow__opens(tern_runner *runner, tern_error *err)
{
    tern_engine *engine = runner->engine;
    tern_runner_params params = runner->params;
    tern_buf data = {0};
    if (!tern_engine_ranks(engine)) return TERN_OK;
    runner->number = tern_engine__next_number(engine);
    if (!tells(engine)) return TERN_OK;
    params.loras = NULL;
    tern_status status;
    TERN_GOTO(tern_buf_add(&data, &params, sizeof params, err));
    TERN_GOTO(add_uses(&data, runner->params.loras, params.n_loras, err));
    const tern_bound_message message = {.what = TERN_TOLD_OPEN, .number = runner->number};
    TERN_GOTO(tern_follow__tell(engine, message, data.data, data.size, err));
fail:
    tern_buf_deinit(&data);
    return status;
}

void tern_follow__closes(const tern_runner *runner)
{
    if (runner->number) tell_end(runner->engine, (tern_bound_message){TERN_TOLD_CLOSE, runner->number, 0, 0});
}

tern_status tern_follow__makes(const tern_runner *runner, uint32_t number, const tern_lora_set *sets, uint32_t n_sets,
                               bool beside, tern_error *err)
{
    tern_buf data = {0};
    if (!tells(runner->engine)) return TERN_OK;
    const uint32_t first = beside;
    tern_status status;
    TERN_GOTO(tern_buf_add(&data, &first, sizeof first, err));
    for (uint32_t i = 0; i < n_sets; i++) TERN_GOTO(add_uses(&data, sets[i].loras, sets[i].n_loras, err));
    const tern_bound_message message = {TERN_TOLD_GRAPHS, runner->number, n_sets, number};
    TERN_GOTO(tern_follow__tell(runner->engine, message, data.data, data.size, err));
fail:
    tern_buf_deinit(&data);
    return status;
}

void tern_follow__drops(const tern_engine *engine, uint32_t number)
{
    if (number) tell_end(engine, (tern_bound_message){TERN_TOLD_DROP, number, 0, 0});
}

void tern_follow__end(const tern_engine *engine)
{
    if (tern_engine_model(engine)) tell_end(engine, (tern_bound_message){.what = TERN_TOLD_END});
}

/* ---- adapters */

tern_status tern_follow__loads(const tern_engine *engine, uint32_t number, const tern_lora_head *head, tern_error *err)
{
    const tern_bound_message message = {.what = TERN_TOLD_LORA, .number = number};
    return tern_follow__tell(engine, message, head, sizeof *head, err);
}

tern_status tern_follow__loads_pair(const tern_engine *engine, uint32_t number, const tern_lora_place *place,
                                    const tern_adapter_pair *pair, uint32_t rank, tern_error *err)
{
    const size_t a = (size_t)rank * pair->n_experts * pair->in, b = (size_t)pair->out * rank;
    const uint32_t shape[] = {(uint32_t)place->role, place->layer, pair->in, pair->out, pair->n_experts, rank};
    tern_buf data = {0};
    if (!tells(engine)) return TERN_OK;
    tern_status status;
    TERN_GOTO(tern_buf_add(&data, shape, sizeof shape, err));
    TERN_GOTO(tern_buf_add(&data, pair->a, a * sizeof *pair->a, err));
    TERN_GOTO(tern_buf_add(&data, pair->b, b * sizeof *pair->b, err));
    const tern_bound_message message = {.what = TERN_TOLD_LORA_PAIR, .number = number};
    TERN_GOTO(tern_follow__tell(engine, message, data.data, data.size, err));
fail:
    tern_buf_deinit(&data);
    return status;
}

void tern_follow__unloads(const tern_engine *engine, uint32_t number)
{
    if (number) tell_end(engine, (tern_bound_message){.what = TERN_TOLD_LORA_CLOSE, .number = number});
}
