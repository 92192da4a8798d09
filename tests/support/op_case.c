/* Graphs of one op or a few, made by hand: their values and what they hold. */
#include "support/op_case.h"

#include <math.h>

#include "base/half.h"
#include "graph/graph.h"
#include "ops/ref/ref.h"
#include "ops/ref/update.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "support/test.h"

enum { ALIGNMENT = 256 };

void test_poison(void *bytes, size_t n)
{
    static const uint8_t pattern[4] = {0xad, 0xde, 0xc0, 0x7f}; /* a quiet NaN */
    for (size_t i = 0; i < n; i++) ((uint8_t *)bytes)[i] = pattern[i % 4];
}

static uint8_t *allocate(size_t bytes)
{
    uint8_t *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(p);
    memset(p, 0, bytes);
    return p;
}

static uint64_t padded(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static tern_view add_value(test_case *c, tern_value value, const char *name)
{
    tern_error err = {0};
    uint32_t id;
    assert_true(c->graph.n_values < TEST_CASE_MAX_VALUES);
    snprintf(value.name, sizeof value.name, "%s", name);
    assert_ok(tern_graph__add_value(&c->graph, value, &id, &err), err);
    return (tern_view){.value = id, .cols = value.cols};
}

static void add_params(test_case *c, const test_case_shape *shape)
{
    static const char *const names[TERN_PARAM_COUNT] = {"counts",     "ids",     "positions", "sequences", "outputs",
                                                        "pages",      "sampler", "starts",    "labels",    "training",
                                                        "ring_pages", "groups",  "wanted",    "states"};
    tern_graph *g = &c->graph;
    const uint64_t n = g->max_tokens, items[TERN_PARAM_COUNT] = {3,
                                                                 n,
                                                                 n,
                                                                 n,
                                                                 n,
                                                                 (uint64_t)g->n_sequences * g->max_pages,
                                                                 sizeof(tern_sample_params) / 4,
                                                                 n,
                                                                 n,
                                                                 sizeof(tern_train_params) / 4,
                                                                 (uint64_t)g->n_sequences * g->max_pages,
                                                                 (uint64_t)g->n_groups * sizeof(tern_row_group) / 4,
                                                                 shape->wanted ? sizeof(tern_wanted) / 4 : 0,
                                                                 shape->states ? g->n_sequences + n : 0};
    for (uint32_t i = 0; i < TERN_PARAM_COUNT; i++) {
        g->params[i] = TERN_NO_VALUE;
        if ((i == TERN_PARAM_SAMPLER && !shape->sampler) || items[i] == 0) continue;
        if (i >= TERN_PARAM_SEQ_STARTS && i <= TERN_PARAM_TRAINING && !shape->training) continue;
        tern_value value = {
            .kind = TERN_VALUE_PARAM, .dtype = TERN_DTYPE_U32, .bytes = items[i] * 4, .offset = g->param_bytes};
        g->params[i] = add_value(c, value, names[i]).value;
        g->param_bytes += padded(value.bytes);
    }
    c->params = allocate(g->param_bytes);
    for (uint32_t i = 0; i < n; i++)
        test_case_param(c, TERN_PARAM_POSITIONS)[i] = test_case_param(c, TERN_PARAM_OUTPUTS)[i] = i;
    for (uint32_t i = 0; i < items[TERN_PARAM_PAGES]; i++) test_case_param(c, TERN_PARAM_PAGES)[i] = i;
    for (uint32_t i = 0; i < items[TERN_PARAM_RING_PAGES]; i++) test_case_param(c, TERN_PARAM_RING_PAGES)[i] = i;
    for (uint32_t i = 0; shape->states && i < n; i++)
        test_case_param(c, TERN_PARAM_STATES)[g->n_sequences + i] = TERN_NO_STATE;
}

static uint32_t or_else(uint32_t value, uint32_t otherwise)
{
    return value ? value : otherwise;
}

void test_case_open(test_case *c, tern_rng *rng, const test_case_shape *shape)
{
    *c = (test_case){.rng = rng};
    c->graph = (tern_graph){.max_tokens = or_else(shape->max_tokens, 1),
                            .n_routes = shape->n_routes,
                            .n_groups = shape->n_groups,
                            .n_sequences = or_else(shape->n_sequences, 1),
                            .logits = TERN_NO_VALUE,
                            .tokens = TERN_NO_VALUE,
                            .losses = TERN_NO_VALUE,
                            .norms = TERN_NO_VALUE};
    c->graph.max_outputs = or_else(shape->max_outputs, c->graph.max_tokens);
    c->graph.max_pages = (or_else(shape->n_ctx, 64) + TERN_PAGE_SIZE - 1) / TERN_PAGE_SIZE;
    add_params(c, shape);
}

void test_case_close(test_case *c)
{
    for (size_t i = 0; i < TEST_CASE_MAX_VALUES; i++) {
        free(c->initial[i]);
        if (!c->weights[i]) continue;
        free((void *)(uintptr_t)c->weights[i]->data);
        free(c->weights[i]);
    }
    free(c->params);
    tern_graph_deinit(&c->graph);
}

uint32_t *test_case_param(test_case *c, tern_param which)
{
    return (uint32_t *)(void *)(c->params + c->graph.values[c->graph.params[which]].offset);
}

tern_view test_case_param_view(const test_case *c, tern_param which)
{
    return (tern_view){.value = c->graph.params[which]};
}

static uint32_t max_rows(const test_case *c, tern_rows rows)
{
    return tern_graph_max_rows(&c->graph, rows);
}

static tern_view add_rows(test_case *c, const char *name, tern_value_kind kind, tern_rows rows, tern_dtype dtype,
                          uint32_t cols)
{
    tern_value value = {.kind = kind,
                        .dtype = dtype,
                        .rows = rows,
                        .cols = cols,
                        .bytes = tern_row_bytes(dtype, cols, max_rows(c, rows))};
    if (kind == TERN_VALUE_ACTIVATION) {
        value.offset = c->graph.activation_bytes;
        c->graph.activation_bytes += padded(value.bytes);
    }
    return add_value(c, value, name);
}

tern_view test_case_activation(test_case *c, const char *name, tern_rows rows, tern_dtype dtype, uint32_t cols)
{
    return add_rows(c, name, TERN_VALUE_ACTIVATION, rows, dtype, cols);
}

tern_view test_case_output(test_case *c, const char *name, tern_rows rows, tern_dtype dtype, uint32_t cols)
{
    return add_rows(c, name, TERN_VALUE_OUTPUT, rows, dtype, cols);
}

tern_view test_case_rows(test_case *c, const char *name, tern_rows rows, uint32_t cols, test_fill fill)
{
    tern_view view = test_case_activation(c, name, rows, TERN_DTYPE_F32, cols);
    const uint64_t bytes = c->graph.values[view.value].bytes;
    c->initial[view.value] = allocate(bytes);
    test_floats(c->rng, fill, test_case_floats(c, view), bytes / sizeof(float));
    return view;
}

/* One row of int8: random ones as the quantiser makes them, or an extreme that sums badly. */
static void fill_q8_row(tern_rng *rng, float *x, uint32_t cols, int8_t *q, size_t stride, float *scale, int32_t *sum)
{
    const uint32_t how = test_between(rng, 0, 5);
    test_floats(rng, TEST_ORDINARY, x, cols);
    tern_ref_quantize(x, cols, q, stride, scale, sum);
    if (how > 2) return;
    *sum = 0;
    for (uint32_t i = 0; i < cols; i++) {
        q[i] = how == 0 ? -128 : how == 1 || i % 2 ? 127 : -128;
        *sum += q[i];
    }
}

tern_view test_case_q8(test_case *c, const char *name, tern_rows rows, uint32_t cols)
{
    tern_view view = test_case_activation(c, name, rows, TERN_DTYPE_Q8, cols);
    const uint32_t n = max_rows(c, rows);
    uint8_t *bytes = c->initial[view.value] = allocate(tern_row_bytes(TERN_DTYPE_Q8, cols, n));
    float *x = malloc(cols * sizeof *x), *scales = (float *)(void *)(bytes + tern_q8_scales_offset(cols, n));
    int32_t *sums = (int32_t *)(void *)(bytes + tern_q8_sums_offset(cols, n));
    const size_t stride = tern_q8_stride(cols);
    for (uint32_t t = 0; t < n; t++)
        fill_q8_row(c->rng, x, cols, (int8_t *)bytes + t * stride, stride, &scales[t], &sums[t]);
    free(x);
    return view;
}

static uint8_t *encode_codes(test_case *c, const tern_encoding *e, tern_weight *w)
{
    tern_error err = {0};
    const size_t n = (size_t)w->rows * w->cols;
    const uint32_t how = test_between(c->rng, 0, 9);
    int8_t *codes = malloc(n);
    uint8_t *data = allocate(w->bytes);
    for (size_t i = 0; i < n; i++)
        codes[i] = how == 0 ? 1 : how == 1 ? -1 : (int8_t)((int)test_between(c->rng, 0, 2) - 1);
    w->scale = 0.5f + tern_rng_f32(c->rng);
    assert_ok(tern_encode_codes(e, codes, w->scale, w->rows, w->cols, data, &err), err);
    free(codes);
    return data;
}

static uint8_t *encode_floats(test_case *c, const tern_encoding *e, tern_weight *w)
{
    tern_error err = {0};
    const size_t n = (size_t)w->rows * w->cols;
    float *x = malloc(n * sizeof *x);
    uint8_t *data = allocate(w->bytes);
    test_floats(c->rng, TEST_ORDINARY, x, n);
    assert_ok(tern_encode(e, x, w->rows, w->cols, data, &err), err);
    free(x);
    w->scale = 1;
    return data;
}

tern_view test_case_weight(test_case *c, const char *encoding, uint32_t rows, uint32_t cols)
{
    tern_error err = {0};
    const tern_encoding *e = tern_encoding_by_name(encoding);
    assert_non_null(e);
    tern_weight *w = calloc(1, sizeof *w);
    *w = (tern_weight){.encoding = e, .rows = rows, .cols = cols};
    snprintf(w->name, sizeof w->name, "%s weight", encoding);
    assert_ok(tern_encoding_bytes(e, rows, cols, &w->bytes, &err), err);
    w->data = e->ternary ? encode_codes(c, e, w) : encode_floats(c, e, w);
    tern_view view =
        add_value(c, (tern_value){.kind = TERN_VALUE_WEIGHT, .weight = w, .cols = cols, .bytes = w->bytes}, w->name);
    c->weights[view.value] = w;
    return view;
}

tern_view test_case_norm_weight(test_case *c, uint32_t cols)
{
    return test_case_weight(c, "f32", 1, cols);
}

tern_view test_case_cache(test_case *c, const char *name, tern_dtype dtype, uint32_t n_pages, uint32_t n_kv_heads,
                          uint32_t head_dim)
{
    const size_t n = (size_t)n_pages * TERN_PAGE_SIZE * n_kv_heads * head_dim, bytes = tern_cache_bytes(dtype, n);
    tern_view view = add_value(
        c, (tern_value){.kind = TERN_VALUE_CACHE, .dtype = dtype, .cols = n_kv_heads * head_dim, .bytes = bytes}, name);
    float *x = malloc(n * sizeof *x);
    c->head_dim = head_dim;
    c->initial[view.value] = allocate(bytes);
    test_floats(c->rng, TEST_ORDINARY, x, n);
    for (size_t i = 0; i < n; i += head_dim)
        tern_ref_kv_store(dtype)(x + i, head_dim, c->initial[view.value] + tern_cache_bytes(dtype, i));
    free(x);
    return view;
}

tern_view test_case_state(test_case *c, const char *name, tern_state state, tern_dtype dtype, uint32_t n_rows,
                          uint32_t cols, test_fill fill)
{
    const size_t n = (size_t)n_rows * cols;
    tern_value value = {.kind = TERN_VALUE_STATE,
                        .dtype = dtype,
                        .state = state,
                        .n_rows = n_rows,
                        .cols = cols,
                        .bytes = tern_row_bytes(dtype, cols, n_rows)};
    tern_view view = add_value(c, value, name);
    uint8_t *bytes = c->initial[view.value] = allocate(value.bytes);
    float *x = malloc(n * sizeof *x);
    test_floats(c->rng, fill, x, n);
    float *scales = (float *)(void *)(bytes + (n + TERN_STATE_BLOCK - 1) / TERN_STATE_BLOCK * TERN_STATE_BLOCK);
    uint32_t *random = calloc(n + 1, sizeof *random);
    for (size_t i = 0; i < n && state == TERN_STATE_V; i++) x[i] *= x[i];
    switch (dtype) {
    case TERN_DTYPE_BF16:
        for (size_t i = 0; i < n; i++) ((uint16_t *)(void *)bytes)[i] = tern_f32_to_bf16(x[i]);
        break;
    case TERN_DTYPE_M8: tern_ref_state_pack(x, n, (int8_t *)bytes, scales); break;
    case TERN_DTYPE_V8: tern_ref_square_pack(x, n, random, bytes, scales); break;
    default: memcpy(bytes, x, n * sizeof *x);
    }
    free(random);
    free(x);
    return view;
}

tern_view test_case_recurrent(test_case *c, const char *name, uint32_t n_rows, uint32_t cols)
{
    const size_t n = (size_t)n_rows * cols;
    tern_value value = {
        .kind = TERN_VALUE_RECURRENT, .dtype = TERN_DTYPE_F32, .cols = cols, .bytes = n * sizeof(float)};
    tern_view view = add_value(c, value, name);
    c->initial[view.value] = allocate(value.bytes);
    test_floats(c->rng, TEST_ORDINARY, test_case_floats(c, view), n);
    return view;
}

tern_view test_case_rope_table(test_case *c, uint32_t head_dim)
{
    const size_t n = (size_t)c->graph.max_pages * TERN_PAGE_SIZE * head_dim / 2;
    tern_value value = {
        .kind = TERN_VALUE_CONSTANT, .dtype = TERN_DTYPE_F32, .cols = head_dim, .bytes = n * 2 * sizeof(float)};
    tern_view view = add_value(c, value, "rope_table");
    c->initial[view.value] = allocate(value.bytes);
    float *pairs = test_case_floats(c, view);
    for (size_t i = 0; i < n; i++) {
        const float angle = 6.283f * tern_rng_f32(c->rng);
        pairs[2 * i] = cosf(angle);
        pairs[2 * i + 1] = sinf(angle);
    }
    return view;
}

float *test_case_floats(test_case *c, tern_view view)
{
    return (float *)(void *)c->initial[view.value];
}

tern_weight *test_case_weight_of(test_case *c, tern_view view)
{
    return c->weights[view.value];
}

tern_view test_case_columns(tern_view view, uint32_t first_col, uint32_t cols)
{
    return (tern_view){.value = view.value, .first_col = view.first_col + first_col, .cols = cols};
}

void test_case_add(test_case *c, tern_op op)
{
    tern_error err = {0};
    assert_ok(tern_graph__add_op(&c->graph, &op, &err), err);
}
