/* Adapters merged into weights, and the report, against the same computed here. */
#include <math.h>

#include "model/adapter/merge.h"
#include "model/support.h"
#include "support/converted.h"

static tern_error err;

static tern_adapter *adapter_of(const tern_model *model, float strength)
{
    tern_adapter *adapter = NULL;
    const tern_adapter_layer targets[] = {{TERN_ROLE_ATTN_Q, 0}, {TERN_ROLE_FFN_DOWN, 1}};
    assert_ok(tern_adapter_make(&adapter, model, &(tern_adapter_info){.rank = 2, .alpha = 3}, targets, 2, &err), err);
    for (int i = 0; i < 2; i++) {
        const tern_adapter_pair *pair = tern_adapter_find(adapter, targets[i].role, targets[i].layer);
        for (uint32_t k = 0; k < 2 * pair->in; k++) pair->a[k] = strength * sinf((float)k * 0.7f);
        for (uint32_t k = 0; k < 2 * pair->out; k++) pair->b[k] = cosf((float)k * 0.3f);
    }
    return adapter;
}

/* Element (r, c) of s B A. */
static double delta(const tern_adapter *adapter, tern_role role, uint32_t layer, uint32_t r, uint32_t c)
{
    const tern_adapter_pair *p = tern_adapter_find(adapter, role, layer);
    double sum = 0;
    for (uint32_t k = 0; k < 2; k++) sum += (double)p->b[r * 2 + k] * (double)p->a[k * p->in + c];
    return sum * 1.5;
}

static tern_model *merged_of(tern_merge *merge)
{
    tern_model *merged = NULL;
    const tern_master_source source = tern_merge_source(merge);
    const tern_derivation how = {.has = tern_merge_has, .context = merge, .source = &source};
    assert_ok(tern_model_derive(&merged, merge->base, &how, &err), err);
    return merged;
}

/* Dense: what is wanted is what comes out. */
static void test_dense(void **state)
{
    (void)state;
    tern_model *model = open_model(test_fixture("llama"));
    tern_adapter *one = adapter_of(model, 0.1f);
    const tern_merge_item items[] = {{one, 1}, {one, -0.5f}};
    tern_merge merge = {model, items, 2};
    tern_model *merged = merged_of(&merge);
    float *before = values_of(tern_model_weight(model, TERN_ROLE_FFN_DOWN, 1)),
          *after = values_of(tern_model_weight(merged, TERN_ROLE_FFN_DOWN, 1));
    const tern_weight *w = tern_model_weight(model, TERN_ROLE_FFN_DOWN, 1);
    for (uint32_t r = 0; r < w->rows; r++)
        for (uint32_t c = 0; c < w->cols; c++) {
            double want = (double)before[r * w->cols + c] + 0.5 * delta(one, TERN_ROLE_FFN_DOWN, 1, r, c);
            assert_true(fabs((double)after[r * w->cols + c] - want) <= fabs(want) / 256 + 1e-7);
        }
    tern_merge_change change;
    assert_ok(tern_merge_look(&merge, merged, TERN_ROLE_FFN_DOWN, 1, &change, &err), err);
    assert_true(change.kept > 0.999 && change.kept < 1.0001);
    assert_false(change.ternary);
    assert_int_equal(change.n, (uint64_t)w->rows * w->cols);
    assert_int_equal(tern_merge_look(&merge, merged, TERN_ROLE_FFN_UP, 1, &change, &err), TERN_INVALID_ARGUMENT);
    free(before);
    free(after);
    tern_model_close(merged);
    tern_adapter_close(one);
    tern_model_close(model);
}

/* Ternary, from bf16 masters: codes and numbers as computed here. */
static void check_ternary(float strength, double least, double most)
{
    tern_model *model = open_model(test_fixture("bitnet-train"));
    tern_adapter *one = adapter_of(model, strength);
    const tern_merge_item item = {one, 1};
    tern_merge merge = {model, &item, 1};
    tern_model *merged = merged_of(&merge);
    const tern_weight *w = tern_model_weight(model, TERN_ROLE_ATTN_Q, 0),
                      *v = tern_model_weight(merged, TERN_ROLE_ATTN_Q, 0);
    size_t n = (size_t)w->rows * w->cols, n_changed = 0;
    float *masters = malloc(n * sizeof *masters), scale;
    assert_ok(tern_model_master(model, TERN_ROLE_ATTN_Q, 0, 0, w->rows, masters, &err), err);
    int8_t *before = codes_of(w), *after = codes_of(v), *want = malloc(n);
    double wanted = 0, achieved = 0, product = 0;
    for (size_t i = 0; i < n; i++)
        masters[i] += (float)delta(one, TERN_ROLE_ATTN_Q, 0, (uint32_t)(i / w->cols), (uint32_t)(i % w->cols));
    tern_ternarise(masters, n, want, &scale);
    for (size_t i = 0; i < n; i++) {
        double d = delta(one, TERN_ROLE_ATTN_Q, 0, (uint32_t)(i / w->cols), (uint32_t)(i % w->cols)),
               a = (double)after[i] * (double)v->scale - (double)before[i] * (double)w->scale;
        n_changed += before[i] != after[i];
        wanted += d * d;
        achieved += a * a;
        product += a * d;
    }
    assert_memory_equal(after, want, n);
    assert_true(v->scale == scale);
    tern_merge_change change;
    assert_ok(tern_merge_look(&merge, merged, TERN_ROLE_ATTN_Q, 0, &change, &err), err);
    assert_true(change.ternary);
    assert_int_equal(change.n_changed, n_changed);
    assert_true(change.scale_before == w->scale && change.scale_after == scale);
    assert_true(fabs(change.wanted / sqrt(wanted) - 1) < 1e-6);
    assert_true(fabs(change.achieved / sqrt(achieved) - 1) < 1e-5);
    assert_true(fabs(change.kept - product / sqrt(wanted * achieved)) < 1e-5);
    if (!(change.kept >= least && change.kept <= most))
        fail_msg("kept %g, %g to %g expected", change.kept, least, most);
    assert_same_codes(tern_model_weight(model, TERN_ROLE_ATTN_K, 0), tern_model_weight(merged, TERN_ROLE_ATTN_K, 0));
    free(masters);
    free(before);
    free(after);
    free(want);
    tern_model_close(merged);
    tern_adapter_close(one);
    tern_model_close(model);
}

static void test_ternary(void **state)
{
    (void)state;
    check_ternary(0.002f, 0.02, 0.7); /* little of little is kept, */
    check_ternary(1.0f, 0.8, 1);      /* most of much */
}

/* A file of codes, with nothing added: the same codes and the same scale. */
static void test_codes(void **state)
{
    (void)state;
    tern_model *model = open_model(test_small_model());
    tern_adapter *one = adapter_of(model, 0);
    const tern_merge_item item = {one, 1};
    tern_merge merge = {model, &item, 1};
    tern_model *merged = merged_of(&merge);
    tern_merge_change change;
    assert_ok(tern_merge_look(&merge, merged, TERN_ROLE_ATTN_Q, 0, &change, &err), err);
    assert_int_equal(change.n_changed, 0);
    assert_true(fabsf(change.scale_after / change.scale_before - 1) < 1e-6f);
    assert_true(change.kept == 0 && change.wanted == 0);
    tern_model_close(merged);
    tern_adapter_close(one);
    tern_model_close(model);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(test_dense), cmocka_unit_test(test_ternary),
                                          cmocka_unit_test(test_codes)};

TEST_GROUP(merge, "", tests);
