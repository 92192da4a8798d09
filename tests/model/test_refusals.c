/* GGUF models that must be refused, with words that say what is wrong; and sound ones that look odd. */
#include "base/alloc.h"
#include "base/file.h"
#include "format/gguf.h"
#include "model/support.h"
#include "support/micro_refusals.h"

static void refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < micro_n_refusals; i++) {
        tern_error err = {0};
        tern_buf bytes = micro_model(&micro_refusals[i].change);
        int64_t live = tern_alloc_live();
        tern_model *model = NULL;
        tern_status status = tern_model_open_memory(&model, bytes.data, bytes.size, NULL, &err);
        assert_micro_refused(&micro_refusals[i], status, &err);
        assert_null(model);
        assert_int_equal(tern_alloc_live(), live);
        tern_buf_deinit(&bytes);
    }
}

static tern_model *open_micro(const micro_change *change, tern_buf *bytes)
{
    tern_error err = {0};
    tern_model *model = NULL;
    *bytes = micro_model(change);
    assert_ok(tern_model_open_memory(&model, bytes->data, bytes->size, NULL, &err), err);
    assert_int_equal(err.code, TERN_OK);
    return model;
}

static void close_micro(tern_model *model, tern_buf *bytes)
{
    tern_model_close(model);
    tern_buf_deinit(bytes);
}

static void sound(void **state)
{
    (void)state;
    tern_buf bytes;
    tern_model *model = open_micro(&(micro_change){0}, &bytes);
    const tern_weight *w = tern_model_weight(model, TERN_ROLE_ATTN_Q, 0);
    assert_float_equal(w->scale, 0.5f, 0);
    assert_false(w->mapped);
    assert_true(w->data > (const uint8_t *)bytes.data && w->data < (const uint8_t *)bytes.data + bytes.size);
    close_micro(model, &bytes);
}

/* The older bitnet graph: SiLU, sub-norms only when they are there. */
static void older_bitnet(void **state)
{
    (void)state;
    tern_buf bytes;
    tern_model *model = open_micro(&(micro_change){.architecture = "bitnet"}, &bytes);
    assert_int_equal(tern_model_config(model)->activation, TERN_ACT_SILU);
    assert_true(tern_model_config(model)->sub_norms);
    close_micro(model, &bytes);
    model = open_micro(&(micro_change){.architecture = "bitnet", .drop = "_sub_norm.weight"}, &bytes);
    assert_false(tern_model_config(model)->sub_norms);
    assert_null(tern_model_weight(model, TERN_ROLE_FFN_SUB_NORM, 0)->encoding);
    close_micro(model, &bytes);
}

static void defaults(void **state)
{
    (void)state;
    tern_buf bytes;
    static const struct {
        const char *drop;
        float eps, base;
        uint32_t n_ctx;
    } rows[] = {
        {"attention.layer_norm_rms_epsilon", 1e-5f, 10000.0f, 128},
        {"rope.freq_base", 1e-5f, 500000.0f, 128},
        {"context_length", 1e-5f, 10000.0f, 4096},
        {"vocab_size", 1e-5f, 10000.0f, 128},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tern_model *model = open_micro(&(micro_change){.drop = rows[i].drop}, &bytes);
        assert_float_equal(tern_model_config(model)->rms_eps, rows[i].eps, 0);
        assert_float_equal(tern_model_config(model)->rope[0].base, rows[i].base, 0);
        assert_int_equal(tern_model_config(model)->n_ctx_train, rows[i].n_ctx);
        assert_int_equal(tern_model_config(model)->n_vocab, 8);
        close_micro(model, &bytes);
    }
}

static void scale_tensors_multiply(void **state)
{
    (void)state;
    tern_buf bytes;
    tern_model *model = open_micro(&(micro_change){.extra = "blk.0.ffn_up.scale", .extra_cols = 1}, &bytes);
    const tern_weight *w = tern_model_weight(model, TERN_ROLE_FFN_UP, 0);
    assert_null(w->row_scales);
    assert_float_equal(w->scale, 0.5f, 0);
    close_micro(model, &bytes);
    model = open_micro(&(micro_change){.extra = "blk.0.ffn_up.scale", .extra_cols = 16}, &bytes);
    w = tern_model_weight(model, TERN_ROLE_FFN_UP, 0);
    assert_non_null(w->row_scales);
    for (int r = 0; r < 16; r++) assert_float_equal(w->row_scales[r], 0.5f, 0);
    close_micro(model, &bytes);
}

