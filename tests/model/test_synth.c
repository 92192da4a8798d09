/* Random models: valid files with the promised shapes, the same for the same seed. */
#include <math.h>

#include "base/file.h"
#include "base/rng.h"
#include "model/hadamard.h"
#include "model/support.h"
#include "model/synth/internal.h"
#include "text/tokenizer/tokenizer.h"

static void write_synth(const char *path, const char *linear, const char *head, uint64_t seed)
{
    tern_error err = {0};
    tern_synth_options options = {.preset = "bitnet-tiny", .seed = seed};
    if (linear) options.linear = tern_encoding_by_name(linear);
    if (head) options.head = tern_encoding_by_name(head);
    assert_ok(tern_synth_write(path, &options, &err), err);
}

static void opens(void **state)
{
    (void)state;
    const char *path = test_scratch("synth.gguf");
    write_synth(path, NULL, NULL, 1);
    tern_model *model = open_model(path);
    const tern_config *c = tern_model_config(model);
    assert_string_equal(c->architecture, "bitnet-b1.58");
    assert_string_equal(c->name, "bitnet-tiny");
    assert_int_equal(c->n_vocab, 512);
    assert_true(c->tied_head && c->sub_norms);
    assert_int_equal(tern_model_weight(model, TERN_ROLE_TOKEN_EMBD, 0)->encoding->id, TERN_ENC_F16);
    const tern_weight *w = tern_model_weight(model, TERN_ROLE_FFN_UP, 1);
    assert_int_equal(w->encoding->id, TERN_ENC_I2_S);
    int8_t *codes = codes_of(w);
    size_t n[3] = {0}, total = (size_t)w->rows * w->cols;
    for (size_t i = 0; i < total; i++) n[codes[i] + 1]++;
    for (int i = 0; i < 3; i++) assert_in_range(n[i], total * 32 / 100, total * 35 / 100);
    free(codes);
    tern_model_close(model);
}

/* Of gates that see random inputs that share is at most 0. */
static void gates_are_closed(void **state)
{
    (void)state;
    tern_error err = {0};
    const char *path = test_scratch("synth-gates.gguf");
    for (float share = 0.75f; share <= 1; share += 0.25f) {
        const tern_synth_options options = {.preset = "bitnet-tiny", .seed = 5, .closed_gates = share};
        assert_ok(tern_synth_write(path, &options, &err), err);
        tern_model *model = open_model(path);
        const tern_weight *w = tern_model_weight(model, TERN_ROLE_FFN_GATE, 1);
        int8_t *codes = codes_of(w);
        tern_rng rng = {9};
        uint32_t closed = 0, all = 0;
        for (int input = 0; input < 8; input++) {
            float x[256];
            for (int i = 0; i < 256; i++) x[i] = tern_rng_f32(&rng) - 0.5f;
            for (uint32_t r = 0; r < w->rows; r++, all++) {
                float gate = 0;
                for (uint32_t i = 0; i < 256; i++) gate += (float)codes[r * 256 + i] * x[i];
                closed += gate <= 0;
            }
        }
        if (!(fabsf((float)closed / (float)all - share) < 0.03f)) fail_msg("%u of %u are closed", closed, all);
        free(codes);
        tern_model_close(model);
    }
}

