/* A file with a tensor that nothing uses: what runs it says so in one line, inspect in one more. */
#include <unistd.h>

#include "support/command.h"
#include "support/micro_model.h"
#include "support/test.h"

static const char line[] = "1 tensor is not used: blk.7.attn_q.weight\n";

static void it_is_said(void **state)
{
    (void)state;
    tern_buf bytes = micro_model(&(micro_change){.seed = 1, .extra = "blk.7.attn_q.weight", .extra_cols = 16});
    const char *path = test_scratch("unused.gguf");
    test_write_file(path, bytes.data, bytes.size);
    tern_buf_deinit(&bytes);
    test_output o = TERN("logits", "-m", path, "--ids", "1,2");
    assert_int_equal(o.code, 0);
    assert_int_equal(o.n_out, 2 * 8 * 4);
    assert_non_null(strstr(o.err, line));
    test_output_free(&o);
    o = TERN("inspect", path);
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "unused         1 of the tensors: blk.7.attn_q.weight\n"));
    test_output_free(&o);
    json_t *json = test_tern_json(TERN_WORDS("inspect", path, "--json"));
    assert_int_equal(json_integer_value(json_object_get(json, "unused_tensors")), 1);
    json_decref(json);
    unlink(path);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_said)};

TEST_GROUP(unused_commands, "", tests);
