/* A model whose weights are finite and whose logits are not: every command that runs it says which op is the first. */
#include <float.h>
#include <unistd.h>

#include "base/file.h"
#include "model/model.h"
#include "quant/weight.h"
#include "support/command.h"
#include "support/places.h"
#include "support/test.h"
#include "tern/bytes.h"

/* The bundled model with two weights of its last norm as large as f32 goes. */
static const char *broken_model(void)
{
    static char path[256];
    tern_error err = {0};
    tern_model *model;
    tern_buf bytes = {0};
    const char *from = TERN_SOURCE_DIR "/models/stories.gguf";
    if (path[0]) return path;
    assert_ok(tern_model_open(&model, from, NULL, &err), err);
    const tern_weight *norm = tern_model_weight(model, TERN_ROLE_OUTPUT_NORM, 0);
    assert_ok(tern_file_read(&bytes, from, 1 << 24, &err), err);
    uint8_t *at = memmem(bytes.data, bytes.size, norm->data, norm->bytes);
    assert_non_null(at);
    for (uint32_t i = 0; i < norm->cols; i++) memcpy(at + 4 * i, &(float){FLT_MAX}, 4);
    tern_model_close(model);
    snprintf(path, sizeof path, "%s", test_scratch("broken.gguf"));
    test_write_file(path, bytes.data, bytes.size);
    tern_buf_deinit(&bytes);
    return path;
}

static void check(test_output o)
{
    static const char words[] = "logits that are not finite: the first op that gives such numbers is rms_norm, which "
                                "makes result_norm (column ";
    if (o.code != 1 || !strstr(o.err, words)) fail_msg("exit status %d, %s", o.code, o.err);
    assert_null(strstr(o.out, "nan"));
    test_output_free(&o);
}

static void commands_name_the_op(void **state)
{
    (void)state;
    const char *m = broken_model(), *text = test_scratch("text.txt");
    test_write_file(text, "Once upon a time there was a cat.", 33);
    check(TERN("run", "-m", m, "-p", "Once", "-n", "9"));
    check(TERN("run", "-m", m, "-p", "Once", "-n", "9", "--head", "exact", "--json"));
    check(TERN("run", "-m", m, "-p", "Once", "-n", "9", "--draft", "ngram", "--temp", "0"));
    check(TERN("logits", "-m", m, "--ids", "1,2,3"));
    check(TERN("perplexity", "-m", m, text));
    check(TERN("perplexity", "-m", m, text, "--json"));
    check(TERN("bench", "-m", m, "-p", "8", "-n", "4", "-r", "1", "-t", "1"));
    unlink(text);
}

static void a_chat_says_so_too(void **state)
{
    (void)state;
    test_output o = test_tern("Hello\n", TERN_WORDS("chat", "-m", broken_model(), "--template", "chatml", "-n", "9"));
    if (!strstr(o.err, "rms_norm, which makes result_norm")) fail_msg("exit status %d, %s", o.code, o.err);
    test_output_free(&o);
}

static int teardown(void **state)
{
    (void)state;
    unlink(broken_model());
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(commands_name_the_op),
    cmocka_unit_test(a_chat_says_so_too),
};

TEST_GROUP(nonfinite_commands, "", tests, .teardown = teardown);
