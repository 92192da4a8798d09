/* What the API's tests share: the bundled model through the public header alone. */
#ifndef TERN_TESTS_API_SUPPORT_H
#define TERN_TESTS_API_SUPPORT_H

#include "support/converted.h"
#include "support/test.h"

#include "tern.h"

#define BUNDLED test_small_model()

static inline tern_engine *load(const char *path, const tern_engine_options *options)
{
    tern_error err = {0};
    tern_engine *engine = NULL;
    assert_ok(tern_engine_load(&engine, path, options, &err), err);
    return engine;
}

static inline tern_session *open_session(tern_engine *engine, tern_session_params params)
{
    tern_error err = {0};
    tern_session *session = NULL;
    assert_ok(tern_session_open(&session, engine, &params, &err), err);
    return session;
}

static inline tern_tokens tokens_of(const tern_engine *engine, const char *text, unsigned how)
{
    tern_error err = {0};
    tern_tokens tokens = {0};
    assert_ok(tern_engine_tokenize(engine, text, strlen(text), how, &tokens, &err), err);
    return tokens;
}

/* What a generation showed. */
typedef struct shown {
    char text[4096];
    size_t n;
} shown;

static inline bool show(void *context, const tern_piece *piece)
{
    shown *s = context;
    if (piece->n_text >= sizeof s->text - s->n) return false;
    if (piece->n_text) memcpy(s->text + s->n, piece->text, piece->n_text);
    s->n += piece->n_text;
    s->text[s->n] = 0;
    return true;
}

static inline tern_generate_params greedy(shown *s, uint32_t max_tokens)
{
    tern_generate_params params = {.size = sizeof params,
                                   .sampler = TERN_SAMPLER_DEFAULTS,
                                   .max_tokens = max_tokens,
                                   .on_piece = show,
                                   .context = s};
    params.sampler.temperature = 0;
    return params;
}

#endif
