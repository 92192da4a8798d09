/* Two backends in step: each op of the tested graph runs on what the reference has computed so far. */
#include "infer/compare.h"

#include <string.h>

#include "base/alloc.h"
#include "infer/runner.h"
#include "infer/session.h"

static const double default_tolerance = 1e-4;
/* An op that rounds to int8 on its way may round an element near a boundary the other way, unseen. */
static const double rounding_factor = 100;
static const double f16_tolerance = 1e-3, least_cosine = 0.999;

typedef struct side {
    tern_engine *engine;
    tern_backend *backend;
    tern_runner runner;
    const tern_runner_graph *graph; /* of the phase */
} side;

typedef struct comparison {
    const tern_compare_params *params;
    tern_compare_result *result;
    side reference, tested;
    uint32_t *counterparts; /* of the tested graph's values in the reference's; TERN_NO_VALUE: none */
    size_t reference_at;    /* the reference's next op */
    uint8_t *want, *got;    /* one value */
    uint64_t room;
    size_t n_all; /* ops of both graphs, for progress */
    tern_error *err;
} comparison;

static bool is_rows(const tern_value *v)
{
    return v->kind == TERN_VALUE_OUTPUT;
}

/* The value of this name that an op makes, or a cache. */
static uint32_t find_counterpart(const tern_graph *g, const tern_value *v)
{
    for (uint32_t i = 0; i < g->n_values; i++) {
        const tern_value *other = &g->values[i];
        if (other->kind == v->kind && other->dtype == v->dtype && other->cols == v->cols &&
            strcmp(other->name, v->name) == 0 && (!is_rows(v) || tern_graph__maker(g, i)))
            return i;
    }
    return TERN_NO_VALUE;
}

static tern_status find_counterparts(comparison *c)
{
    const tern_graph *g = &c->tested.graph->graph, *reference = &c->reference.graph->graph;
    tern_free(c->counterparts);
    c->counterparts = tern_calloc(g->n_values, sizeof *c->counterparts);
    if (!c->counterparts) return tern_fail_alloc(c->err, g->n_values * sizeof *c->counterparts);
    for (uint32_t i = 0; i < g->n_values; i++) {
        const tern_value *v = &g->values[i];
        bool wanted = v->kind == TERN_VALUE_CACHE || (is_rows(v) && tern_graph__maker(g, i));
        c->counterparts[i] = wanted ? find_counterpart(reference, v) : TERN_NO_VALUE;
        if (wanted && v->bytes > c->room) c->room = v->bytes;
    }
    tern_free(c->want);
    tern_free(c->got);
    c->want = tern_alloc(tern_size_of(c->room));
    c->got = tern_alloc(tern_size_of(c->room));
    return c->want && c->got ? TERN_OK : tern_fail_alloc(c->err, c->room);
}

static tern_status read_value(const comparison *c, const side *s, uint32_t value, uint8_t *out)
{
    const tern_binding *at = &s->graph->bindings[value];
    return s->backend->buffer_read(s->backend, at->buffer, at->offset, out, s->graph->graph.values[value].bytes,
                                   c->err);
}

/* Gives the tested side what the reference holds. */
static tern_status hand_over(const comparison *c, uint32_t value)
{
    const tern_binding *at = &c->tested.graph->bindings[value];
    TERN_TRY(read_value(c, &c->reference, c->counterparts[value], c->want));
    return c->tested.backend->buffer_write(c->tested.backend, at->buffer, at->offset, c->want,
                                           c->tested.graph->graph.values[value].bytes, c->err);
}

/* Both sides' bytes of a value, compared. */
static tern_status measure(const comparison *c, uint32_t value, tern_compare_op *op, double *error)
{
    const tern_value *v = &c->tested.graph->graph.values[value];
    const tern_graph *g = &c->tested.graph->graph;
    TERN_TRY(read_value(c, &c->reference, c->counterparts[value], c->want));
    TERN_TRY(read_value(c, &c->tested, value, c->got));
    const tern_compare_bytes bytes = {.want = c->want,
                                      .got = c->got,
                                      .bytes = v->bytes,
                                      .dtype = v->dtype,
                                      .cols = v->cols,
                                      .n_rows = v->rows == TERN_ROWS_TOKENS ? g->max_tokens : g->max_outputs};
    *error = tern_compare__error(&bytes, op);
    if (*error != 0 || op->n_flips) c->result->identical = false;
    return TERN_OK;
}