static void refuses_gates(void **state)
{
    (void)state;
    static const struct {
        const char *preset;
        float share;
        tern_status status;
        const char *words;
    } cases[] = {
        {"bitnet-tiny", 0.3f, TERN_INVALID_ARGUMENT, "closed gates 0.3: 0.5 to 1 expected"},
        {"bitnet-tiny", NAN, TERN_INVALID_ARGUMENT, "closed gates nan: 0.5 to 1 expected"},
        {"bitnet-700m", 0.75f, TERN_UNSUPPORTED, "closed gates in bitnet-700m: its activation is silu"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_error err = {0};
        const tern_synth_options options = {.preset = cases[i].preset, .closed_gates = cases[i].share};
        assert_int_equal(tern_synth_write(test_scratch("no-gates.gguf"), &options, &err), cases[i].status);
        if (!strstr(err.message, cases[i].words)) fail_msg("'%s' is not in '%s'", cases[i].words, err.message);
    }
}

static void vocabulary_encodes(void **state)
{
    (void)state;
    tern_error err = {0};
    const char *path = test_scratch("synth-vocab.gguf");
    const char text[] = "To eat or not \xc3\xa9 <|eot_id|>\n\x01";
    write_synth(path, NULL, NULL, 1);
    tern_model *model = open_model(path);
    const tern_tokenizer *t = tern_model_tokenizer(model);
    assert_non_null(t);
    assert_int_equal(tern_tokenizer_size(t), 512);
    assert_int_equal(tern_tokenizer_bos(t), 496);
    assert_int_equal(tern_tokenizer_eos(t), 497);
    assert_true(tern_tokenizer_adds_bos(t));
    assert_true(tern_token_is_end(t, tern_token_find(t, "<|eot_id|>", 10)));
    tern_tokens plain = {0}, special = {0};
    tern_buf back = {0};
    assert_ok(tern_tokenize(t, text, sizeof text - 1, false, &plain, &err), err);
    assert_ok(tern_tokenize(t, text, sizeof text - 1, true, &special, &err), err);
    assert_true(special.n < plain.n && plain.n < sizeof text - 1); /* a special token; merges */
    assert_ok(tern_detokenize(t, plain.ids, plain.n, false, &back, &err), err);
    assert_int_equal(back.size, sizeof text - 1);
    assert_memory_equal(back.data, text, back.size);
    tern_buf_deinit(&back);
    tern_tokens_deinit(&plain);
    tern_tokens_deinit(&special);
    tern_model_close(model);
}

/* Other programs take the number of tokens for that of the table's rows. */
static void large_tables_have_a_token_for_each_row(void **state)
{
    (void)state;
    tern_error err = {0};
    const char *path = test_scratch("synth-large.gguf");
    const tern_synth_options options = {.preset = "gemma3-270m",
                                        .layers = 1,
                                        .linear = tern_encoding_by_name("q1_0"),
                                        .head = tern_encoding_by_name("q1_0")};
    assert_ok(tern_synth_write(path, &options, &err), err);
    tern_model *model = open_model(path);
    assert_int_equal(tern_model_config(model)->n_vocab, 262144);
    assert_int_equal(tern_tokenizer_size(tern_model_tokenizer(model)), 262144);
    tern_model_close(model);
}

static void dense_presets_stay_dense(void **state)
{
    (void)state;
    tern_error err = {0};
    const tern_synth_options options = {.preset = "gemma3-270m", .layers = 1, .linear = tern_encoding_by_name("tq2_0")};
    assert_int_not_equal(tern_synth_write(test_scratch("synth-dense.gguf"), &options, &err), TERN_OK);
    assert_string_equal(err.message, "blk.0.attn_q.weight: f16 weights into tq2_0: the model was not trained for it");
}

/* The seed decides the codes, the encoding does not. */
static void same_model_in_every_encoding(void **state)
{
    (void)state;
    static const char *const encodings[] = {"tq1_0", "tq2_0", "t160"};
    write_synth(test_scratch("synth-i2_s.gguf"), "i2_s", NULL, 7);
    tern_model *first = open_model(test_scratch("synth-i2_s.gguf"));
    for (size_t i = 0; i < 3; i++) {
        write_synth(test_scratch("synth-other.gguf"), encodings[i], "q6_k", 7);
        tern_model *other = open_model(test_scratch("synth-other.gguf"));
        const tern_weight *a = tern_model_weight(first, TERN_ROLE_FFN_DOWN, 1);
        const tern_weight *b = tern_model_weight(other, TERN_ROLE_FFN_DOWN, 1);
        assert_same_codes(a, b);
        assert_float_equal(a->scale, b->scale, 0);
        assert_string_equal(b->encoding->name, encodings[i]);
        assert_int_equal(tern_model_weight(other, TERN_ROLE_OUTPUT, 0)->encoding->id, TERN_ENC_Q6_K);
        tern_model_close(other);
    }
    tern_model_close(first);
}

static tern_buf file_of_seed(uint64_t seed)
{
    tern_error err = {0};
    tern_buf bytes = {0};
    write_synth(test_scratch("synth-seed.gguf"), NULL, NULL, seed);
    assert_ok(tern_file_read(&bytes, test_scratch("synth-seed.gguf"), 1 << 26, &err), err);
    return bytes;
}

static void seed_decides(void **state)
{
    (void)state;
    tern_buf a = file_of_seed(3), b = file_of_seed(3), c = file_of_seed(4);
    assert_int_equal(a.size, b.size);
    assert_int_equal(a.size, c.size);
    assert_memory_equal(a.data, b.data, a.size);
    assert_memory_not_equal(a.data, c.data, a.size);
    tern_buf_deinit(&a);
    tern_buf_deinit(&b);
    tern_buf_deinit(&c);
}

/* Published sizes, in millions of parameters of layers and of the table. */
static void presets_are_sound(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t millions;
        bool ternary;
    } presets[] = {{"bitnet-2b4t", 2412, true},  {"bitnet-700m", 728, true},  {"bitnet-3b", 3324, true},
                   {"falcon3-10b", 10305, true}, {"llama3-8b", 8030, true},   {"llama3.2-1b", 1235, false},
                   {"qwen3-0.6b", 596, false},   {"gemma3-270m", 268, false}, {"gemma3-1b", 999, false},
                   {"gemma3-4b", 3880, false},   {"bitnet-tiny", 1, true}};
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        tern_error err = {0};
        tern_config config;
        bool ternary;
        assert_ok(tern_synth__preset(presets[i].name, &config, &ternary, &err), err);
        assert_ok(tern_config__check(&config, &err), err);
        assert_true(ternary == presets[i].ternary && strstr(TERN_SYNTH_PRESETS, presets[i].name));
        uint64_t n = 0;
        tern_role_walk walk = {0};
        while (tern_role__next(&walk, &config)) {
            uint32_t rows, cols;
            tern_role__shape(walk.role, walk.layer, &config, &rows, &cols);
            n += (uint64_t)rows * cols;
        }
        if (n / 1000000 != presets[i].millions)
            fail_msg("%s: %llu parameters, %u million expected", presets[i].name, (unsigned long long)n,
                     presets[i].millions);
    }
}

