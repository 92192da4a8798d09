/* How a text becomes one vector: what folders and GGUF files say. */
#include <sys/stat.h>

#include "model/hf_cases.h"

static void pooling_file(const char *text)
{
    mkdir(test_scratch("hf"), 0777);
    mkdir(test_scratch("hf/1_Pooling"), 0777);
    test_write_file(test_scratch("hf/1_Pooling/config.json"), text, strlen(text));
}

static void is_read_and_kept(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        tern_config_pooling pooling;
    } cases[] = {{"{\"pooling_mode_lasttoken\": true, \"pooling_mode_mean_tokens\": false}", TERN_POOLS_LAST},
                 {"{\"pooling_mode_mean_tokens\": true}", TERN_POOLS_MEAN},
                 {"{\"pooling_mode_cls_token\": true}", TERN_POOLS_CLS},
                 {"{}", TERN_POOLS_UNSAID}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        folder f = {0};
        pooling_file(cases[i].text);
        tern_model *model = hf_open_folder(&f, LLAMA SMALL);
        assert_int_equal(tern_model_config(model)->pooling, cases[i].pooling);
        assert_ok(tern_model_write_gguf(model, test_scratch("pooling.gguf"), NULL, &hf_err), hf_err);
        tern_model_close(model);
        model = open_model(test_scratch("pooling.gguf"));
        assert_int_equal(tern_model_config(model)->pooling, cases[i].pooling);
        tern_model_close(model);
    }
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
        tern_status status;
    } cases[] = {
        {"{\"pooling_mode_max_tokens\": true}", "1_Pooling/config.json: pooling_mode_max_tokens: true found, one of",
         TERN_UNSUPPORTED},
        {"{\"pooling_mode_lasttoken\": true, \"pooling_mode_cls_token\": true}",
         "pooling_mode_cls_token: true found beside another", TERN_UNSUPPORTED},
        {"{\"pooling_mode_lasttoken\": 1}", "pooling_mode_lasttoken", TERN_MALFORMED},
        {"[", "1_Pooling/config.json", TERN_MALFORMED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        folder f = {0};
        tern_model *model = NULL;
        pooling_file(cases[i].text);
        const char *dir = hf_write_folder(&f, LLAMA SMALL);
        assert_int_equal(tern_model_open(&model, dir, NULL, &hf_err), cases[i].status);
        assert_null(model);
        if (!strstr(hf_err.message, cases[i].words)) fail_msg("%s: \"%s\" expected", hf_err.message, cases[i].words);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(is_read_and_kept),
    cmocka_unit_test(refusals),
};

TEST_GROUP(pooling, "", tests);