/* Runs ops [first, end) of a side alone. */
static tern_status run_ops(const comparison *c, const side *s, size_t first, size_t end)
{
    tern_graph part = s->graph->graph;
    tern_prepared *prepared = NULL;
    if (first == end) return TERN_OK;
    part.ops += first;
    part.n_ops = end - first;
    TERN_TRY(s->backend->prepare(s->backend, &part, s->graph->bindings, &prepared, c->err));
    tern_status status = s->backend->run(s->backend, prepared, 1, c->err);
    if (status == TERN_OK) status = s->backend->wait(s->backend, c->err);
    s->backend->prepared_free(s->backend, prepared);
    return status;
}

/* Whether the reference's op makes what the tested one does; ops that make no rows are known by their kind. */
static bool makes_the_same(const comparison *c, const tern_op *tested, const tern_op *reference)
{
    if (tested->out.value == TERN_NO_VALUE) return tested->kind == reference->kind;
    return c->counterparts[tested->out.value] == reference->out.value &&
           (tested->kind == TERN_OP_ROPE) == (reference->kind == TERN_OP_ROPE);
}

static tern_status advance_reference(comparison *c, const tern_op *op, const char *name)
{
    const tern_graph *g = &c->reference.graph->graph;
    size_t end = c->reference_at;
    while (end < g->n_ops && !makes_the_same(c, op, &g->ops[end])) end++;
    if (end == g->n_ops)
        return tern_fail(c->err, TERN_INTERNAL, "op %s (%s): the reference has none that makes the same",
                         tern_op_name(op->kind), name);
    TERN_TRY(run_ops(c, &c->reference, c->reference_at, end + 1));
    c->reference_at = end + 1;
    return TERN_OK;
}

static bool writes_caches(tern_op_kind kind)
{
    return kind == TERN_OP_KV_WRITE || kind == TERN_OP_ROPE_KV || kind == TERN_OP_ROPE_ATTENTION;
}

static bool changes_input(tern_op_kind kind)
{
    return kind == TERN_OP_ROPE_KV;
}

/* Calls fn for each value that the op reads, or (written) makes or changes. */
static tern_status for_values(comparison *c, const tern_op *op, bool written, tern_compare_op *out,
                              tern_status (*fn)(comparison *, uint32_t, tern_compare_op *))
{
    const tern_graph *g = &c->tested.graph->graph;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const uint32_t id = op->in[i].value;
        if (is_rows(&g->values[id]) && (!written || changes_input(op->kind))) TERN_TRY(fn(c, id, out));
        if (g->values[id].kind == TERN_VALUE_CACHE && written && writes_caches(op->kind)) TERN_TRY(fn(c, id, out));
    }
    if (!written && op->residual.value != TERN_NO_VALUE) TERN_TRY(fn(c, op->residual.value, out));
    if (written && op->out.value != TERN_NO_VALUE) TERN_TRY(fn(c, op->out.value, out));
    return TERN_OK;
}

static tern_status give_input(comparison *c, uint32_t value, tern_compare_op *out)
{
    if (c->counterparts[value] != TERN_NO_VALUE) return hand_over(c, value);
    return tern_fail(c->err, TERN_INTERNAL, "%s, which makes %s: the reference has no %s", tern_op_name(out->kind),
                     out->name, c->tested.graph->graph.values[value].name);
}

