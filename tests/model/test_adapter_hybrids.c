/* Adapters beside layers that keep a state and beside the expert of all tokens: names, and heads in either order. */
#include "base/rng.h"
#include "format/json.h"
#include "model/adapter_cases.h"
#include "quant/weight.h"
#include "support/converted.h"

static const tern_adapter_layer targets[] = {
    {TERN_ROLE_SSM_QKV, 0},  {TERN_ROLE_SSM_GATE, 2}, {TERN_ROLE_SSM_ALPHA, 0},
    {TERN_ROLE_SSM_BETA, 2}, {TERN_ROLE_SSM_OUT, 0},  {TERN_ROLE_ATTN_Q, 1},
};
enum { N = sizeof targets / sizeof *targets };

static tern_adapter *made_beside(const tern_model *model, const tern_adapter_layer *layers, size_t n)
{
    tern_adapter *adapter = NULL;
    const tern_adapter_info info = {.rank = RANK, .alpha = 6};
    tern_rng rng = {77};
    assert_ok(tern_adapter_make(&adapter, model, &info, layers, n, &adapter_err), adapter_err);
    for (size_t i = 0; i < n; i++) {
        const tern_adapter_pair *p = tern_adapter_find(adapter, layers[i].role, layers[i].layer);
        for (size_t k = 0; k < (size_t)RANK * p->in; k++) p->a[k] = tern_rng_f32(&rng) - 0.5f;
        for (size_t k = 0; k < (size_t)RANK * p->out; k++) p->b[k] = tern_rng_f32(&rng) - 0.5f;
    }
    return adapter;
}

/* The numbers of a weight; free them. */
static float *numbers(const tern_model *model, tern_adapter_layer at)
{
    const tern_weight *w = tern_model_weight(model, at.role, at.layer);
    float *x = malloc((size_t)w->rows * w->cols * sizeof *x);
    assert_ok(tern_model_master(model, at.role, at.layer, 0, w->rows, x, &adapter_err), adapter_err);
    return x;
}

/* A matrix of two models that have the same numbers in another order. */
typedef struct matrices {
    const float *own, *other;
    uint32_t rows, cols;
} matrices;

/* Which row, or column, of our own that of the other is. */
static uint32_t place_of(const matrices *m, uint32_t i, bool column)
{
    const uint32_t n = column ? m->cols : m->rows, step = column ? 1 : m->cols, length = column ? m->rows : m->cols,
                   stride = column ? m->cols : 1;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t same = 0;
        while (same < length && m->own[k * step + same * stride] == m->other[i * step + same * stride]) same++;
        if (same == length) return k;
    }
    fail_msg("%s %u is not in the other model", column ? "column" : "row", i);
    return 0;
}

/* Rows of B, or columns of A with `column`, stand in the order that the weights have; returns how many have moved. */
static uint32_t check_order(const matrices *m, const tern_adapter_pair *own, const tern_adapter_pair *other,
                            bool column)
{
    uint32_t n_moved = 0;
    for (uint32_t i = 0; i < (column ? m->cols : m->rows); i++) {
        const uint32_t from = place_of(m, i, column);
        n_moved += from != i;
        for (uint32_t k = 0; k < RANK; k++)
            if (column) assert_true(other->a[k * m->cols + i] == own->a[k * m->cols + from]);
            else assert_true(other->b[i * RANK + k] == own->b[from * RANK + k]);
    }
    if (column) assert_memory_equal(other->b, own->b, (size_t)m->rows * RANK * sizeof(float));
    else assert_memory_equal(other->a, own->a, (size_t)m->cols * RANK * sizeof(float));
    return n_moved;
}

static void check_target(const tern_model *const models[2], tern_adapter *const adapters[2], tern_adapter_layer at)
{
    const tern_weight *w = tern_model_weight(models[0], at.role, at.layer);
    float *x[2] = {numbers(models[0], at), numbers(models[1], at)};
    const matrices m = {.own = x[0], .other = x[1], .rows = w->rows, .cols = w->cols};
    const tern_adapter_pair *own = tern_adapter_find(adapters[0], at.role, at.layer),
                            *other = tern_adapter_find(adapters[1], at.role, at.layer);
    assert_true(own && other && own->in == w->cols && own->out == w->rows);
    const uint32_t n_moved = check_order(&m, own, other, at.role == TERN_ROLE_SSM_OUT);
    if ((n_moved > 0) != (at.role != TERN_ROLE_ATTN_Q)) fail_msg("%s: %u rows or columns moved", w->name, n_moved);
    free(x[0]);
    free(x[1]);
}

