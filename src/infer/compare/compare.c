/* Two backends compared: ops in step, whole graphs, and tokens with and without the cache. */
#include "infer/compare/internal.h"

#include <string.h>

#include "base/alloc.h"
#include "infer/session/session.h"
#include "ops/op.h"

static const double least_cosine = 0.999;

static tern_status write_step(tern_comparison *c, const tern_runner_step *step)
{
    tern_runner_set_step(c->reference.graph, step);
    tern_runner_set_step(c->tested.graph, step);
    TERN_TRY(tern_bound_write_params(&c->reference.graph->bound, c->err));
    return tern_bound_write_params(&c->tested.graph->bound, c->err);
}

/* How many ops write a value: after more than one its bytes are not what its maker wrote. */
static uint32_t n_writers(const tern_graph *g, uint32_t value)
{
    uint32_t n = 0;
    for (size_t i = 0; i < g->n_ops; i++) {
        bool writes = false;
        for (uint32_t k = 0; k < tern_op_n_views(&g->ops[i]); k++)
            writes |= tern_op_view(&g->ops[i], k).value == value && tern_op_writes_view(&g->ops[i], k);
        n += writes;
    }
    return n;
}

/* After a run of whole graphs the caches differ as what they hold does; the next phase starts from the reference's. */
static tern_status copy_caches_to_tested(const tern_comparison *c)
{
    const tern_graph *g = &c->tested.graph->graph;
    for (uint32_t i = 0; i < g->n_values; i++)
        if (tern_value_is_kept(&g->values[i])) TERN_TRY(tern_compare__copy_to_tested(c, i));
    return TERN_OK;
}

/* Whole graphs, then every value that both hold in the same state. */
static tern_status compare_run(tern_comparison *c, size_t first_op)
{
    const tern_graph *g = &c->tested.graph->graph, *reference = &c->reference.graph->graph;
    TERN_TRY(tern_bound_run_ops(&c->reference.graph->bound, 0, reference->n_ops, c->err));
    TERN_TRY(tern_bound_run_ops(&c->tested.graph->bound, 0, g->n_ops, c->err));
    for (size_t i = 0; i < g->n_ops; i++) {
        const uint32_t out = g->ops[i].out.value;
        tern_difference d;
        if (out == TERN_NO_VALUE || n_writers(g, out) != n_writers(reference, c->counterparts[out])) continue;
        TERN_TRY(tern_compare__measure(c, out, NULL, &(tern_tolerance){0}, &d));
        c->result->ops[first_op + i].run_error = d.worst;
    }
    return copy_caches_to_tested(c);
}

static tern_status compare_phase(tern_comparison *c, bool decode)
{
    const uint32_t n = c->params->n_ids;
    const tern_runner_step step = {.ids = c->params->ids + (decode ? n - 1 : 0),
                                   .n_tokens = decode ? 1 : n - 1,
                                   .first_position = decode ? n - 1 : 0,
                                   .n_outputs = 1};
    const size_t first_op = c->result->n_ops;
    c->reference.graph = decode ? &c->reference.runner.graphs->decode : &c->reference.runner.graphs->prefill;
    c->tested.graph = decode ? &c->tested.runner.graphs->decode : &c->tested.runner.graphs->prefill;
    c->reference_at = 0;
    TERN_TRY(tern_compare__counterparts(c));
    TERN_TRY(write_step(c, &step));
    for (size_t i = 0; i < c->tested.graph->graph.n_ops; i++)
        TERN_TRY(tern_compare__op(c, &c->tested.graph->graph.ops[i], decode));
    return compare_run(c, first_op);
}

/* The logits of the decoded token, as the whole graphs have left them. */
static tern_status compare_logits(tern_comparison *c)
{
    const tern_graph *g = &c->tested.graph->graph;
    TERN_TRY(tern_compare__read(c, &c->tested, g->logits, c->got));
    TERN_TRY(tern_compare__read(c, &c->reference, c->reference.graph->graph.logits, c->want));
    c->result->run = tern_compare__logits((const float *)(const void *)c->want, (const float *)(const void *)c->got,
                                          g->values[g->logits].cols);
    return TERN_OK;
}

static tern_status append_all(tern_session *s, const tern_compare_params *p, uint32_t step, tern_error *err)
{
    tern_session_truncate(s, 0);
    for (uint32_t at = 0; at < p->n_ids; at += step) TERN_TRY(tern_session_append(s, p->ids + at, step, err));
    return TERN_OK;
}