static tern_status judge(comparison *c, uint32_t value, tern_compare_op *out)
{
    const tern_value *v = &c->tested.graph->graph.values[value];
    double error, tolerance = out->tolerance;
    TERN_TRY(measure(c, value, out, &error));
    if (v->dtype == TERN_DTYPE_F16 && tolerance < f16_tolerance) tolerance = f16_tolerance;
    if (!(error <= tolerance)) out->ok = false;
    if (!(error <= out->error)) out->error = error;
    return v->kind == TERN_VALUE_CACHE ? hand_over(c, value) : TERN_OK;
}

/* The name of what an op makes; ops without rows of their own take the name of what they read. */
static const char *name_of(const tern_graph *g, const tern_op *op)
{
    return g->values[op->out.value == TERN_NO_VALUE ? op->in[0].value : op->out.value].name;
}

static double tolerance_of(const comparison *c, const tern_op *op)
{
    const double given = c->params->tolerance > 0 ? c->params->tolerance : default_tolerance;
    return op->gain.value == TERN_NO_VALUE ? given : given * rounding_factor;
}

static tern_status compare_op(comparison *c, const tern_op *op, bool decode)
{
    tern_compare_result *r = c->result;
    void *items = r->ops;
    TERN_TRY(tern_grow(&items, &r->cap_ops, r->n_ops + 1, sizeof *r->ops, c->err));
    r->ops = items;
    tern_compare_op *out = &r->ops[r->n_ops];
    *out = (tern_compare_op){.kind = op->kind,
                             .layer = op->layer,
                             .decode = decode,
                             .ok = true,
                             .run_error = -1,
                             .tolerance = tolerance_of(c, op)};
    memcpy(out->name, name_of(&c->tested.graph->graph, op), sizeof out->name);
    const size_t at = (size_t)(op - c->tested.graph->graph.ops);
    TERN_TRY(for_values(c, op, false, out, give_input));
    TERN_TRY(advance_reference(c, op, out->name));
    TERN_TRY(run_ops(c, &c->tested, at, at + 1));
    TERN_TRY(for_values(c, op, true, out, judge));
    if (!out->ok && r->first_bad == SIZE_MAX) r->first_bad = r->n_ops;
    r->n_ops++;
    if (c->params->progress && !c->params->progress(c->params->context, (double)r->n_ops / (double)c->n_all))
        return tern_fail(c->err, TERN_CANCELLED, "cancelled after %zu of %zu ops", r->n_ops, c->n_all);
    return TERN_OK;
}

static tern_status write_step(comparison *c, const tern_runner_step *step)
{
    TERN_TRY(tern_runner_write(&c->reference.runner, c->reference.graph, step, c->err));
    return tern_runner_write(&c->tested.runner, c->tested.graph, step, c->err);
}

/* Changed in place by an op of this graph: its bytes at the end are not what its maker wrote. */
static bool is_roped(const tern_graph *g, uint32_t value)
{
    for (size_t i = 0; i < g->n_ops; i++)
        if ((g->ops[i].kind == TERN_OP_ROPE || g->ops[i].kind == TERN_OP_ROPE_KV) && g->ops[i].in[0].value == value)
            return true;
    return false;
}

/* After a run of whole graphs the caches differ as what they hold does; the next phase starts from the reference's. */
static tern_status hand_over_caches(const comparison *c)
{
    const tern_graph *g = &c->tested.graph->graph;
    for (uint32_t i = 0; i < g->n_values; i++)
        if (g->values[i].kind == TERN_VALUE_CACHE) TERN_TRY(hand_over(c, i));
    return TERN_OK;
}

/* Whole graphs, then every value that both hold in the same state. */
static tern_status compare_run(comparison *c, size_t first_op)
{
    const tern_graph *g = &c->tested.graph->graph, *reference = &c->reference.graph->graph;
    TERN_TRY(run_ops(c, &c->reference, 0, reference->n_ops));
    TERN_TRY(run_ops(c, &c->tested, 0, g->n_ops));
    for (size_t i = 0; i < g->n_ops; i++) {
        const uint32_t out = g->ops[i].out.value;
        tern_compare_op ignored = {0};
        if (out == TERN_NO_VALUE || is_roped(g, out) != is_roped(reference, c->counterparts[out])) continue;
        TERN_TRY(measure(c, out, &ignored, &c->result->ops[first_op + i].run_error));
    }
    return hand_over_caches(c);
}