/* Bonsai 2's: the inputs of all matrices but those of a token's rates, and the head's; the table back. */
static void rotated_presets(void **state)
{
    (void)state;
    static const char *const names[] = {"bonsai2-9b", "bonsai2-27b"};
    tern_error err = {0};
    const char *path = test_scratch("synth-rotated.gguf");
    tern_model *model;
    const tern_synth_options options = {.preset = "bonsai2-tiny", .seed = 3, .layers = 4};
    assert_ok(tern_synth_write(path, &options, &err), err);
    assert_ok(tern_model_open(&model, path, NULL, &err), err);
    const tern_hadamard *h = tern_model_hadamard(model);
    assert_non_null(h);
    assert_int_equal(h->block, 64);
    assert_true(h->embedding);
    assert_int_equal(h->n_inputs, 3 * 6 + 7 + 1); /* qkv, gate, out and three of the FFN; q, k, v, o and three; head */
    assert_true(tern_hadamard_rotates(h, TERN_ROLE_OUTPUT, 0));
    assert_false(tern_hadamard_rotates(h, TERN_ROLE_SSM_ALPHA, 0));
    assert_non_null(tern_hadamard_signs_of(h, 512));
    tern_model_close(model);
    remove(path);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tern_config config;
        bool ternary;
        assert_ok(tern_synth__preset(names[i], &config, &ternary, &err), err);
        assert_ok(tern_config__check(&config, &err), err);
        assert_true(ternary && !config.tied_head);
        assert_int_equal(tern_synth__rotation_block(names[i]), 1024);
    }
    assert_int_equal(tern_synth__rotation_block("bonsai-27b"), 0);
}

static void unknown_preset(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_synth_options options = {.preset = "bitnet-9t"};
    assert_int_equal(tern_synth_write(test_scratch("synth-no.gguf"), &options, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "bitnet-9t"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(opens),
    cmocka_unit_test(gates_are_closed),
    cmocka_unit_test(refuses_gates),
    cmocka_unit_test(vocabulary_encodes),
    cmocka_unit_test(dense_presets_stay_dense),
    cmocka_unit_test(rotated_presets),
    cmocka_unit_test(same_model_in_every_encoding),
    cmocka_unit_test(seed_decides),
    cmocka_unit_test(large_tables_have_a_token_for_each_row),
    cmocka_unit_test(presets_are_sound),
    cmocka_unit_test(unknown_preset),
};

TEST_GROUP(synth, "", tests);