static void check_names(void)
{
    static const char *const tensors[] = {"0.linear_attn.in_proj_qkv", "2.linear_attn.in_proj_z",
                                          "0.linear_attn.in_proj_a",   "2.linear_attn.in_proj_b",
                                          "0.linear_attn.out_proj",    "1.self_attn.q_proj"},
                             *const words[] = {"q_proj",    "in_proj_qkv", "in_proj_z",
                                               "in_proj_a", "in_proj_b",   "out_proj"};
    char name[160];
    tern_safetensors *st = NULL;
    json_t *config = NULL;
    assert_ok(tern_safetensors_open(&st, test_scratch("hybrid-lora/adapter_model.safetensors"), &adapter_err),
              adapter_err);
    for (size_t i = 0; i < N; i++)
        for (int b = 0; b < 2; b++) {
            snprintf(name, sizeof name, "base_model.model.model.layers.%s.lora_%c.weight", tensors[i], b ? 'B' : 'A');
            if (!tern_safetensors_find(st, name)) fail_msg("no tensor %s", name);
        }
    tern_safetensors_close(st);
    assert_ok(tern_json_read(&config, test_scratch("hybrid-lora/adapter_config.json"), 1 << 20, &adapter_err),
              adapter_err);
    const json_t *found = json_object_get(config, "target_modules");
    assert_int_equal(json_array_size(found), N);
    for (size_t i = 0; i < N; i++) assert_string_equal(json_string_value(json_array_get(found, i)), words[i]);
    tern_json_free(config);
}

static void check_same(const tern_adapter *want, const char *path, const tern_model *model)
{
    tern_adapter *got = adapter_open_adapter(path, model);
    for (size_t i = 0; i < N; i++) {
        const tern_adapter_pair *p = tern_adapter_find(want, targets[i].role, targets[i].layer),
                                *q = tern_adapter_find(got, targets[i].role, targets[i].layer);
        assert_true(q && p->in == q->in && p->out == q->out);
        assert_memory_equal(p->a, q->a, (size_t)RANK * p->in * sizeof *p->a);
        assert_memory_equal(p->b, q->b, (size_t)RANK * p->out * sizeof *p->b);
    }
    tern_adapter_close(got);
}

/* A folder has heads of values by head of keys, a GGUF file has them in turn: adapters of both fit both. */
static void heads_follow_the_model(void **state)
{
    (void)state;
    static const char dir[] = "hybrid-lora", file[] = "hybrid-lora.gguf";
    tern_model *const plain = open_model(test_fixture("qwen3_5")), *const gguf = open_model(test_converted(
                                                                       test_fixture("qwen3_5"), "f32", "f32"));
    const tern_model *const models[2] = {plain, gguf};
    assert_true(!tern_model_config(plain)->recurrence.tiled && tern_model_config(gguf)->recurrence.tiled);
    tern_adapter *adapters[2] = {made_beside(plain, targets, N), NULL};
    assert_ok(tern_adapter_write_peft(adapters[0], test_scratch(dir), &adapter_err), adapter_err);
    check_names();
    check_same(adapters[0], test_scratch(dir), plain);
    adapters[1] = adapter_open_adapter(test_scratch(dir), gguf);
    for (size_t i = 0; i < N; i++) check_target(models, adapters, targets[i]);
    /* and by a GGUF file from one model to the other, and back by a folder */
    assert_ok(tern_adapter_write_gguf(adapters[0], test_scratch(file), &adapter_err), adapter_err);
    check_same(adapters[1], test_scratch(file), gguf);
    assert_ok(tern_adapter_write_peft(adapters[1], test_scratch("hybrid-lora-2"), &adapter_err), adapter_err);
    check_same(adapters[0], test_scratch("hybrid-lora-2"), plain);
    for (int i = 0; i < 2; i++) tern_adapter_close(adapters[i]);
    tern_model_close(plain);
    tern_model_close(gguf);
}

enum { MIXED_LAYERS = 2 };

/* The pair that the folder has beside the layer's in_proj_qkvz, and that matrix. */
typedef struct mixed_pair {
    tern_safetensors *adapter, *model;
    const float *a, *b;
    const uint16_t *matrix;
    uint32_t rank, rows, cols;
} mixed_pair;

static const tern_st_tensor *tensor_of(const tern_safetensors *st, const char *format, uint32_t layer)
{
    char name[160];
    snprintf(name, sizeof name, format, layer);
    const tern_st_tensor *t = tern_safetensors_find(st, name);
    if (!t) fail_msg("no tensor %s", name);
    return t;
}