static tern_status compare_phase(comparison *c, bool decode)
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
    TERN_TRY(find_counterparts(c));
    TERN_TRY(write_step(c, &step));
    for (size_t i = 0; i < c->tested.graph->graph.n_ops; i++)
        TERN_TRY(compare_op(c, &c->tested.graph->graph.ops[i], decode));
    return compare_run(c, first_op);
}

/* The logits of the decoded token, as the whole graphs have left them. */
static tern_status compare_logits(comparison *c)
{
    const tern_graph *g = &c->tested.graph->graph;
    TERN_TRY(read_value(c, &c->tested, g->logits, c->got));
    TERN_TRY(read_value(c, &c->reference, c->reference.graph->graph.logits, c->want));
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
static tern_status compare_cached(comparison *c)
{
    const uint32_t n = c->params->n_ids, n_vocab = tern_engine_config(c->tested.engine)->n_vocab;
    const tern_session_params params = {.n_ctx = n,
                                        .n_batch = n,
                                        .kv = c->params->kv,
                                        .host_sampling = true,
                                        .loras = c->params->tested_loras,
                                        .n_loras = c->params->n_loras};
    tern_session *s = NULL;
    float *whole = tern_alloc(n_vocab * sizeof *whole);
    tern_status status = whole ? tern_session_open(&s, c->tested.engine, &params, c->err)
                               : tern_fail_alloc(c->err, n_vocab * sizeof *whole);
    if (status == TERN_OK) status = append_all(s, c->params, n, c->err);
    if (status == TERN_OK) memcpy(whole, tern_session_logits(s, 0), n_vocab * sizeof *whole);
    if (status == TERN_OK) status = append_all(s, c->params, 1, c->err);
    if (status == TERN_OK) c->result->cached = tern_compare__logits(whole, tern_session_logits(s, 0), n_vocab);
    tern_session_close(s);
    tern_free(whole);
    return status;
}

static tern_status check(const comparison *c, tern_error *err)
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

static tern_status open_side(side *s, tern_engine *engine, const tern_lora_use *loras, const tern_compare_params *p,
                             tern_error *err)
{
    const tern_runner_params params = {.n_ctx = p->n_ids,
                                       .n_batch = p->n_ids - 1,
                                       .max_outputs = 1,
                                       .unfused = p->unfused,
                                       .keep_all = true,
                                       .loras = loras,
                                       .n_loras = p->n_loras,
                                       .kv_f32 = tern_kv_is_f32(p->kv, tern_engine_config(engine), p->n_ids)};
    s->backend = tern_engine_backend(engine);
    return tern_runner_open(&s->runner, engine, &params, err);
}

static bool good(const tern_compare_logits *l)
{
    return l->cosine > least_cosine && l->same_top;
}

static tern_status compare(comparison *c)
{
    tern_compare_result *r = c->result;
    TERN_TRY(open_side(&c->reference, c->reference.engine, c->params->reference_loras, c->params, c->err));
    TERN_TRY(open_side(&c->tested, c->tested.engine, c->params->tested_loras, c->params, c->err));
    c->n_all = c->tested.runner.graphs->prefill.graph.n_ops + c->tested.runner.graphs->decode.graph.n_ops;
    TERN_TRY(compare_phase(c, false));
    TERN_TRY(compare_phase(c, true));
    TERN_TRY(compare_logits(c));
    TERN_TRY(compare_cached(c));
    r->ok = r->first_bad == SIZE_MAX && good(&r->run) && good(&r->cached);
    if (r->first_bad == SIZE_MAX) r->first_bad = r->n_ops;
    return TERN_OK;
}

tern_status tern_compare(tern_engine *reference, tern_engine *tested, const tern_compare_params *params,
                         tern_compare_result *result, tern_error *err)
{
    comparison c = {
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
