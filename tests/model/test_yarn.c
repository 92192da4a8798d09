/* YaRN's frequencies (arXiv:2309.00071) against numbers from plain arithmetic in double precision. */
#include <math.h>

#include "model/support.h"
#include "support/micro_model.h"

/* Python: base ** (-2 i / 64), kept or divided by 32 or between them as the paper's ramp says, of GPT-OSS's published
 * numbers (base 150000, factor 32, 4096 positions, 32 and 1 turns), the bounds of the ramp between pairs and whole. */
static void between(double low, double high, double *out)
{
    for (int i = 0; i < 32; i++) {
        const double plain = pow(150000.0, -2.0 * i / 64), at = ((double)i - low) / (high - low);
        const double ramp = at < 0 ? 0 : at > 1 ? 1 : at;
        out[i] = plain * (1 - ramp) + plain / 32 * ramp;
    }
}

static void frequencies(void **state)
{
    (void)state;
    tern_rope rope = {.base = 150000.0f,
                      .scaling = TERN_ROPE_YARN,
                      .factor = 32.0f,
                      .original_ctx = 4096,
                      .beta_fast = 32.0f,
                      .beta_slow = 1.0f};
    double wanted[32];
    float freq[32];
    for (int truncate = 0; truncate < 2; truncate++) {
        rope.truncate = truncate;
        /* 64 ln(4096 / (2 pi turns)) / (2 ln 150000) of 32 turns and of 1 */
        if (truncate) between(8, 18, wanted);
        else between(8.092779115512402, 17.39802450158856, wanted);
        tern_rope_frequencies(&rope, 64, freq);
        for (int i = 0; i < 32; i++)
            if (!(fabs((double)freq[i] / wanted[i] - 1) < 1e-5))
                fail_msg("pair %d: %g found, %g expected", i, (double)freq[i], wanted[i]);
    }
    assert_float_equal(tern_yarn_size(32.0f, 1.0f), 1.3465736f, 1e-6);
    assert_float_equal(tern_yarn_size(1.0f, 1.0f), 1.0f, 0);
}

/* Cosines and sines of the pairs that are turned have a size, others none. */
static void sizes(void **state)
{
    (void)state;
    const tern_config config = {.head_dim = 16,
                                .rope_dim = 8,
                                .rope[0] = {.base = 100.0f,
                                            .scaling = TERN_ROPE_YARN,
                                            .factor = 4.0f,
                                            .original_ctx = 8,
                                            .beta_fast = 4.0f,
                                            .beta_slow = 1.0f,
                                            .size = 1.25f}};
    float freq[8], size[8];
    tern_rope_pairs(&config, 0, 64, freq, size);
    for (int i = 0; i < 8; i++) {
        assert_float_equal(size[i], i < 4 ? 1.25f : 1.0f, 0);
        assert_int_equal(freq[i] > 0, i < 4);
    }
}

/* Linear scaling under each key that llama.cpp reads, with and without a type (llama-model.cpp, load_hparams). */
static void linear_keys(void **state)
{
    static const struct {
        micro_change change;
        tern_rope_scaling scaling;
        float factor;
    } cases[] = {{{.key = "rope.scale_linear", .f32 = 2}, TERN_ROPE_LINEAR, 2},
                 {{.key = "rope.scaling.factor", .f32 = 4}, TERN_ROPE_LINEAR, 4},
                 {{.key = "rope.scaling.factor", .f32 = 1}, TERN_ROPE_PLAIN, 0},
                 {{.key = "rope.scaling.type", .string = "linear"}, TERN_ROPE_PLAIN, 0},
                 {{.key = "rope.scaling.type", .string = "none"}, TERN_ROPE_PLAIN, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_error err = {0};
        tern_model *model;
        tern_buf bytes = micro_model(&cases[i].change);
        assert_ok(tern_model_open_memory(&model, bytes.data, bytes.size, NULL, &err), err);
        const tern_rope *rope = &tern_model_config(model)->rope[0];
        assert_int_equal(rope->scaling, cases[i].scaling);
        if (cases[i].factor > 0) assert_float_equal(rope->factor, cases[i].factor, 0);
        tern_model_close(model);
        tern_buf_deinit(&bytes);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(linear_keys), cmocka_unit_test(frequencies),
                                          cmocka_unit_test(sizes)};

TEST_GROUP(yarn, "", tests);
