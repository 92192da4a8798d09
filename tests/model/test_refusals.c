/* GGUF models that must be refused, with words that say what is wrong; and sound ones that look odd. */
#include <math.h>

#include "base/alloc.h"
#include "model/support.h"
#include "support/micro_model.h"

typedef struct refusal {
    micro_change change;
    tern_status status;
    const char *words;
} refusal;

static const refusal refusals[] = {
    {{.architecture = "qwen2"}, TERN_UNSUPPORTED, "general.architecture: \"qwen2\" found, bitnet-b1.58"},
    {{.drop = "embedding_length"}, TERN_NOT_FOUND, "bitnet-b1.58.embedding_length"},
    {{.drop = "block_count"}, TERN_NOT_FOUND, "bitnet-b1.58.block_count"},
    {{.drop = "feed_forward_length"}, TERN_NOT_FOUND, "bitnet-b1.58.feed_forward_length"},
    {{.drop = "attention.head_count"}, TERN_NOT_FOUND, "bitnet-b1.58.attention.head_count"},
    {{.drop = "context_length", .architecture = "llama"}, TERN_NOT_FOUND, "llama.context_length"},
    {{.key = "vocab_size", .value = 9}, TERN_MALFORMED, "token_embd.weight: 8 rows of 16 found, 9 rows of 16 expected"},
    {{.key = "vocab_size", .value = UINT32_MAX}, TERN_LIMIT, "vocabulary: 4294967295 found"},
    {{.key = "embedding_length", .value = 0}, TERN_LIMIT, "embedding length: 0 found"},
    {{.key = "embedding_length", .value = UINT32_MAX}, TERN_LIMIT, "embedding length: 4294967295 found"},
    {{.key = "embedding_length", .value = 32},
     TERN_MALFORMED,
     "token_embd.weight: 8 rows of 16 found, 8 rows of 32 expected"},
    {{.key = "block_count", .value = 0}, TERN_LIMIT, "layers: 0 found"},
    {{.key = "block_count", .value = UINT32_MAX - 1}, TERN_LIMIT, "layers: 4294967294 found"},
    {{.key = "block_count", .value = 2}, TERN_MALFORMED, "blk.1.attn_norm.weight: no such tensor found"},
    {{.key = "attention.head_count", .value = 0}, TERN_MALFORMED, "attention.head_count: 0 found"},
    {{.key = "attention.head_count", .value = 3},
     TERN_UNSUPPORTED,
     "head dimension: 5 found, a multiple of 8 expected"},
    {{.key = "attention.head_count_kv", .value = 0}, TERN_LIMIT, "KV heads: 0 found"},
    {{.key = "attention.head_count_kv", .value = 4}, TERN_MALFORMED, "2 heads and 4 KV heads found"},
    {{.key = "attention.key_length", .value = 1024}, TERN_LIMIT, "head dimension: 1024 found"},
    {{.key = "rope.dimension_count", .value = 4},
     TERN_UNSUPPORTED,
     "rope.dimension_count: 4 found, the head dimension 8 expected"},
    {{.key = "rope.scaling.type", .string = "yarn"}, TERN_UNSUPPORTED, "rope.scaling.type: \"yarn\" found"},
    {{.key = "expert_count", .value = 8}, TERN_UNSUPPORTED, "bitnet-b1.58.expert_count: 8 found, 0 expected"},
    {{.key = "context_length", .value = 0}, TERN_LIMIT, "context length: 0 found"},
    {{.key = "context_length", .string = "long"}, TERN_MALFORMED, "bitnet-b1.58.context_length"},
    {{.key = "attention.layer_norm_rms_epsilon", .f32 = NAN}, TERN_MALFORMED, "epsilon: nan found"},
    {{.key = "attention.layer_norm_rms_epsilon", .f32 = -1}, TERN_MALFORMED, "epsilon: -1 found"},
    {{.key = "rope.freq_base", .f32 = INFINITY}, TERN_MALFORMED, "RoPE base: inf found"},
    {{.drop = "token_embd.weight"}, TERN_MALFORMED, "token_embd.weight: no such tensor found"},
    {{.drop = "output_norm.weight"}, TERN_MALFORMED, "output_norm.weight: no such tensor found"},
    {{.drop = "blk.0.ffn_down.weight"}, TERN_MALFORMED, "blk.0.ffn_down.weight: no such tensor found"},
    {{.drop = "blk.0.ffn_sub_norm.weight"}, TERN_MALFORMED, "blk.0.ffn_sub_norm.weight: no such tensor found"},
    {{.tensor = "blk.0.attn_k.weight", .rows = 16},
     TERN_MALFORMED,
     "blk.0.attn_k.weight: 16 rows of 16 found, 8 rows of 16"},
    {{.tensor = "blk.0.attn_norm.weight", .cols = 15}, TERN_MALFORMED, "blk.0.attn_norm.weight: 1 rows of 15 found"},
    {{.tensor = "blk.0.attn_norm.weight", .type = 36, .cols = 16, .rows = 8}, TERN_MALFORMED, "blk.0.attn_norm.weight"},
    {{.tensor = "token_embd.weight", .type = 36}, TERN_UNSUPPORTED, "token_embd.weight: i2_s found"},
    {{.tensor = "blk.0.ffn_up.weight", .at = 3, .n = 1, .bytes = {0x03}},
     TERN_MALFORMED,
     "blk.0.ffn_up.weight: i2_s: found code 11 at element 99 (row 6, column 3)"},
    {{.tensor = "blk.0.ffn_up.weight", .at = 64, .n = 4, .bytes = {0, 0, 0xc0, 0x7f}},
     TERN_MALFORMED,
     "blk.0.ffn_up.weight: scale"},
    {{.tensor = "blk.0.ffn_up.weight", .at = 64, .n = 4, .bytes = {0, 0, 0x80, 0xff}},
     TERN_MALFORMED,
     "blk.0.ffn_up.weight: scale"},
    {{.tensor = "output_norm.weight", .at = 4, .n = 4, .bytes = {0, 0, 0xc0, 0x7f}},
     TERN_MALFORMED,
     "output_norm.weight"},
    {{.tensor = "token_embd.weight", .at = 8, .n = 4, .bytes = {0, 0, 0x80, 0x7f}},
     TERN_MALFORMED,
     "token_embd.weight"},
    {{.extra = "blk.0.attn_q.bias", .extra_cols = 16},
     TERN_UNSUPPORTED,
     "blk.0.attn_q.bias: found, a model without biases"},
    {{.extra = "blk.0.attn_q.scale", .extra_cols = 3},
     TERN_MALFORMED,
     "blk.0.attn_q.scale: 3 values found, 1 or one for each of 16"},
    {{.extra = "rope_freqs.weight", .extra_cols = 5},
     TERN_MALFORMED,
     "rope_freqs.weight: 1 x 5 found, 4 values expected"},
    {{.extra = "output.weight", .extra_cols = 16},
     TERN_MALFORMED,
     "output.weight: 1 rows of 16 found, 8 rows of 16 expected"},
    /* tq2_0: the first block's codes stay, its scale becomes 0 or another one than that of the second block of its row.
     */
    {{.width = 512, .tensor = "blk.0.ffn_up.weight", .type = 35, .at = 64, .n = 2, .bytes = {0, 0x40}},
     TERN_UNSUPPORTED,
     "blk.0.ffn_up.weight: several scales found in row 0"},
    {{.width = 256, .tensor = "blk.0.ffn_up.weight", .type = 35, .at = 64, .n = 2, .bytes = {0, 0}},
     TERN_UNSUPPORTED,
     "blk.0.ffn_up.weight: several scales found in row 0"},
    {{.width = 256, .tensor = "blk.0.ffn_up.weight", .type = 35, .at = 64, .n = 2, .bytes = {0, 0x7c}},
     TERN_MALFORMED,
     "blk.0.ffn_up.weight"},
};

