/* I2_S files of other programs: found by their weights, refused by name, converted on request; random ones are let
 * through. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"
#include "format/gguf.h"
#include "model/package/package.h"
#include "model/support.h"
#include "support/i2s_order.h"
#include "support/places.h"

static tern_error err;

/* Both trained models as I2_S files: one trained with PyTorch, one by Tern. */
static const char *trained(int i)
{
    static char path[1200];
    if (i) return TERN_SOURCE_DIR "/models/stories.gguf";
    snprintf(path, sizeof path, "%s", test_scratch("i2s-trained.gguf"));
    tern_model *model = open_model(test_model("tiny-stories-bitnet"));
    assert_ok(tern_model_write_gguf(model, path, NULL, &err), err);
    tern_model_close(model);
    return path;
}

static tern_status open_with(tern_model **model, const tern_buf *bytes, const char *order)
{
    const tern_model_options options = {.i2s_order = order, .no_tokenizer = true};
    err = (tern_error){0};
    return tern_model_open_memory(model, bytes->data, bytes->size, &options, &err);
}

static void assert_same_layers(const tern_model *a, const tern_model *b)
{
    for (uint32_t layer = 0; layer < tern_model_config(a)->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_weight *x = tern_model_weight(a, (tern_role)role, layer);
            const tern_weight *y = tern_model_weight(b, (tern_role)role, layer);
            if (!x->encoding || !x->encoding->ternary) continue;
            assert_same_codes(x, y);
            assert_float_equal(x->scale, y->scale, 0);
        }
}

static void trained_models_are_told(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *path = trained(i);
        tern_model *plain = open_model(path), *model;
        for (size_t o = 1; o < TEST_I2S_ORDERS; o++) {
            char words[64];
            const char *order = test_i2s_orders[o];
            tern_buf bytes = test_i2s_file(path, order);
            int64_t live = tern_alloc_live();
            assert_int_equal(open_with(&model, &bytes, NULL), TERN_UNSUPPORTED);
            assert_int_equal(tern_alloc_live(), live);
            snprintf(words, sizeof words, "in the order \"%s\" (", order);
            if (!strstr(err.message, words)) fail_msg("'%s' is not in '%s'", words, err.message);
            assert_non_null(strstr(err.message, "tern convert --i2s-order"));
            double z = 0; /* twice what is asked for, so that other trained models have room */
            assert_int_equal(sscanf(strstr(err.message, "agree with it by"), "agree with it by %lf", &z), 1);
            assert_true(z >= 8);
            const char *const asked[] = {order, "auto"};
            for (size_t k = 0; k < 2; k++) {
                assert_ok(open_with(&model, &bytes, asked[k]), err);
                assert_same_layers(plain, model);
                tern_model_close(model);
            }
            assert_ok(open_with(&model, &bytes, "x86"), err); /* as a person says */
            tern_model_close(model);
            tern_buf_deinit(&bytes);
        }
        tern_model_close(plain);
    }
}

/* What an opened file in Tern's own order looks like to the judge: nothing comes near it. */
static void ours_is_found_by_auto(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *path = trained(i);
        tern_model *plain = open_model(path), *model;
        tern_buf bytes = test_i2s_file(path, "x86");
        assert_ok(open_with(&model, &bytes, "auto"), err);
        assert_same_layers(plain, model);
        tern_model_close(model);
        tern_buf_deinit(&bytes);
        tern_model_close(plain);
    }
}

/* A file of pieces with other gains: all norms random. */
static void randomise_norms(tern_buf *bytes, uint64_t seed)
{
    tern_gguf *g = NULL;
    tern_rng rng = {seed};
    assert_ok(tern_gguf_parse(&g, bytes->data, bytes->size, &err), err);
    for (size_t i = 0; i < tern_gguf_n_tensors(g); i++) {
        const tern_gguf_tensor *t = tern_gguf_tensor_at(g, i);
        for (uint64_t k = 0; t->type == TERN_ENC_F32 && k < t->cols; k++)
            tern_store_f32((uint8_t *)bytes->data + t->offset + 4 * k, 0.5f + tern_rng_f32(&rng));
    }
    tern_gguf_close(g);
}

