/* Steps of the optimiser on a backend, through the graphs that training uses. */
#include "graph/bound.h"
#include "graph/training.h"
#include "model/model.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "support/test.h"
#include "support/update_parts.h"

enum { N_PHASES = 2 };

typedef struct run_state {
    const update_case *c;
    tern_backend *b;
    tern_config config;
    tern_weight weight;
    float *row_scales;
    tern_graph_update update;
    tern_buffer *states[TERN_STATE_COUNT], *made; /* made: of the weight */
    tern_graph graphs[N_PHASES];
    tern_bound_graph bound[N_PHASES];
    tern_error err;
} run_state;

static void check(run_state *r, tern_status status)
{
    if (status != TERN_OK) fail_msg("%s: %s", r->b->info.name, r->err.message);
}

static uint64_t state_bytes(const run_state *r, tern_state state)
{
    const tern_dtype dtypes[] = {r->c->w, TERN_DTYPE_F32, r->c->m, r->c->v};
    return tern_row_bytes(dtypes[state], r->c->cols, r->c->rows);
}

static const char *encoding(const update_case *c)
{
    if (c->kind == UPDATE_TERNARY) return "i2_s";
    return c->kind == UPDATE_DENSE && c->w == TERN_DTYPE_BF16 ? "bf16" : "f32";
}

static void make_weight(run_state *r)
{
    const update_case *c = r->c;
    tern_weight *w = &r->weight;
    *w = (tern_weight){.encoding = tern_encoding_by_name(encoding(c)),
                       .rows = c->rows,
                       .cols = c->cols,
                       .scale = 1,
                       .trained = true,
                       .name = "w"};
    check(r, tern_encoding_bytes(w->encoding, w->rows, w->cols, &w->bytes, &r->err));
    w->data = c->kind == UPDATE_DENSE ? update_initial_master(c) : calloc(w->bytes, 1);
    if (c->kind == UPDATE_TERNARY) {
        memset((void *)(uintptr_t)w->data, 0x55, w->bytes - 32);
        r->row_scales = malloc(c->rows * sizeof(float));
        for (uint32_t i = 0; i < c->rows; i++) r->row_scales[i] = UPDATE_FIRST_SCALE;
        w->row_scales = r->row_scales;
    }
    check(r, r->b->weight_create(r->b, w, &r->made, &r->err));
}

static tern_buffer *create(run_state *r, uint64_t bytes)
{
    tern_buffer *buffer;
    check(r, r->b->buffer_create(r->b, bytes, &buffer, &r->err));
    return buffer;
}

static void make_states(run_state *r)
{
    r->states[TERN_STATE_GRADIENT] = create(r, state_bytes(r, TERN_STATE_GRADIENT));
    if (update_has_m(r->c)) r->states[TERN_STATE_M] = create(r, state_bytes(r, TERN_STATE_M));
    if (update_has_v(r->c)) r->states[TERN_STATE_V] = create(r, state_bytes(r, TERN_STATE_V));
    if (r->c->kind == UPDATE_DENSE) return;
    const uint64_t bytes = state_bytes(r, TERN_STATE_MASTER);
    uint8_t *initial = update_initial_master(r->c);
    r->states[TERN_STATE_MASTER] = create(r, bytes);
    check(r, r->b->buffer_write(r->b, r->states[TERN_STATE_MASTER], 0, initial, bytes, &r->err));
    free(initial);
}

static tern_status find(void *context, const tern_graph *graph, uint32_t value, tern_binding *out, tern_error *err)
{
    (void)err;
    const run_state *r = context;
    const tern_value *v = &graph->values[value];
    if (v->kind == TERN_VALUE_WEIGHT) out->buffer = r->made;
    if (v->kind == TERN_VALUE_STATE) out->buffer = r->states[v->state];
    return TERN_OK;
}

static void prepare(run_state *r, int which, tern_graph_phase phase)
{
    tern_graph *g = &r->graphs[which];
    const tern_bound_options options = {.find = find, .context = r};
    check(r, tern_graph_build_updates(g, &r->config, &r->update, 1, phase, true, &r->err));
    check(r, tern_bound_open(&r->bound[which], r->b, g, &options, &r->err));
    check(r, tern_bound_prepare(&r->bound[which], &r->err));
}

static void run(run_state *r, int which, uint32_t step)
{
    const uint32_t counts[3] = {1, 1, 0};
    const tern_train_params p = update_params(r->c, step);
    memcpy(tern_bound_param(&r->bound[which], TERN_PARAM_COUNTS), counts, sizeof counts);
    memcpy(tern_bound_param(&r->bound[which], TERN_PARAM_TRAINING), &p, sizeof p);
    check(r, tern_bound_start(&r->bound[which], 1, &r->err));
    check(r, r->b->wait(r->b, &r->err));
}

