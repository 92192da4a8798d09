/* Adapters beside layers that keep a state and beside the expert of all tokens, merged: each tensor of the folder that
 * is written is the base's plus the product of the adapter's, as their files have them. */
#include <math.h>

#include "base/half.h"
#include "base/rng.h"
#include "model/adapter/merge.h"
#include "model/adapter_cases.h"
#include "model/write/hf.h"
#include "support/converted.h"

enum { MAX_TARGETS = 8 };

/* A model and the matrices that its adapter has. */
typedef struct merge_case {
    const char *fixture;
    tern_adapter_layer targets[MAX_TARGETS];
    size_t n;
} merge_case;

static const merge_case cases[] = {
    {"qwen3_5",
     {{TERN_ROLE_SSM_QKV, 0},
      {TERN_ROLE_SSM_GATE, 0},
      {TERN_ROLE_SSM_ALPHA, 1},
      {TERN_ROLE_SSM_BETA, 2},
      {TERN_ROLE_SSM_OUT, 0},
      {TERN_ROLE_ATTN_Q, 3},
      {TERN_ROLE_FFN_DOWN, 2}},
     7},
    {"qwen3_5_moe",
     {{TERN_ROLE_SSM_QKV, 0},
      {TERN_ROLE_SSM_OUT, 2},
      {TERN_ROLE_FFN_GATE_SHEXP, 0},
      {TERN_ROLE_FFN_UP_SHEXP, 1},
      {TERN_ROLE_FFN_DOWN_SHEXP, 2}},
     5},
    {"qwen3_next",
     {{TERN_ROLE_SSM_QKV, 0},
      {TERN_ROLE_SSM_GATE, 0},
      {TERN_ROLE_SSM_GATE, 2},
      {TERN_ROLE_SSM_BETA_ALPHA, 1},
      {TERN_ROLE_SSM_OUT, 0},
      {TERN_ROLE_FFN_UP_SHEXP, 1}},
     6},
};

/* Layers of attention lack what the others have: the target moves to one that has it. */
static tern_adapter_layer placed(const tern_model *model, tern_adapter_layer at)
{
    while (!tern_model_weight(model, at.role, at.layer)->encoding)
        at.layer = (at.layer + 1) % tern_model_config(model)->n_layers;
    return at;
}

static void write_adapter(const merge_case *c, const char *dir)
{
    tern_model *model = open_model(test_fixture(c->fixture));
    tern_adapter *adapter = NULL;
    tern_adapter_layer targets[MAX_TARGETS];
    tern_rng rng = {31};
    for (size_t i = 0; i < c->n; i++) targets[i] = placed(model, c->targets[i]);
    const tern_adapter_info info = {.rank = RANK, .alpha = 3};
    assert_ok(tern_adapter_make(&adapter, model, &info, targets, c->n, &adapter_err), adapter_err);
    for (size_t i = 0; i < c->n; i++) {
        const tern_adapter_pair *p = tern_adapter_find(adapter, targets[i].role, targets[i].layer);
        for (size_t k = 0; k < (size_t)RANK * p->in; k++) p->a[k] = tern_rng_f32(&rng) - 0.5f;
        for (size_t k = 0; k < (size_t)RANK * p->out; k++) p->b[k] = tern_rng_f32(&rng) - 0.5f;
    }
    assert_ok(tern_adapter_write_peft(adapter, dir, &adapter_err), adapter_err);
    tern_adapter_close(adapter);
    tern_model_close(model);
}

static tern_safetensors *open_tensors(const char *dir, const char *name)
{
    char path[640];
    tern_safetensors *st = NULL;
    snprintf(path, sizeof path, "%s/%s.safetensors", dir, name);
    assert_ok(tern_safetensors_open(&st, path, &adapter_err), adapter_err);
    return st;
}

static float *floats_of(const tern_st_tensor *t)
{
    float *x = malloc(t->n_elements * sizeof *x);
    tern_st_to_f32(t, 0, t->n_elements, x);
    return x;
}

/* A or B beside a tensor of the model; NULL: the adapter leaves it as it is. */
static const tern_st_tensor *half_beside(const tern_safetensors *adapter, const char *tensor, char half)
{
    char name[256];
    const size_t n = strlen(tensor) - strlen(".weight");
    snprintf(name, sizeof name, "base_model.model.%.*s.lora_%c.weight", (int)n, tensor, half);
    return tern_safetensors_find(adapter, name);
}

