/* Numbers that are not finite: finding them in logits, and the op that they come from. */
#include "infer/session/nonfinite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "ops/op.h"

enum { RUN = 64 }; /* floats that are looked at together */

static const uint32_t magnitude = 0x7fffffffu, minus_infinity = 0xff800000u;
/* Added to the magnitude of a float: the top bit says that the float is infinite or NaN. */
static const uint32_t to_top_bit = 0x00800000u;

/* Plain bit operations, which become vectors: *not_finite and *finite get a top bit. */
static void scan_floats(const float *x, uint32_t n, uint32_t skipped, uint32_t *not_finite, uint32_t *finite)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        const uint32_t sum = (bits & magnitude) + to_top_bit;
        *finite |= ~sum;
        *not_finite |= bits == skipped ? 0 : sum;
    }
}

bool tern_all_finite(const float *x, size_t n, bool screened)
{
    const uint32_t skipped = screened ? minus_infinity : 0;
    uint32_t not_finite = 0, finite = 0;
    size_t i = 0;
    for (; i + RUN <= n; i += RUN) scan_floats(x + i, RUN, skipped, &not_finite, &finite);
    scan_floats(x + i, (uint32_t)(n - i), skipped, &not_finite, &finite);
    return n == 0 || (!(not_finite >> 31) && finite >> 31);
}

struct tern_nonfinite {
    tern_runner runner;
    const int32_t *ids;
    uint32_t n_ids, n_last, n_outputs;
    uint32_t n_done; /* tokens evaluated and looked through */
    bool running;    /* the next step was started */
    size_t op;       /* looked at next, */
    uint32_t view;   /* in this one of its views */
    uint8_t *bytes;  /* [room] of a value */
    uint64_t room;
};

/* A number and where it stands. */
typedef struct finding {
    uint32_t row, col;
    double number;
} finding;

static const char *find_in_floats(const float *x, uint32_t n_rows, uint32_t cols, bool screened, finding *at)
{
    for (uint32_t r = 0; r < n_rows; r++) {
        if (tern_all_finite(x + (size_t)r * cols, cols, screened)) continue;
        uint32_t c = 0;
        while (c + 1 < cols &&
               (isfinite(x[(size_t)r * cols + c]) || (screened && x[(size_t)r * cols + c] == -INFINITY)))
            c++;
        *at = (finding){r, c, (double)x[(size_t)r * cols + c]};
        return "column";
    }
    return NULL;
}

static const char *find_in_halves(const uint16_t *x, uint64_t n, finding *at)
{
    for (uint64_t i = 0; i < n; i++) {
        const float value = tern_f16_to_f32(x[i]);
        if (isfinite(value)) continue;
        *at = (finding){0, (uint32_t)i, (double)value};
        return "element";
    }
    return NULL;
}

/* The scales of rows in blocks tell. */
static const char *find_in_blocks(const uint8_t *bytes, const tern_value *v, uint32_t head_dim, finding *at)
{
    const tern_cache_type *type = tern_cache_type_of(v->dtype);
    const size_t row_bytes = tern_cache_bytes(v->dtype, head_dim);
    for (uint64_t row = 0; (row + 1) * row_bytes <= v->bytes; row++) {
        const uint16_t *scales = (const uint16_t *)(const void *)(bytes + row * row_bytes);
        const char *word = find_in_halves(scales, head_dim / type->elements, at);
        if (!word) continue;
        at->col = (uint32_t)row * head_dim + at->col * type->elements;
        return word;
    }
    return NULL;
}

/* The step that comes next. */
static tern_runner_step next_step(const tern_nonfinite *s)
{
    const uint32_t before = s->n_ids - s->n_last, n_batch = s->runner.params.n_batch;
    const bool last = s->n_done >= before;
    uint32_t n = last ? s->n_last : before - s->n_done;
    if (n > n_batch) n = n_batch;
    return (tern_runner_step){
        .ids = s->ids + s->n_done, .n_tokens = n, .first_position = s->n_done, .n_outputs = last ? s->n_outputs : 0};
}

/* How many rows of a value the step has made. */
static uint32_t rows_of(const tern_graph *g, const tern_value *v, const tern_runner_step *step)
{
    return tern_rows_of(v->rows, step->n_tokens, step->n_outputs, g->n_routes);
}

/* Bytes of a value that are read; 0: nothing in it can be infinite. */
static uint64_t bytes_of(const tern_graph *g, const tern_value *v, const tern_runner_step *step)
{
    if (tern_value_is_kept(v)) return v->bytes;
    if (v->kind != TERN_VALUE_OUTPUT) return 0;
    if (v->dtype == TERN_DTYPE_Q8) return v->bytes;
    return v->dtype == TERN_DTYPE_F32 ? (uint64_t)rows_of(g, v, step) * v->cols * sizeof(float) : 0;
}

/* The word for what place.col counts, or NULL: all is finite. */
static const char *find_in_value(const tern_nonfinite *s, const tern_graph *g, const tern_op *op, const tern_value *v,
                                 const tern_runner_step *step, finding *at)
{
    const float *floats = (const float *)(const void *)s->bytes;
    const uint32_t n_rows = rows_of(g, v, step);
    if (v->kind == TERN_VALUE_CACHE && v->dtype == TERN_DTYPE_F16)
        return find_in_halves((const uint16_t *)(const void *)s->bytes, v->bytes / 2, at);
    if (v->kind == TERN_VALUE_CACHE && v->dtype != TERN_DTYPE_F32) return find_in_blocks(s->bytes, v, op->head_dim, at);
    if (tern_value_is_kept(v)) return find_in_floats(floats, (uint32_t)(v->bytes / 4 / v->cols), v->cols, false, at);
    if (v->dtype != TERN_DTYPE_Q8) return find_in_floats(floats, n_rows, v->cols, op->screened, at);
    const uint64_t n = tern_graph_max_rows(g, v->rows);
    const char *word = find_in_floats(floats + tern_q8_scales_offset(v->cols, n) / sizeof(float), n_rows, 1, false, at);
    return word ? "scale" : NULL;
}

