/* SAMPLE on the CPU, with the parts of the sampler. */
#include "support/stepping.h"

#include "ops/op.h"

#include <string.h>

#include "backend/counters.h"
#include "base/alloc.h"
#include "infer/sample/internal.h"
#include "infer/session/nonfinite.h"
#include "support/test.h"

enum { MAX_PREPARED = 8 };

/* A prepared graph that ends with SAMPLE. */
typedef struct sampled {
    tern_graph graph; /* without it */
    const tern_graph *whole;
    const tern_binding *bindings;
    tern_prepared *prepared;
} sampled;

static struct {
    tern_backend cpu; /* the table as it was */
    sampled graphs[MAX_PREPARED];
    uint64_t submits, downloaded;
    uint32_t runs_left; /* before one fails; 0: none does */
} stepping;

void test_stepping_fail_after(uint32_t n)
{
    stepping.runs_left = n;
}

static sampled *find(const tern_prepared *prepared)
{
    for (size_t i = 0; i < MAX_PREPARED; i++)
        if (stepping.graphs[i].prepared == prepared) return &stepping.graphs[i];
    return NULL;
}

static tern_status prepare(tern_backend *b, const tern_graph *graph, const tern_binding *bindings, tern_prepared **out,
                           tern_error *err)
{
    if (graph->tokens == TERN_NO_VALUE) return stepping.cpu.prepare(b, graph, bindings, out, err);
    sampled *s = find(NULL);
    assert_non_null(s);
    assert_int_equal(graph->ops[graph->n_ops - 1].kind, TERN_OP_SAMPLE);
    *s = (sampled){.graph = *graph, .whole = graph, .bindings = bindings};
    s->graph.n_ops--;
    TERN_TRY(stepping.cpu.prepare(b, &s->graph, bindings, out, err));
    s->prepared = *out;
    return TERN_OK;
}

static void prepared_free(tern_backend *b, tern_prepared *prepared)
{
    sampled *s = prepared ? find(prepared) : NULL;
    if (s) *s = (sampled){0};
    stepping.cpu.prepared_free(b, prepared);
}

static void move(tern_backend *b, const sampled *s, uint32_t value, uint64_t offset, void *data, uint64_t bytes,
                 bool write)
{
    tern_error err = {0};
    const tern_binding *at = &s->bindings[value];
    tern_status status = write ? b->buffer_write(b, at->buffer, at->offset + offset, data, bytes, &err)
                               : stepping.cpu.buffer_read(b, at->buffer, at->offset + offset, data, bytes, &err);
    assert_ok(status, err);
}

static void move_param(tern_backend *b, const sampled *s, tern_param which, void *data, uint64_t bytes, bool write)
{
    move(b, s, s->whole->params[which], 0, data, bytes, write);
}

static int32_t choose(const float *logits, uint32_t n, const tern_sample_params *p)
{
    if (p->top_k == 1) return (int32_t)tern_logits__argmax(logits, n);
    tern_candidates c = {.ids = calloc(n, 4),
                         .x = calloc(n, 4),
                         .weights = calloc(n, 4),
                         .keys = calloc(n, 4),
                         .mass = calloc(TERN_SELECT_BUCKETS, sizeof(double))};
    tern_candidates__gather(&c, logits, n, p->top_k);
    tern_candidates__weigh(&c, p->temperature);
    tern_candidates__top_p(&c, p->top_p);
    tern_candidates__min_p(&c, p->min_p);
    int32_t id = tern_candidates__draw(&c, (double)p->draws[p->n_done]);
    free(c.ids), free(c.x), free(c.weights), free(c.keys), free(c.mass);
    return id;
}

static void sample(tern_backend *b, const sampled *s)
{
    uint32_t n_vocab = s->whole->values[s->whole->logits].cols, position, none[2] = {0, 0};
    float *logits = malloc(n_vocab * sizeof *logits);
    tern_sample_params p;
    move_param(b, s, TERN_PARAM_SAMPLER, &p, sizeof p, false);
    move_param(b, s, TERN_PARAM_POSITIONS, &position, sizeof position, false);
    move(b, s, s->whole->logits, 0, logits, n_vocab * sizeof *logits, false);
    const bool finite = tern_all_finite(logits, n_vocab, false);
    int32_t id = finite ? choose(logits, n_vocab, &p) : (int32_t)TERN_SAMPLE_NOT_FINITE;
    p.n_done++;
    position++;
    move(b, s, s->whole->tokens, 4 * p.n_done, &id, 4, true);
    move(b, s, s->whole->tokens, 0, &p.n_done, 4, true);
    move_param(b, s, TERN_PARAM_SAMPLER, &p, sizeof p, true);
    if (finite) move_param(b, s, TERN_PARAM_IDS, &id, 4, true);
    if (finite) move_param(b, s, TERN_PARAM_POSITIONS, &position, 4, true);
    bool ended = p.n_done == p.n_tokens || !finite;
    for (uint32_t i = 0; i < p.n_ends; i++) ended |= p.end_ids[i] == (uint32_t)id;
    if (ended) move_param(b, s, TERN_PARAM_COUNTS, none, sizeof none, true);
    free(logits);
}

static tern_status run(tern_backend *b, tern_prepared *prepared, uint32_t n_steps, tern_error *err)
{
    const sampled *s = find(prepared);
    stepping.submits++;
    if (stepping.runs_left && --stepping.runs_left == 0) return tern_fail(err, TERN_INTERNAL, "this run was to fail");
    if (!s) return stepping.cpu.run(b, prepared, n_steps, err);
    for (uint32_t i = 0; i < n_steps; i++) {
        uint32_t counts[2];
        move_param(b, s, TERN_PARAM_COUNTS, counts, sizeof counts, false);
        if (counts[0] == 0) break;
        TERN_TRY(stepping.cpu.run(b, prepared, 1, err));
        sample(b, s);
    }
    return TERN_OK;
}

static tern_status buffer_read(tern_backend *b, const tern_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                               tern_error *err)
{
    stepping.downloaded += bytes;
    return stepping.cpu.buffer_read(b, buffer, offset, data, bytes, err);
}

static void counters(const tern_backend *b, tern_backend_counters *out)
{
    stepping.cpu.counters(b, out);
    out->submits = stepping.submits;
    out->downloaded_bytes = stepping.downloaded;
}

void test_make_stepping(tern_backend *cpu)
{
    memset(&stepping, 0, sizeof stepping);
    stepping.cpu = *cpu;
    cpu->info.max_steps = TERN_SAMPLE_MAX_STEPS;
    cpu->prepare = prepare;
    cpu->prepared_free = prepared_free;
    cpu->run = run;
    cpu->buffer_read = buffer_read;
    cpu->counters = counters;
}
