/* A block that drafts tokens in files of both kinds: read when it is asked for, kept by conversions, else named. */
#include "format/gguf.h"
#include "format/gguf_parts.h"
#include "format/safetensors.h"
#include "model/support.h"
#include "model/write/hf.h"
#include "tern.h"

static tern_error err;

static tern_model *open_with(const char *path, bool mtp)
{
    tern_model *model;
    assert_ok(tern_model_open(&model, path, &(tern_model_options){.no_tokenizer = true, .mtp = mtp}, &err), err);
    return model;
}

static const char *converted(const char *from, const char *name, const char *type)
{
    const char *path = test_scratch(name);
    const tern_convert_options options = {.size = sizeof options, .type = type, .overwrite = true};
    assert_ok(tern_convert(from, path, &options, NULL, &err), err);
    return path;
}

/* Each tensor of the folder is in the other with the same bytes. */
static void check_folder(const char *got, const char *want)
{
    tern_safetensors *a, *b;
    assert_ok(tern_safetensors_open(&a, got, &err), err);
    assert_ok(tern_safetensors_open(&b, want, &err), err);
    assert_int_equal(tern_safetensors_count(a), tern_safetensors_count(b));
    for (size_t i = 0; i < tern_safetensors_count(b); i++) {
        const tern_st_tensor *t = tern_safetensors_at(b, i), *u = tern_safetensors_find(a, t->name);
        if (!u) fail_msg("%s: not written", t->name);
        assert_int_equal(u->bytes, t->bytes);
        /* norms are written as what is added to 1: f32 sums that bf16 rounds */
        if (t->n_dims > 1) assert_memory_equal(u->data, t->data, t->bytes);
    }
    tern_safetensors_close(a);
    tern_safetensors_close(b);
}

static void folder_and_back(void **state)
{
    (void)state;
    const char *gguf = converted(test_fixture("qwen3_5_mtp"), "mtp-there.gguf", NULL);
    tern_model *model = open_with(gguf, true);
    const tern_master_source source = tern_master_of_model(model);
    const char *dir = test_scratch("mtp-back");
    assert_int_equal(tern_model_config(model)->n_mtp, 1);
    assert_int_equal(tern_model_unused(model)->n, 0);
    assert_ok(tern_hf_write(dir, tern_model_config(model), NULL, &source, NULL, &err), err);
    tern_model_close(model);
    check_folder(dir, test_fixture("qwen3_5_mtp"));
    model = open_with(dir, true);
    assert_int_equal(tern_model_config(model)->n_mtp, 1);
    tern_model_close(model);
}

static uint32_t number_of(const tern_gguf *g, const char *key)
{
    uint32_t n = 0;
    assert_ok(tern_gguf_get_u32(g, key, &n, &err), err);
    return n;
}

/* llama.cpp's names and keys; a second conversion changes no byte. */
static void gguf_twice(void **state)
{
    (void)state;
    static const char *const names[] = {"nextn.eh_proj", "nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm",
                                        "attn_norm",     "attn_q",      "ffn_down",    "post_attention_norm"};
    char first[512];
    snprintf(first, sizeof first, "%s", converted(test_fixture("qwen3_5_mtp"), "mtp-first.gguf", "q8_0"));
    tern_gguf_file a, b;
    assert_ok(tern_gguf_file_open(&a, first, &err), err);
    assert_ok(tern_gguf_file_open(&b, converted(first, "mtp-second.gguf", NULL), &err), err);
    assert_int_equal(number_of(a.gguf, "qwen35.block_count"), 6);
    assert_int_equal(number_of(a.gguf, "qwen35.nextn_predict_layers"), 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.5.%s.weight", names[i]);
        assert_non_null(tern_gguf_find_tensor(a.gguf, name));
    }
    assert_int_equal(tern_gguf_find_tensor(a.gguf, "blk.5.nextn.eh_proj.weight")->cols, 256);
    assert_int_equal(tern_gguf_n_tensors(a.gguf), tern_gguf_n_tensors(b.gguf));
    for (size_t i = 0; i < tern_gguf_n_tensors(a.gguf); i++) {
        const tern_gguf_tensor *t = tern_gguf_tensor_at(a.gguf, i), *u = tern_gguf_tensor_at(b.gguf, i);
        assert_int_equal(t->bytes, u->bytes);
        assert_memory_equal(t->data, u->data, t->bytes);
    }
    tern_gguf_file_close(&a);
    tern_gguf_file_close(&b);
}

static void left_out(void **state)
{
    (void)state;
    tern_model *model = open_with(test_fixture("qwen3_5_mtp"), false);
    assert_null(tern_model_mtp(model));
    assert_int_equal(tern_model_config(model)->n_mtp, 0);
    assert_int_equal(tern_model_unused(model)->n, 15);
    assert_non_null(strstr(tern_model_unused(model)->names, "mtp."));
    tern_model_close(model);
    model = open_with(converted(test_fixture("qwen3_5_mtp"), "mtp-out.gguf", NULL), false);
    assert_int_equal(tern_model_unused(model)->n, 15);
    assert_non_null(strstr(tern_model_unused(model)->names, "blk.5."));
    tern_model_close(model);
    model = open_with(test_fixture("qwen3_5"), true);
    assert_null(tern_model_mtp(model));
    tern_model_close(model);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(folder_and_back), cmocka_unit_test(gguf_twice),
                                          cmocka_unit_test(left_out)};
TEST_GROUP(mtp_files, "", tests);