static mixed_pair open_mixed(const char *dir, uint32_t layer)
{
    static const char a[] = "base_model.model.model.layers.%u.linear_attn.in_proj_qkvz.lora_A.weight",
                      b[] = "base_model.model.model.layers.%u.linear_attn.in_proj_qkvz.lora_B.weight",
                      matrix[] = "model.layers.%u.linear_attn.in_proj_qkvz.weight";
    char path[512];
    mixed_pair p = {0};
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", dir);
    assert_ok(tern_safetensors_open(&p.adapter, path, &adapter_err), adapter_err);
    snprintf(path, sizeof path, "%s/model.safetensors", test_fixture("qwen3_next"));
    assert_ok(tern_safetensors_open(&p.model, path, &adapter_err), adapter_err);
    const tern_st_tensor *ta = tensor_of(p.adapter, a, layer), *tb = tensor_of(p.adapter, b, layer),
                         *tw = tensor_of(p.model, matrix, layer);
    assert_int_equal(tw->dtype, TERN_ST_BF16);
    p.a = (const float *)(const void *)ta->data;
    p.b = (const float *)(const void *)tb->data;
    p.matrix = (const uint16_t *)(const void *)tw->data;
    p.rank = (uint32_t)ta->dims[0];
    p.rows = (uint32_t)tw->dims[0];
    p.cols = (uint32_t)tw->dims[1];
    assert_true(ta->dims[1] == p.cols && tb->dims[0] == p.rows && tb->dims[1] == p.rank);
    return p;
}

static void close_mixed(mixed_pair *p)
{
    tern_safetensors_close(p->adapter);
    tern_safetensors_close(p->model);
}

static double product(const float *a, const float *b, uint32_t rank, uint32_t cols, uint32_t row, uint32_t col)
{
    double sum = 0;
    for (uint32_t k = 0; k < rank; k++) sum += (double)b[(size_t)row * rank + k] * (double)a[(size_t)k * cols + col];
    return sum;
}

/* Rows of the folder's matrix are found in the model's two by their numbers: there the model's pair has the product
 * that the folder's pair has here. Returns how many rows are of one of both roles. */
static uint32_t check_products(const mixed_pair *p, const tern_adapter *adapter, const tern_model *model,
                               tern_adapter_layer at)
{
    const tern_adapter_pair *pair = tern_adapter_find(adapter, at.role, at.layer);
    const tern_weight *w = tern_model_weight(model, at.role, at.layer);
    const uint16_t *own = (const uint16_t *)(const void *)w->data;
    uint32_t n_found = 0;
    for (uint32_t i = 0; i < p->rows; i++) {
        uint32_t r = 0;
        while (r < w->rows && memcmp(own + (size_t)r * p->cols, p->matrix + (size_t)i * p->cols, p->cols * 2) != 0) r++;
        if (r == w->rows) continue;
        n_found++;
        for (uint32_t c = 0; c < p->cols; c++) {
            const double want = pair ? product(pair->a, pair->b, RANK, p->cols, r, c) : 0,
                         got = product(p->a, p->b, p->rank, p->cols, i, c);
            if (!(fabs(got - want) <= 1e-6)) fail_msg("row %u, column %u: %g, %g expected", i, c, got, want);
        }
    }
    assert_int_equal(n_found, w->rows);
    return n_found;
}

static void check_folder(const tern_adapter *adapter, const tern_model *model, const char *dir, uint32_t rank)
{
    static const uint32_t layers[MIXED_LAYERS] = {0, 2};
    for (size_t i = 0; i < MIXED_LAYERS; i++) {
        mixed_pair p = open_mixed(dir, layers[i]);
        assert_int_equal(p.rank, rank);
        uint32_t n = check_products(&p, adapter, model, (tern_adapter_layer){TERN_ROLE_SSM_QKV, layers[i]});
        n += check_products(&p, adapter, model, (tern_adapter_layer){TERN_ROLE_SSM_GATE, layers[i]});
        assert_int_equal(n, p.rows);
        close_mixed(&p);
    }
}

