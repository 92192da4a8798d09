/* Models from scratch. */
#include <math.h>

#include "model/init.h"
#include "model/support.h"

static tern_error err;

static const char *config_file(const char *text)
{
    const char *path = test_scratch("init.json");
    test_write_text(path, text);
    return path;
}

static void test_small(void **state)
{
    (void)state;
    tern_init init;
    assert_ok(tern_init_read(&init,
                             config_file("{\"hidden_size\": 128, \"intermediate_size\": 384, "
                                         "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, "
                                         "\"num_key_value_heads\": 2, \"vocab_size\": 512}"),
                             &err),
              err);
    init.seed = 5;
    tern_master_source source = tern_init_source(&init);
    assert_ok(tern_hf_write(test_scratch("hf-init"), &init.config, NULL, &source, NULL, &err), err);
    tern_model *model = open_model(test_scratch("hf-init"));
    const tern_config *c = tern_model_config(model);
    assert_int_equal(c->head_dim, 32);
    assert_true(c->sub_norms && c->bit_linear && c->tied_head && c->activation == TERN_ACT_RELU2);
    assert_int_equal(c->n_ctx_train, 1024);
    static float x[384 * 128], row[128];
    assert_ok(tern_model_master(model, TERN_ROLE_FFN_UP, 1, 0, 384, x, &err), err);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < 384 * 128; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
        assert_true(fabsf(x[i]) <= 0.0696f);
    }
    assert_true(fabs(sum / (384 * 128)) < 3e-4);
    assert_true(fabs(sqrt(squares / (384 * 128)) - 0.02) < 3e-4);
    assert_ok(source.rows(source.context, TERN_ROLE_FFN_UP, 1, 200, 1, row, &err), err);
    for (size_t i = 0; i < 128; i++) assert_true(fabsf(row[i] - x[200 * 128 + i]) <= fabsf(row[i]) / 256);
    assert_ok(source.rows(source.context, TERN_ROLE_FFN_UP, 2, 200, 1, x, &err), err);
    assert_memory_not_equal(row, x, sizeof row);
    assert_ok(tern_model_master(model, TERN_ROLE_FFN_NORM, 2, 0, 1, x, &err), err);
    for (size_t i = 0; i < 128; i++) assert_true(x[i] == 1.0f);
    tern_model_close(model);
}

static void refused(const char *text, const char *expected)
{
    tern_init init;
    tern_status status = tern_init_read(&init, config_file(text), &err);
    assert_int_not_equal(status, TERN_OK);
    if (!strstr(err.message, expected)) fail_msg("\"%s\" expected in \"%s\"", expected, err.message);
}

static void test_refusals(void **state)
{
    (void)state;
    refused("[1]", "object");
    refused("{\"hidden_size\": 128}", "num_hidden_layers");
    refused("{\"hidden_size\": 130, \"intermediate_size\": 384, \"num_hidden_layers\": 3, \"num_attention_heads\": 4}",
            "num_attention_heads");
    refused("{\"hidden_size\": 128, \"intermediate_size\": 384, \"num_hidden_layers\": 3, \"num_attention_heads\": 4, "
            "\"initializer_range\": -1}",
            "initializer_range");
    tern_init init;
    assert_int_equal(tern_init_read(&init, "/no/such/file.json", &err), TERN_NOT_FOUND);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(test_small), cmocka_unit_test(test_refusals)};

TEST_GROUP(init, "", tests);
