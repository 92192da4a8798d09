/* Where something may be written: never over an input, by whatever name, and over other things only when told so. */
#include "support/test.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/output.h"

static char root[600];

/* A path under a folder of this test; static storage, eight calls deep. */
static const char *in(const char *name)
{
    static char path[8][1200];
    static size_t next;
    char *out = path[next++ % 8];
    snprintf(out, sizeof path[0], "%s/%s", root, name);
    return out;
}

static int setup(void **state)
{
    char command[700];
    (void)state;
    snprintf(root, sizeof root, "%s", test_scratch("output"));
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    assert_int_equal(system(command), 0);
    static const char *const folders[] = {"", "model", "model/deep", "empty", "full", "blobs"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) assert_int_equal(mkdir(in(folders[i]), 0777), 0);
    test_write_text(in("data.txt"), "data");
    test_write_text(in("old.gguf"), "old");
    test_write_text(in("none.gguf"), "");
    test_write_text(in("blobs/1"), "weights");
    test_write_text(in("model/config.json"), "{}");
    test_write_text(in("model/model.gguf"), "made of it");
    test_write_text(in("model/deep/data.txt"), "data");
    test_write_text(in("full/notes"), "mine");
    assert_int_equal(symlink("../blobs/1", in("model/model.safetensors")), 0);
    assert_int_equal(symlink("data.txt", in("link.txt")), 0);
    assert_int_equal(link(in("data.txt"), in("hard.txt")), 0);
    return 0;
}

/* What the check says, "" when it lets the output pass. */
static const char *said(const char *path, bool folder, const char *model, const char *input, bool overwrite)
{
    static tern_error err;
    const char *const inputs[] = {NULL, input};
    const tern_output output = {
        .path = path, .folder = folder, .model = model, .inputs = inputs, .n_inputs = 2, .overwrite = overwrite};
    err = (tern_error){0};
    const tern_status status = tern_output_check(&output, &err);
    assert_int_equal(status, *err.message ? TERN_INVALID_ARGUMENT : TERN_OK);
    return err.message;
}

static void assert_said(const char *words, const char *message)
{
    if (*words ? !strstr(message, words) : *message != 0) fail_msg("\"%s\": \"%s\" expected", message, words);
}

static void inputs_are_never_replaced(void **state)
{
    static const char same[] = "input and output are the same file";
    (void)state;
    assert_said(same, said(in("data.txt"), false, NULL, in("data.txt"), true));
    assert_said(same, said(in("link.txt"), false, NULL, in("data.txt"), true));
    assert_said(same, said(in("data.txt"), false, NULL, in("link.txt"), true));
    assert_said(same, said(in("hard.txt"), false, NULL, in("data.txt"), true));
    assert_said(same, said(in("model/../data.txt"), false, in("data.txt"), NULL, true));
    assert_said("input and output are the same folder", said(in("model"), true, in("model"), NULL, true));
    assert_said("model holds the input ", said(in("model"), true, in("model/config.json"), NULL, true));
    /* Devices hold nothing. */
    assert_said("", said("/dev/null", false, "/dev/null", "/dev/null", false));
}

static void folders_that_hold_an_input_are_not_written_to(void **state)
{
    (void)state;
    assert_said("model holds the input ", said(in("model"), true, NULL, in("model/deep/data.txt"), true));
    assert_said("model holds the input ", said(in("model"), true, NULL, in("model/model.safetensors"), true));
    assert_said("blobs holds the input ", said(in("blobs"), true, NULL, in("model/model.safetensors"), true));
    assert_said("", said(in("full"), true, in("model"), in("data.txt"), true));
}

static void files_of_an_input_folder_are_not_replaced(void **state)
{
    static const char words[] = " is a file of the input ";
    (void)state;
    assert_said(words, said(in("model/config.json"), false, in("model"), NULL, true));
    assert_said(words, said(in("blobs/1"), false, NULL, in("model"), true));
    assert_said(words, said(in("blobs/1"), false, in("model/config.json"), NULL, true));
    assert_said("", said(in("blobs/1"), false, NULL, in("model/config.json"), true));
    assert_said("", said(in("model/model.gguf"), false, in("model"), NULL, true));
    assert_said("", said(in("model/new.gguf"), false, in("model"), NULL, false));
}

static void what_is_there_stays(void **state)
{
    (void)state;
    assert_said("old.gguf exists: --overwrite replaces it", said(in("old.gguf"), false, NULL, NULL, false));
    assert_said("full exists and is not empty", said(in("full"), true, NULL, NULL, false));
    assert_said("full is a folder: a file expected", said(in("full"), false, NULL, NULL, true));
    assert_said("old.gguf is a file: a folder expected", said(in("old.gguf"), true, NULL, NULL, true));
    assert_said("", said(in("old.gguf"), false, NULL, NULL, true));
    assert_said("", said(in("full"), true, NULL, NULL, true));
    assert_said("", said(in("none.gguf"), false, NULL, NULL, false));
    assert_said("", said(in("empty"), true, NULL, NULL, false));
    assert_said("", said(in("new"), true, in("data.txt"), NULL, false));
    assert_said("", said("/dev/null", false, NULL, NULL, false));
}

static void files_of_the_writer_go_on(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_output output = {.path = in("log.txt"), .ours = "{\"time\":"};
    test_write_text(output.path, "");
    assert_ok(tern_output_check(&output, &err), err);
    test_write_text(output.path, "{\"time\":1}\n");
    assert_ok(tern_output_check(&output, &err), err);
    for (size_t i = 0; i < 2; i++) {
        test_write_text(output.path, i ? "{\"tim" : "x{\"time\":1}\n");
        assert_int_equal(tern_output_check(&output, &err), TERN_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "was not written for this"));
    }
    unlink(output.path);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(files_of_the_writer_go_on),
    cmocka_unit_test(inputs_are_never_replaced),
    cmocka_unit_test(folders_that_hold_an_input_are_not_written_to),
    cmocka_unit_test(files_of_an_input_folder_are_not_replaced),
    cmocka_unit_test(what_is_there_stays),
};

TEST_GROUP(output, "", tests, .setup = setup);