static void assert_refused(const refusal *r)
{
    tern_error err = {0};
    tern_buf bytes = micro_model(&r->change);
    int64_t live = tern_alloc_live();
    tern_model *model = NULL;
    tern_status status = tern_model_open_memory(&model, bytes.data, bytes.size, NULL, &err);
    if (!strstr(err.message, r->words)) fail_msg("'%s' is not in '%s'", r->words, err.message);
    assert_int_equal(status, r->status);
    assert_int_equal(err.code, r->status);
    assert_null(model);
    assert_int_equal(tern_alloc_live(), live);
    tern_buf_deinit(&bytes);
}

static void table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) assert_refused(&refusals[i]);
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
    model = open_micro(&(micro_change){.architecture = "bitnet", .drop = "blk.0.attn_sub_norm.weight"}, &bytes);
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
        {"attention.layer_norm_rms_epsilon", 1e-5f, 10000.0f, 64},
        {"rope.freq_base", 1e-5f, 500000.0f, 64},
        {"context_length", 1e-5f, 10000.0f, 4096},
        {"vocab_size", 1e-5f, 10000.0f, 64},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tern_model *model = open_micro(&(micro_change){.drop = rows[i].drop}, &bytes);
        assert_float_equal(tern_model_config(model)->rms_eps, rows[i].eps, 0);
        assert_float_equal(tern_model_config(model)->rope_base, rows[i].base, 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(sound),
        cmocka_unit_test(older_bitnet),
        cmocka_unit_test(defaults),
        cmocka_unit_test(scale_tensors_multiply),
        cmocka_unit_test(block_scales_by_row),
        cmocka_unit_test(row_scales_round_trip),
        cmocka_unit_test(truncated),
        cmocka_unit_test(errors_may_be_null),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