/* Tokens one by one, over the cache, against all of them at once, on the tested side alone. */
static tern_status compare_cached(tern_comparison *c)
{
    const uint32_t n = c->params->n_ids, n_vocab = tern_engine_config(c->tested.engine)->n_vocab;
    const tern_session_params params = {.size = sizeof params,
                                        .n_ctx = n,
                                        .n_batch = n,
                                        .kv = c->params->kv,
                                        .host_sampling = true,
                                        .loras = c->params->tested_loras,
                                        .n_loras = c->params->n_loras};
    tern_session *s = NULL;
    tern_status status;
    float *logits, *whole = tern_alloc(n_vocab * sizeof *whole);
    if (!whole) return tern_fail_alloc(c->err, n_vocab * sizeof *whole);
    TERN_GOTO(tern_session_open(&s, c->tested.engine, &params, c->err));
    TERN_GOTO(append_all(s, c->params, n, c->err));
    TERN_GOTO(tern_session_logits(s, 0, &logits, c->err));
    memcpy(whole, logits, n_vocab * sizeof *whole);
    TERN_GOTO(append_all(s, c->params, 1, c->err));
    TERN_GOTO(tern_session_logits(s, 0, &logits, c->err));
    c->result->cached = tern_compare__logits(whole, logits, n_vocab);
fail:
    tern_session_close(s);
    tern_free(whole);
    return status;
}

static tern_status check(const tern_comparison *c, tern_error *err)
{
    const tern_compare_params *p = c->params;
    const tern_config *a = tern_engine_config(c->reference.engine), *b = tern_engine_config(c->tested.engine);
    if (p->n_ids < 2)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%u tokens to compare with: at least 2 expected", p->n_ids);
    if (p->n_ids > b->n_ctx_train)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%u tokens: the model was trained for at most %u", p->n_ids,
                         b->n_ctx_train);
    for (uint32_t i = 0; i < p->n_ids; i++)
        if (p->ids[i] < 0 || (uint32_t)p->ids[i] >= b->n_vocab)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "token %u is id %d: 0 to %u expected", i, p->ids[i],
                             b->n_vocab - 1);
    if (a->n_layers == b->n_layers && a->n_vocab == b->n_vocab && a->n_embd == b->n_embd) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "two different models");
}

static tern_status open_side(tern_compare_side *s, tern_engine *engine, const tern_lora_use *loras,
                             const tern_compare_params *p, bool halves, tern_error *err)
{
    tern_runner_params params = {.n_ctx = p->n_ids,
                                 .n_batch = p->n_ids - 1,
                                 .max_outputs = 1,
                                 .f32_blocks = true,
                                 .halves = halves,
                                 .unfused = p->unfused,
                                 .keep_all = true,
                                 .loras = loras,
                                 .n_loras = p->n_loras};
    TERN_TRY(
        tern_kv_resolve(p->kv, tern_engine_config(engine), p->n_ids, tern_engine_backend(engine), &params.kv, err));
    return tern_runner_open(&s->runner, engine, &params, err);
}

static bool is_within_bounds(const tern_compare_logits *l)
{
    return l->cosine > least_cosine && (l->same_top || l->tied_top);
}

static tern_status compare(tern_comparison *c)
{
    tern_compare_result *r = c->result;
    const bool halves = tern_engine_half_rows(c->tested.engine);
    TERN_TRY(open_side(&c->reference, c->reference.engine, c->params->reference_loras, c->params, halves, c->err));
    TERN_TRY(open_side(&c->tested, c->tested.engine, c->params->tested_loras, c->params, halves, c->err));
    c->n_all = c->tested.runner.graphs->prefill.graph.n_ops + c->tested.runner.graphs->decode.graph.n_ops;
    TERN_TRY(compare_phase(c, false));
    TERN_TRY(compare_phase(c, true));
    TERN_TRY(compare_logits(c));
    TERN_TRY(compare_cached(c));
    r->ok = r->first_bad == SIZE_MAX && is_within_bounds(&r->run) && is_within_bounds(&r->cached);
    if (r->first_bad == SIZE_MAX) r->first_bad = r->n_ops;
    return TERN_OK;
}

tern_status tern_compare(tern_engine *reference, tern_engine *tested, const tern_compare_params *params,
                         tern_compare_result *result, tern_error *err)
{
    tern_comparison c = {
        .params = params, .result = result, .reference.engine = reference, .tested.engine = tested, .err = err};
    *result = (tern_compare_result){.first_bad = SIZE_MAX, .identical = true};
    TERN_TRY(tern_engine__needs_waiting(reference, "comparing", err));
    TERN_TRY(tern_engine__needs_waiting(tested, "comparing", err));
    TERN_TRY(check(&c, err));
    tern_status status = compare(&c);
    tern_runner_deinit(&c.reference.runner);
    tern_runner_deinit(&c.tested.runner);
    tern_free(c.counterparts);
    tern_free(c.want);
    tern_free(c.got);
    return status;
}

void tern_compare_result_deinit(tern_compare_result *result)
{
    tern_free(result->ops);
    *result = (tern_compare_result){0};
}