/* A row of tq2_0 with a scale of its own: 2.0 in row 1 of 256, 0.5 elsewhere. */
static void block_scales_by_row(void **state)
{
    (void)state;
    tern_buf bytes;
    micro_change change = {
        .width = 256, .tensor = "blk.0.ffn_up.weight", .type = 35, .at = 66 + 64, .n = 2, .bytes = {0, 0x40}};
    tern_model *model = open_micro(&change, &bytes);
    const tern_weight *w = tern_model_weight(model, TERN_ROLE_FFN_UP, 0);
    assert_non_null(w->row_scales);
    assert_float_equal(w->row_scales[0], 0.5f, 0);
    assert_float_equal(w->row_scales[1], 2.0f, 0);
    assert_float_equal(w->row_scales[255], 0.5f, 0);
    close_micro(model, &bytes);
}

static bool has_tensor(const char *path, const char *name)
{
    tern_error err = {0};
    tern_buf bytes = {0};
    tern_gguf *g = NULL;
    assert_ok(tern_file_read(&bytes, path, 1 << 24, &err), err);
    assert_ok(tern_gguf_parse(&g, bytes.data, bytes.size, &err), err);
    const bool found = tern_gguf_find_tensor(g, name) != NULL;
    tern_gguf_close(g);
    tern_buf_deinit(&bytes);
    return found;
}

/* Row scales survive being written, in every ternary encoding. */
static void row_scales_round_trip(void **state)
{
    (void)state;
    static const char *const encodings[] = {"i2_s", "tq1_0", "tq2_0", "t160"};
    tern_buf bytes;
    tern_error err = {0};
    micro_change change = {
        .width = 256, .tensor = "blk.0.ffn_up.weight", .type = 35, .at = 66 + 64, .n = 2, .bytes = {0, 0x40}};
    tern_model *model = open_micro(&change, &bytes);
    const tern_weight *a = tern_model_weight(model, TERN_ROLE_FFN_UP, 0);
    for (size_t i = 0; i < 4; i++) {
        tern_export_options options = {.linear = tern_encoding_by_name(encodings[i])};
        assert_ok(tern_model_write_gguf(model, test_scratch("row-scales.gguf"), &options, &err), err);
        tern_model *back = open_model(test_scratch("row-scales.gguf"));
        const tern_weight *b = tern_model_weight(back, TERN_ROLE_FFN_UP, 0);
        assert_same_codes(a, b);
        assert_non_null(b->row_scales);
        assert_memory_equal(a->row_scales, b->row_scales, 256 * sizeof(float));
        tern_model_close(back);
    }
    close_micro(model, &bytes);
}

/* A row's scale that no f16 holds: rounded in its blocks, exact in metadata, and no tensor of scales beside them. */
static void row_scales_are_exact(void **state)
{
    (void)state;
    static const char *const encodings[] = {"tq1_0", "tq2_0", "t160"};
    tern_buf bytes;
    tern_error err = {0};
    micro_change change = {.width = 256,
                           .extra = "blk.0.ffn_up.scale",
                           .extra_cols = 256,
                           .tensor = "blk.0.ffn_up.scale",
                           .at = 4,
                           .n = 4,
                           .bytes = {0xcd, 0xcc, 0xcc, 0x3d}};
    tern_model *model = open_micro(&change, &bytes);
    const tern_weight *a = tern_model_weight(model, TERN_ROLE_FFN_UP, 0);
    assert_float_equal(a->row_scales[1], 0.05f, 1e-8f);
    for (size_t i = 0; i < 3; i++) {
        tern_export_options options = {.linear = tern_encoding_by_name(encodings[i])};
        const char *path = test_scratch("row-scales.gguf");
        tern_export_report report = {0};
        options.report = &report;
        assert_ok(tern_model_write_gguf(model, path, &options, &err), err);
        assert_int_equal(report.own, i == 2 ? 1u << TERN_OWN_ENCODING | 1u << TERN_OWN_SCALES : 0);
        tern_model *back = open_model(path);
        const tern_weight *b = tern_model_weight(back, TERN_ROLE_FFN_UP, 0);
        assert_same_codes(a, b);
        assert_memory_equal(a->row_scales, b->row_scales, 256 * sizeof(float));
        assert_int_equal(has_tensor(path, "blk.0.ffn_up.scale"), i == 2);
        tern_model_close(back);
    }
    close_micro(model, &bytes);
}

