/* Folders of models of several parts: the text model is read, under both spellings of its tensors. */
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "format/safetensors.h"
#include "model/support.h"

enum { MOST = 128 };

static tern_error err;

/* "language_model.model." as transformers has written it since 4.52, where `within`. */
static void name_of(const char *name, bool within, char *out, size_t n)
{
    static const char before[] = "language_model.model.";
    const bool text = strncmp(name, before, strlen(before)) == 0;
    if (!within || !text) snprintf(out, n, "%s%s", within ? "model." : "", name);
    else snprintf(out, n, "model.language_model.%s", name + strlen(before));
}

/* A copy of the folder with one tensor more (NULL: none). */
static const char *copy(bool within, const char *config, const char *extra)
{
    static const float zeros[8];
    tern_safetensors *st;
    tern_st_tensor tensors[MOST];
    char names[MOST][96];
    const char *dir = test_scratch("parts");
    mkdir(dir, 0777);
    assert_ok(tern_safetensors_open(&st, test_made("gemma3-parts"), &err), err);
    size_t n = tern_safetensors_count(st);
    assert_true(n < MOST);
    for (size_t i = 0; i < n; i++) {
        tensors[i] = *tern_safetensors_at(st, i);
        name_of(tensors[i].name, within, names[i], sizeof names[i]);
        tensors[i].name = names[i];
    }
    if (extra)
        tensors[n++] = (tern_st_tensor){.name = extra,
                                        .dtype = TERN_ST_F32,
                                        .n_dims = 1,
                                        .dims = {8},
                                        .n_elements = 8,
                                        .bytes = sizeof zeros,
                                        .data = (const uint8_t *)zeros};
    char path[512];
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_ok(tern_safetensors_write(path, tensors, n, NULL, &err), err);
    snprintf(path, sizeof path, "%s/config.json", dir);
    test_write_file(path, config, strlen(config));
    tern_safetensors_close(st);
    return dir;
}

static tern_buf config_text(void)
{
    tern_buf text = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/config.json", test_made("gemma3-parts"));
    assert_ok(tern_file_read(&text, path, 1 << 20, &err), err);
    assert_ok(tern_buf_add(&text, "", 1, &err), err);
    return text;
}

static void both_spellings(void **state)
{
    (void)state;
    tern_buf config = config_text();
    tern_model *a = open_model(test_made("gemma3-parts"));
    tern_model *b = open_model(copy(true, (const char *)config.data, NULL));
    assert_int_equal(tern_model_unused(a)->n, 2);
    assert_int_equal(tern_model_unused(b)->n, 2);
    assert_non_null(strstr(tern_model_unused(a)->names, "vision_tower."));
    assert_non_null(strstr(tern_model_unused(b)->names, "model.vision_tower."));
    assert_int_equal(tern_model_parameters(a), tern_model_parameters(b));
    for (uint32_t layer = 0; layer < 7; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_weight *x = tern_model_weight(a, (tern_role)role, layer),
                              *y = tern_model_weight(b, (tern_role)role, layer);
            assert_int_equal(x->bytes, y->bytes);
            if (x->bytes) assert_memory_equal(x->data, y->data, x->bytes);
        }
    tern_model_close(a);
    tern_model_close(b);
    tern_buf_deinit(&config);
}

/* What transformers' Gemma3TextConfig has and the folder does not say. */
static void defaults(void **state)
{
    (void)state;
    tern_model *model = open_model(test_made("gemma3-parts"));
    const tern_config *c = tern_model_config(model);
    assert_float_equal(c->rms_eps, 1e-6f, 0);
    assert_float_equal(c->rope[0].base, 1e6f, 0);
    assert_float_equal(c->rope[0].factor, 8.0f, 0);
    assert_int_equal(c->rope[1].scaling, TERN_ROPE_PLAIN);
    assert_float_equal(c->rope[1].base, 1e4f, 0);
    assert_int_equal(c->full_period, 6);
    tern_model_close(model);
}

static void refuse(bool within, const char *config, const char *extra, tern_status status, const char *words)
{
    tern_model *model = NULL;
    assert_int_equal(tern_model_open(&model, copy(within, config, extra), NULL, &err), status);
    if (!strstr(err.message, words)) fail_msg("'%s' is not in '%s'", words, err.message);
    assert_null(model);
}

static void refusals(void **state)
{
    (void)state;
    tern_buf config = config_text();
    static const char *const unknown[] = {"language_model.model.layers.0.mlp.extra.weight",
                                          "model.language_model.layers.0.mlp.extra.weight"};
    for (int i = 0; i < 2; i++) refuse(i, (const char *)config.data, unknown[i], TERN_UNSUPPORTED, unknown[i]);
    refuse(false, "{\"architectures\": [\"Gemma3ForConditionalGeneration\"]}", NULL, TERN_NOT_FOUND, "text_config");
    refuse(false, "{\"architectures\": [\"Gemma3ForConditionalGeneration\"], \"text_config\": 3}", NULL, TERN_MALFORMED,
           "text_config: number found");
    tern_buf_deinit(&config);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(both_spellings),
    cmocka_unit_test(defaults),
    cmocka_unit_test(refusals),
};

TEST_GROUP(hf_parts, "", tests);