/* Whatever order random weights are written in, with gains of 1 or random ones: no evidence, no refusal. Trained
 * weights behind random norms neither. */
static void random_weights_are_let_through(void **state)
{
    (void)state;
    char path[1200];
    snprintf(path, sizeof path, "%s", test_scratch("i2s-synth.gguf"));
    for (uint64_t seed = 1; seed <= 40; seed++) {
        tern_model *model;
        assert_ok(tern_synth_write(path, &(tern_synth_options){.preset = "bitnet-tiny", .seed = seed}, &err), err);
        tern_buf bytes = test_i2s_file(seed % 4 ? path : trained(0), test_i2s_orders[seed % TEST_I2S_ORDERS]);
        if (seed % 2 == 0) randomise_norms(&bytes, seed);
        if (open_with(&model, &bytes, NULL) != TERN_OK) fail_msg("seed %u: %s", (unsigned)seed, err.message);
        tern_model_close(model);
        tern_buf_deinit(&bytes);
    }
}

static void write_bytes(const char *path, const tern_buf *bytes)
{
    tern_file_writer w;
    assert_ok(tern_file_writer_open(&w, path, &err), err);
    tern_file_writer_add(&w, bytes->data, bytes->size);
    assert_ok(tern_file_writer_commit(&w, &err), err);
}

/* A person has said that the codes are right as they are: the file that is written says so too, and is opened. */
static void what_is_stated_stays(void **state)
{
    (void)state;
    tern_model *model, *again;
    char path[1200];
    snprintf(path, sizeof path, "%s", test_scratch("i2s-stated.gguf"));
    tern_buf bytes = test_i2s_file(trained(0), "arm");
    assert_ok(open_with(&model, &bytes, "x86"), err);
    assert_ok(tern_model_write_gguf(model, path, NULL, &err), err);
    again = open_model(path);
    assert_same_layers(model, again);
    tern_model_close(again);
    tern_model_close(model);
    assert_ok(open_with(&model, &bytes, "auto"), err); /* found, not stated: judged again */
    assert_ok(tern_model_write_gguf(model, path, NULL, &err), err);
    tern_model_close(model);
    tern_buf_deinit(&bytes);
    bytes = test_i2s_file(path, "lsb");
    assert_int_equal(open_with(&model, &bytes, NULL), TERN_UNSUPPORTED);
    tern_buf_deinit(&bytes);
}

/* No package is made of them. */
static void packages_are_refused(void **state)
{
    (void)state;
    tern_buf bytes = test_i2s_file(trained(1), "arm");
    const char *path = test_scratch("i2s-arm.gguf"), *dir = test_scratch("i2s-package");
    write_bytes(path, &bytes);
    assert_int_equal(tern_package_write(path, dir, NULL, &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "in the order \"arm\""));
    tern_buf_deinit(&bytes);
}

static void wrong_orders(void **state)
{
    (void)state;
    tern_model *model = NULL;
    tern_buf bytes = test_i2s_file(trained(0), "x86");
    assert_int_equal(open_with(&model, &bytes, "mips"), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "order of i2_s \"mips\": one of x86"));
    tern_buf_deinit(&bytes);
    const tern_model_options arm = {.i2s_order = "arm"};
    assert_int_equal(tern_model_open(&model, test_model("tiny-stories-bitnet"), &arm, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "GGUF files alone"));
    const tern_export_options t160 = {.linear = tern_encoding_by_name("t160")};
    model = open_model(trained(0));
    assert_ok(tern_model_write_gguf(model, test_scratch("i2s-none.gguf"), &t160, &err), err);
    tern_model_close(model);
    model = NULL;
    assert_int_equal(tern_model_open(&model, test_scratch("i2s-none.gguf"), &arm, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "order of i2_s \"arm\": no i2_s tensor found"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(trained_models_are_told),        cmocka_unit_test(ours_is_found_by_auto),
    cmocka_unit_test(random_weights_are_let_through), cmocka_unit_test(what_is_stated_stays),
    cmocka_unit_test(packages_are_refused),           cmocka_unit_test(wrong_orders),
};

TEST_GROUP(i2s_order, "", tests);