/* Adds B A, times alpha / r: 3 / 2; where two pairs are one of twice the rank alpha is 6 of 4. */
static void add_product(float *w, const tern_st_tensor *ta, const tern_st_tensor *tb)
{
    float *a = floats_of(ta), *b = floats_of(tb);
    const size_t rank = ta->dims[0], cols = ta->dims[1], rows = tb->dims[0];
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            double sum = 0;
            for (size_t k = 0; k < rank; k++) sum += (double)b[r * rank + k] * (double)a[k * cols + c];
            w[r * cols + c] += (float)(1.5 * sum);
        }
    free(a);
    free(b);
}

static bool check_tensor(const tern_st_tensor *base, const tern_st_tensor *merged, const tern_safetensors *adapter)
{
    const tern_st_tensor *a = half_beside(adapter, base->name, 'A'), *b = half_beside(adapter, base->name, 'B');
    float *want = floats_of(base), *got = floats_of(merged);
    assert_int_equal(base->n_elements, merged->n_elements);
    assert_true(!a == !b);
    if (a) add_product(want, a, b);
    for (size_t i = 0; i < base->n_elements; i++)
        if (!(fabsf(got[i] - want[i]) <= fabsf(want[i]) / 128 + 1e-6f))
            fail_msg("%s: element %zu is %g, %g expected", base->name, i, (double)got[i], (double)want[i]);
    free(want);
    free(got);
    return a != NULL;
}

/* All tensors of the folder, and every pair of the adapter has one. */
static void check_folder(const merge_case *c, const char *merged, const char *adapter_dir)
{
    tern_safetensors *base = open_tensors(test_fixture(c->fixture), "model"), *got = open_tensors(merged, "model"),
                     *adapter = open_tensors(adapter_dir, "adapter_model");
    size_t n_pairs = 0;
    for (size_t i = 0; i < tern_safetensors_count(base); i++) {
        const tern_st_tensor *t = tern_safetensors_at(base, i), *u = tern_safetensors_find(got, t->name);
        if (!u) fail_msg("%s: %s was not written", c->fixture, t->name);
        n_pairs += check_tensor(t, u, adapter);
    }
    assert_int_equal(2 * n_pairs, tern_safetensors_count(adapter));
    tern_safetensors_close(base);
    tern_safetensors_close(got);
    tern_safetensors_close(adapter);
}

/* The model that is derived computes with the sums as well. */
static void check_derived(const tern_merge *merge, const tern_master_source *source)
{
    tern_model *merged = NULL;
    const tern_derivation how = {.has = tern_merge_has, .context = merge, .source = source};
    const tern_config *c = tern_model_config(merge->base);
    assert_ok(tern_model_derive(&merged, merge->base, &how, &adapter_err), adapter_err);
    for (uint32_t layer = 0; layer < c->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            tern_merge_change change;
            if (!tern_merge_has(merge, (tern_role)role, layer)) continue;
            assert_ok(tern_merge_look(merge, merged, (tern_role)role, layer, &change, &adapter_err), adapter_err);
            if (change.wanted > 0 && !(change.kept > 0.999))
                fail_msg("role %d of layer %u: %g", role, layer, change.kept);
        }
    tern_model_close(merged);
}

static void check_merge(const merge_case *c, tern_model *model, const char *adapter_dir)
{
    tern_adapter *adapter = adapter_open_adapter(adapter_dir, model);
    const tern_merge_item item = {adapter, 1};
    tern_merge merge = {.base = model, .items = &item, .n_items = 1, .bf16 = true};
    const tern_master_source source = tern_merge_source(&merge);
    check_derived(&merge, &source);
    const tern_derivation how = {.has = tern_merge_has, .context = &merge, .source = &source};
    tern_derived_masters masters = {.base = model, .how = &how};
    const tern_master_source all = tern_derived_source(&masters);
    const char *dir = test_scratch("merged-hybrid");
    const tern_hf_options options = {.progress = NULL};
    assert_ok(tern_hf_write(dir, tern_model_config(model), NULL, &all, &options, &adapter_err), adapter_err);
    check_folder(c, dir, adapter_dir);
    tern_adapter_close(adapter);
    tern_model_close(model);
}

/* From a folder, and from a GGUF file, whose heads may stand in another order. */
static void sums_of_files(void **state)
{
    (void)state;
    char dir[512];
    snprintf(dir, sizeof dir, "%s", test_scratch("hybrid-to-merge"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *fixture = test_fixture(cases[i].fixture);
        write_adapter(&cases[i], dir);
        check_merge(&cases[i], open_model(fixture), dir);
        check_merge(&cases[i], open_model(test_converted(fixture, "f32", "f32")), dir);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(sums_of_files)};

TEST_GROUP(merge_hybrids, "", tests);
