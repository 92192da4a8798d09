/* Words of closed choices: each is the value that it names, and no other word is taken. */
#include "support/test.h"

#include "base/choice.h"

static const struct {
    tern_choice choice;
    const char *words[11];
} lists[] = {
    {TERN_CHOICE_BACKEND, {"cpu", "vulkan", "cuda", "webgpu", "auto"}},
    {TERN_CHOICE_FFN, {"auto", "dense", "sparse"}},
    {TERN_CHOICE_ACTIVATIONS, {"auto", "f32", "int8", "f16"}},
    {TERN_CHOICE_KV_TYPE, {"auto", "f16", "f32", "q8_0", "q4_0"}},
    {TERN_CHOICE_POOLING, {"last", "mean", "cls"}},
    {TERN_CHOICE_SPLIT, {"file", "blank", "line"}},
    {TERN_CHOICE_OPTIMIZER, {"adamw", "sgd"}},
    {TERN_CHOICE_SCHEDULE, {"cosine", "linear", "constant"}},
    {TERN_CHOICE_MASTER, {"f32", "bf16"}},
    {TERN_CHOICE_STATES, {"f32", "bf16", "8bit"}},
    {TERN_CHOICE_POWER, {"performance", "balanced", "saver"}},
    {TERN_CHOICE_SAMPLER_STEP,
     {"penalties", "dry", "top_n_sigma", "temperature", "top_k", "typical_p", "top_p", "min_p", "xtc", "infill"}},
    {TERN_CHOICE_PRECISION, {"f32", "bf16"}},
};

static void words_are_values(void **state)
{
    (void)state;
    tern_error err = {0};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        uint32_t value = 9, n = 0;
        assert_int_equal(lists[k].choice, k);
        for (; lists[k].words[n]; n++) {
            assert_string_equal(tern_choice_word(lists[k].choice, n), lists[k].words[n]);
            assert_ok(tern_choice_parse(lists[k].choice, lists[k].words[n], &value, &err), err);
            assert_int_equal(value, n);
            assert_ok(tern_choice_check(lists[k].choice, n, &err), err);
        }
        assert_null(tern_choice_word(lists[k].choice, n));
        assert_int_equal(tern_choice_check(lists[k].choice, n, &err), TERN_INVALID_ARGUMENT);
        assert_int_equal(tern_choice_check(lists[k].choice, UINT32_MAX, &err), TERN_INVALID_ARGUMENT);
        assert_ok(tern_choice_parse(lists[k].choice, NULL, &value, &err), err);
        assert_int_equal(value, 0);
    }
}

static void other_words_are_refused(void **state)
{
    (void)state;
    tern_error err = {0};
    uint32_t value = 9;
    const tern_choice none = (tern_choice)(sizeof lists / sizeof *lists);
    assert_int_equal(tern_choice_parse(TERN_CHOICE_FFN, "none", &value, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "ffn \"none\": \"auto\", \"dense\" or \"sparse\" expected");
    assert_int_equal(value, 0);
    assert_int_equal(tern_choice_parse(TERN_CHOICE_OPTIMIZER, "", &value, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "optimizer \"\": \"adamw\" or \"sgd\" expected");
    assert_int_equal(tern_choice_parse(none, "auto", &value, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_choice_parse(TERN_CHOICE_FFN, "auto", NULL, &err), TERN_INVALID_ARGUMENT);
    assert_null(tern_choice_word(none, 0));
    assert_int_equal(tern_choice_check(TERN_CHOICE_STATES, 3, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "option states is 3: 0 to 2 expected");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(words_are_values),
    cmocka_unit_test(other_words_are_refused),
};

TEST_GROUP(choice, "", tests);