static tern_status fail_not_finite(const tern_op *op, uint32_t n_routes, const tern_value *v,
                                   const tern_runner_step *step, const char *word, const finding *at, tern_error *err)
{
    char layer[32] = "", token[48] = "";
    const uint32_t each = v->rows == TERN_ROWS_ROUTED ? n_routes : 1;
    if (op->layer != UINT32_MAX) snprintf(layer, sizeof layer, " in layer %u", op->layer);
    if (!tern_value_is_kept(v)) {
        const uint32_t row = v->rows == TERN_ROWS_OUTPUTS ? step->n_tokens - step->n_outputs + at->row : at->row / each;
        snprintf(token, sizeof token, ", token %u at position %u", step->ids[row], step->first_position + row);
    }
    return tern_fail(
        err, TERN_NOT_FINITE,
        "logits that are not finite: the first op that gives such numbers is %s, which makes %s%s (%s %u%s "
        "is %g)",
        tern_op_name(op->kind), v->name, layer, word, at->col, token, at->number);
}

/* Goes through what the step's ops wrote, in order. OK: all of it is finite. */
static tern_status scan_step(tern_nonfinite *s, tern_runner_graph *g, const tern_runner_step *step, tern_error *err)
{
    for (; s->op < g->graph.n_ops; s->op++, s->view = 0) {
        const tern_op *op = &g->graph.ops[s->op];
        for (; s->view < tern_op_n_views(op); s->view++) {
            const tern_view view = tern_op_view(op, s->view);
            if (view.value == TERN_NO_VALUE || !tern_op_writes_view(op, s->view)) continue;
            const tern_value *v = &g->graph.values[view.value];
            const uint64_t bytes = bytes_of(&g->graph, v, step);
            finding at;
            if (!bytes) continue;
            TERN_TRY(tern_bound_read(&g->bound, view.value, s->bytes, bytes, err));
            const char *word = find_in_value(s, &g->graph, op, v, step, &at);
            if (word) return fail_not_finite(op, g->graph.n_routes, v, step, word, &at, err);
        }
    }
    return TERN_OK;
}

tern_status tern_nonfinite_advance(tern_nonfinite *s, tern_error *err)
{
    while (s->n_done < s->n_ids) {
        const tern_runner_step step = next_step(s);
        tern_runner_graphs *graphs = s->runner.graphs;
        if (!s->running) TERN_TRY(tern_runner_start(&s->runner, &step, err));
        s->running = true;
        TERN_TRY(scan_step(s, step.n_tokens == 1 ? &graphs->decode : &graphs->prefill, &step, err));
        s->running = false;
        s->op = s->view = 0;
        s->n_done += step.n_tokens;
    }
    return tern_fail(
        err, TERN_NOT_FINITE,
        "logits that are not finite, at position %u: evaluated once more, every op gave finite numbers, so "
        "%s does not compute the same each time",
        s->n_ids - 1, tern_engine_backend(s->runner.engine)->info.name);
}

static tern_status allocate_value(tern_nonfinite *s, const tern_graph *g, tern_error *err)
{
    for (size_t i = 0; i < g->n_values; i++)
        if (g->values[i].bytes > s->room && g->values[i].kind != TERN_VALUE_WEIGHT) s->room = g->values[i].bytes;
    tern_free_aligned(s->bytes);
    s->bytes = tern_alloc_aligned(tern_size_of(s->room), 64);
    return s->bytes ? TERN_OK : tern_fail_alloc(err, s->room);
}

tern_status tern_nonfinite_open(tern_nonfinite **search, const tern_runner *runner, const int32_t *ids,
                                const tern_runner_step *step, tern_error *err)
{
    const uint32_t n_ids = step->first_position + step->n_tokens;
    tern_status status;
    *search = NULL;
    if (runner->graphs->decode.graph.n_stages > 1)
        return tern_fail(err, TERN_UNSUPPORTED, "its layers are in %u stages", runner->graphs->decode.graph.n_stages);
    tern_nonfinite *s = *search = tern_calloc(1, sizeof *s);
    if (!s) return tern_fail_alloc(err, sizeof *s);
    *s = (tern_nonfinite){.ids = ids, .n_ids = n_ids, .n_last = step->n_tokens, .n_outputs = step->n_outputs};
    const tern_runner_params params = {.n_ctx = n_ids,
                                       .n_batch = runner->params.n_batch < n_ids ? runner->params.n_batch : n_ids,
                                       .max_outputs = step->n_outputs,
                                       .kv = runner->params.kv,
                                       .keep_all = true,
                                       .loras = runner->graphs->loras.uses,
                                       .n_loras = runner->graphs->loras.n};
    TERN_GOTO(tern_runner_open(&s->runner, runner->engine, &params, err));
    TERN_GOTO(allocate_value(s, &s->runner.graphs->prefill.graph, err));
    TERN_GOTO(allocate_value(s, &s->runner.graphs->decode.graph, err));
    return TERN_OK;
fail:
    tern_nonfinite_close(s);
    *search = NULL;
    return status;
}

void tern_nonfinite_close(tern_nonfinite *search)
{
    if (!search) return;
    tern_runner_deinit(&search->runner);
    tern_free_aligned(search->bytes);
    tern_free(search);
}
