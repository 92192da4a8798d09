/* Generation: golden text, stop conditions, streaming, context shift, speculation, allocations. */
#include "infer/support.h"

#include "base/alloc.h"
#include "format/json.h"

enum { MAX_BYTES = 1 << 20 };

typedef struct fixture {
    tern_engine *engine;
    tern_session *session;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->engine = open_trained(1);
    f->session = open_session(f->engine, (tern_session_params){.n_ctx = 512, .kv_f32 = true, .max_outputs = 9});
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    tern_session_close(f->session);
    tern_engine_close(f->engine);
    free(f);
    return 0;
}

static void check_golden(tern_session *session, const char *prompt, const json_t *golden)
{
    const json_t *ids = json_object_get(golden, "ids");
    const char *text = json_string_value(json_object_get(golden, "text")); /* prompt included */
    uint32_t n = (uint32_t)json_array_size(ids);
    seen s = {0};
    tern_generate_params params = greedy_params(&s, 64);
    tern_generate_result result = generate(session, prompt, &params);
    assert_int_equal(result.n_prompt + result.n_generated, n);
    assert_int_equal(tern_session_n_tokens(session), n);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(tern_session_tokens(session)[i], json_number_value(json_array_get(ids, i)));
    assert_string_equal(s.text.data, text + strlen(prompt));
    assert_int_equal(result.reason, TERN_STOP_LENGTH);
    forget(&s);
}

static void golden_text(void **state)
{
    fixture *f = *state;
    tern_error err = {0};
    json_t *root;
    assert_ok(tern_json_read(&root, test_model("tiny-stories-bitnet/golden_greedy.json"), MAX_BYTES, &err), err);
    const char *prompt;
    json_t *golden;
    json_object_foreach(root, prompt, golden) check_golden(f->session, prompt, golden);
    tern_json_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_text),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
