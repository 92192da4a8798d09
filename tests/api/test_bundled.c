/* The model that comes with Tern: small, and it tells a story that remembers who it is about. */
#include <sys/stat.h>

#include "api/support.h"
#include "support/places.h"

#define PATH TERN_SOURCE_DIR "/models/stories.gguf"

static int times(const char *text, const char *word)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word)) n++;
    return n;
}

static void tell(tern_engine *engine, const char *name, const char *thing)
{
    tern_error err = {0};
    char prompt[256];
    shown s = {0};
    snprintf(prompt, sizeof prompt, "Once upon a time there was a little girl named %s. %s had a %s,", name, name,
             thing);
    tern_session *session = open_session(engine, (tern_session_params){.size = sizeof(tern_session_params)});
    tern_tokens tokens = tokens_of(engine, prompt, TERN_TOKENIZE_BOS);
    tern_generate_params params = greedy(&s, 300);
    tern_generate_result result = {.size = sizeof result};
    assert_ok(tern_generate(session, tokens.ids, (uint32_t)tokens.n, &params, &result, &err), err);
    if (result.reason != TERN_STOP_END_TOKEN || times(s.text, name) < 3 || times(s.text, thing) < 2 ||
        times(s.text, ".") < 6)
        fail_msg("%s of a %s: %s", name, thing, s.text);
    tern_tokens_deinit(&tokens);
    tern_session_close(session);
}

static void bundled_model(void **state)
{
    (void)state;
    struct stat file;
    assert_int_equal(stat(PATH, &file), 0);
    assert_true(file.st_size < 4000000);
    tern_engine *engine = load(PATH, NULL);
    tell(engine, "Clara", "wooden boat");
    tell(engine, "Mia", "red ball");
    tern_engine_close(engine);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(bundled_model)};

TEST_GROUP(bundled, "arm64", tests);