static void truncated(void **state)
{
    (void)state;
    tern_buf bytes = micro_model(&(micro_change){0});
    int64_t live = tern_alloc_live();
    for (size_t n = 0; n + 32 < bytes.size; n += 64) {
        tern_error err = {0};
        tern_model *model = NULL;
        assert_int_not_equal(tern_model_open_memory(&model, bytes.data, n, NULL, &err), TERN_OK);
        assert_true(err.message[0] != 0);
    }
    assert_int_equal(tern_alloc_live(), live);
    tern_buf_deinit(&bytes);
}

static void errors_may_be_null(void **state)
{
    (void)state;
    tern_model *model = NULL;
    tern_buf bytes = micro_model(&(micro_change){.drop = "blk.0.ffn_up.weight"});
    assert_int_equal(tern_model_open_memory(&model, bytes.data, bytes.size, NULL, NULL), TERN_MALFORMED);
    assert_int_equal(tern_model_open(&model, test_scratch("no such file"), NULL, NULL), TERN_NOT_FOUND);
    tern_buf_deinit(&bytes);
}

static bool never(void *context, float done)
{
    (void)context;
    (void)done;
    return false;
}

static void cancelled(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_model *model = NULL;
    tern_buf bytes = micro_model(&(micro_change){0});
    tern_model_options options = {.progress = never};
    assert_int_equal(tern_model_open_memory(&model, bytes.data, bytes.size, &options, &err), TERN_CANCELLED);
    tern_buf_deinit(&bytes);
}

/* Every allocation of an opening fails once: a clean error, or none where the memory was not needed, and nothing is
 * left behind. Returns in how many of 100 cases there was no error. */
static unsigned sweep_failures(const char *path, const tern_model_options *options)
{
    tern_error err = {0};
    tern_model *model = NULL;
    uint64_t before = tern_alloc_count();
    assert_ok(tern_model_open(&model, path, options, &err), err);
    tern_model_close(model);
    uint64_t n = tern_alloc_count() - before, n_spared = 0;
    int64_t live = tern_alloc_live();
    assert_true(n > 10);
    for (uint64_t i = 1; i <= n; i++) {
        tern_alloc_fail_after(i, false);
        tern_status status = tern_model_open(&model, path, options, &err);
        tern_alloc_fail_after(0, false);
        n_spared += status == TERN_OK;
        if (status != TERN_OK && status != TERN_OUT_OF_MEMORY) fail_msg("allocation %u: %s", (unsigned)i, err.message);
        assert_int_equal(!model, status != TERN_OK);
        tern_model_close(model);
        assert_int_equal(tern_alloc_live(), live);
    }
    return (unsigned)(n_spared * 100 / n);
}

static void allocation_failures(void **state)
{
    (void)state;
    tern_error err = {0};
    const tern_model_options no_tokenizer = {.no_tokenizer = true, .no_check = true};
    const char *path = test_scratch("alloc-model.gguf");
    assert_ok(tern_synth_write(path, &(tern_synth_options){.preset = "bitnet-tiny"}, &err), err);
    assert_int_equal(sweep_failures(path, &no_tokenizer), 0);
    assert_true(sweep_failures(path, NULL) <
                25); /* compiling the pre-tokenizer's pattern to machine code is optional */
    assert_int_equal(sweep_failures(test_fixture("bitnet-packed"), &no_tokenizer), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(refused),
    cmocka_unit_test(sound),
    cmocka_unit_test(older_bitnet),
    cmocka_unit_test(defaults),
    cmocka_unit_test(scale_tensors_multiply),
    cmocka_unit_test(block_scales_by_row),
    cmocka_unit_test(row_scales_round_trip),
    cmocka_unit_test(row_scales_are_exact),
    cmocka_unit_test(truncated),
    cmocka_unit_test(errors_may_be_null),
    cmocka_unit_test(cancelled),
    cmocka_unit_test(allocation_failures),
};

TEST_GROUP(refusals, "", tests);