static uint8_t *read_bytes(run_state *r, const tern_buffer *buffer, uint64_t offset, uint64_t bytes)
{
    uint8_t *out = malloc(bytes);
    check(r, r->b->buffer_read(r->b, buffer, offset, out, bytes, &r->err));
    return out;
}

/* Rows of codes, and their scales from the device or, where weights are read in place, from where they lie. */
static void read_codes(run_state *r, uint32_t slice_rows, uint64_t slice_bytes, update_results *out)
{
    const size_t row = update_row_bytes(r->c);
    out->out = malloc(r->c->rows * row);
    out->scales = malloc(r->c->rows * sizeof(float));
    for (uint32_t first = 0; first < r->c->rows; first += slice_rows) {
        const uint32_t n = r->c->rows - first < slice_rows ? r->c->rows - first : slice_rows;
        const uint64_t at = first / slice_rows * slice_bytes;
        check(r, r->b->buffer_read(r->b, r->made, at, out->out + first * row, n * row, &r->err));
        if (strcmp(r->b->info.name, "cpu") == 0) memcpy(out->scales + first, r->row_scales + first, n * sizeof(float));
        else
            check(r, r->b->buffer_read(r->b, r->made, at + slice_rows * row, out->scales + first, n * sizeof(float),
                                       &r->err));
    }
}

static void read_results(run_state *r, uint32_t slice_rows, uint64_t slice_bytes, update_results *out)
{
    const bool dense = r->c->kind == UPDATE_DENSE;
    const uint64_t bytes = state_bytes(r, TERN_STATE_MASTER);
    out->w = read_bytes(r, dense ? r->made : r->states[TERN_STATE_MASTER], 0, bytes);
    out->g = read_bytes(r, r->states[TERN_STATE_GRADIENT], 0, state_bytes(r, TERN_STATE_GRADIENT));
    if (r->states[TERN_STATE_M]) out->m = read_bytes(r, r->states[TERN_STATE_M], 0, state_bytes(r, TERN_STATE_M));
    if (r->states[TERN_STATE_V]) out->v = read_bytes(r, r->states[TERN_STATE_V], 0, state_bytes(r, TERN_STATE_V));
    if (r->c->kind == UPDATE_BLENDED) out->out = read_bytes(r, r->made, 0, update_elements(r->c) * 4);
    if (r->c->kind == UPDATE_TERNARY) read_codes(r, slice_rows, slice_bytes, out);
}

static void close_run(run_state *r)
{
    for (int i = 0; i < N_PHASES; i++) {
        tern_bound_close(&r->bound[i]);
        tern_graph_deinit(&r->graphs[i]);
    }
    for (int i = 0; i < TERN_STATE_COUNT; i++) r->b->buffer_free(r->b, r->states[i]);
    r->b->buffer_free(r->b, r->made);
    free((void *)(uintptr_t)r->weight.data);
    free(r->row_scales);
}

void update_case_run(const update_case *c, tern_backend *backend, uint32_t slice_rows, uint64_t slice_bytes,
                     update_results *results)
{
    run_state r = {.c = c, .b = backend};
    *results = (update_results){.norms = calloc(c->n_steps + 1, sizeof(float))};
    make_weight(&r);
    make_states(&r);
    r.update = (tern_graph_update){.weight = &r.weight,
                                   .master = c->w,
                                   .optimizer = c->optimizer,
                                   .momentum = c->momentum,
                                   .m = c->m,
                                   .v = c->v,
                                   .decays = c->decays,
                                   .threshold = c->threshold,
                                   .clamp = c->clamp,
                                   .has_master = c->kind != UPDATE_DENSE};
    prepare(&r, 0, TERN_GRAPH_NORMS);
    prepare(&r, 1, TERN_GRAPH_UPDATE);
    float *g = malloc(update_elements(c) * sizeof *g);
    for (uint32_t step = 0; step < c->n_steps; step++) {
        update_gradient(c, step, g);
        check(&r, backend->buffer_write(backend, r.states[TERN_STATE_GRADIENT], 0, g, update_elements(c) * 4, &r.err));
        run(&r, 0, step);
        check(&r, tern_bound_read(&r.bound[0], r.graphs[0].norms, &results->norms[step], sizeof(float), &r.err));
        run(&r, 1, step);
    }
    free(g);
    read_results(&r, slice_rows ? slice_rows : c->rows, slice_bytes, results);
    close_run(&r);
}