/* Where the folder doubled the rank, the pairs have it that are read; the sums stay. */
static void check_read(const tern_adapter *want, const char *dir, const tern_model *model,
                       const tern_adapter_layer *layers, size_t n)
{
    tern_adapter *got = adapter_open_adapter(dir, model);
    const tern_adapter_info *a = tern_adapter_describe(want), *b = tern_adapter_describe(got);
    for (size_t i = 0; i < n; i++) {
        const tern_adapter_pair *p = tern_adapter_find(want, layers[i].role, layers[i].layer),
                                *q = tern_adapter_find(got, layers[i].role, layers[i].layer);
        assert_true(p && q && p->in == q->in && p->out == q->out);
        for (uint32_t r = 0; r < p->out; r++)
            for (uint32_t c = 0; c < p->in; c++) {
                const double x = (double)a->scale * product(p->a, p->b, a->rank, p->in, r, c),
                             y = (double)b->scale * product(q->a, q->b, b->rank, q->in, r, c);
                if (!(fabs(x - y) <= 1e-5)) fail_msg("row %u, column %u: %g, %g expected", r, c, y, x);
            }
    }
    tern_adapter_close(got);
}

static void check_reads_as(const tern_adapter *want, const char *path, const tern_model *model)
{
    tern_adapter *got = adapter_open_adapter(path, model);
    adapter_assert_same(got, want);
    tern_adapter_close(got);
}

/* Qwen3-Next has q, k, v and z in one matrix: pairs beside it are split by its rows, and put together again. */
static void one_matrix_for_all(void **state)
{
    (void)state;
    static const tern_adapter_layer both[] = {{TERN_ROLE_SSM_QKV, 0},
                                              {TERN_ROLE_SSM_GATE, 0},
                                              {TERN_ROLE_SSM_GATE, 2},
                                              {TERN_ROLE_SSM_BETA_ALPHA, 0},
                                              {TERN_ROLE_FFN_UP_SHEXP, 0}};
    enum { N_BOTH = sizeof both / sizeof *both };
    char dir[512], again[512];
    snprintf(dir, sizeof dir, "%s", test_scratch("next-lora"));
    snprintf(again, sizeof again, "%s", test_scratch("next-lora-2"));
    tern_model *model = open_model(test_fixture("qwen3_next"));
    tern_adapter *adapter = made_beside(model, both, N_BOTH);
    assert_ok(tern_adapter_write_peft(adapter, dir, &adapter_err), adapter_err);
    check_folder(adapter, model, dir, 2 * RANK);
    check_read(adapter, dir, model, both, N_BOTH);
    /* one A of both, as training in PEFT leaves it: the rank stays, and the folder comes back as it was */
    memcpy(tern_adapter_find(adapter, TERN_ROLE_SSM_GATE, 0)->a, tern_adapter_find(adapter, TERN_ROLE_SSM_QKV, 0)->a,
           (size_t)RANK * tern_adapter_find(adapter, TERN_ROLE_SSM_QKV, 0)->in * sizeof(float));
    assert_ok(tern_adapter_write_peft(adapter, dir, &adapter_err), adapter_err);
    check_folder(adapter, model, dir, RANK);
    tern_adapter *read = adapter_open_adapter(dir, model);
    assert_ok(tern_adapter_write_peft(read, again, &adapter_err), adapter_err);
    assert_ok(tern_adapter_write_gguf(read, test_scratch("next.gguf"), &adapter_err), adapter_err);
    check_reads_as(read, again, model);
    check_reads_as(read, test_scratch("next.gguf"), model);
    tern_adapter_close(read);
    assert_int_equal(tern_adapter_open(&read, dir, NULL, &adapter_err), TERN_UNSUPPORTED);
    assert_non_null(strstr(adapter_err.message, "in_proj_qkvz.lora_"));
    tern_adapter_close(adapter);
    tern_model_close(model);
}

/* A layer that keeps a state has no q. */
static void layers_without_the_matrix(void **state)
{
    (void)state;
    static const tern_adapter_layer q = {TERN_ROLE_ATTN_Q, 0};
    const tern_adapter_info info = {.rank = RANK, .alpha = 6};
    tern_model *model = open_model(test_fixture("qwen3_5"));
    folder f = adapter_sound(PLAIN "}");
    tern_adapter *adapter;
    assert_int_equal(tern_adapter_open(&adapter, adapter_write_made(&f), model, &adapter_err), TERN_MALFORMED);
    assert_non_null(strstr(adapter_err.message, "found, but layer 0 of the model has no such matrix"));
    assert_int_equal(tern_adapter_make(&adapter, model, &info, &q, 1, &adapter_err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(adapter_err.message, "a matrix that the model has, in a layer below"));
    tern_model_close(model);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(heads_follow_the_model),
    cmocka_unit_test(one_matrix_for_all),
    cmocka_unit_test(layers_without_the_matrix),
};

TEST_GROUP(adapter_hybrids, "", tests);
