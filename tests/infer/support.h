/* What the tests of sessions and generation share: the trained model, and text that it generates. */
#ifndef TERN_TESTS_INFER_SUPPORT_H
#define TERN_TESTS_INFER_SUPPORT_H

#include "support/test.h"

#include "infer/sampler.h"
#include "infer/session.h"

/* The trained model with its tokenizer. */
static inline tern_engine *open_trained(uint32_t n_threads)
{
    tern_error err = {0};
    tern_model *model;
    tern_engine *engine;
    assert_ok(tern_model_open(&model, test_model("tiny-stories-bitnet"), &(tern_model_options){0}, &err), err);
    assert_ok(tern_engine_open(&engine, model, &(tern_engine_params){.backend = {.n_threads = n_threads}}, &err), err);
    return engine;
}

static inline tern_session *open_session(tern_engine *engine, tern_session_params params)
{
    tern_error err = {0};
    tern_session *session;
    assert_ok(tern_session_open(&session, engine, &params, &err), err);
    return session;
}

/* The ids of a text after BOS; the caller's to deinit. */
static inline tern_tokens ids_of(const tern_engine *engine, const char *text)
{
    tern_error err = {0};
    tern_tokens ids = {0};
    const tern_tokenizer *t = tern_model_tokenizer(tern_engine_model(engine));
    assert_ok(tern_tokens_add(&ids, tern_tokenizer_bos(t), &err), err);
    assert_ok(tern_tokenize(t, text, strlen(text), false, &ids, &err), err);
    return ids;
}

/* What a callback saw. Set stop_after to end the generation from there. */
typedef struct seen {
    tern_buf text;
    int32_t ids[2048];
    uint32_t n_ids, n_pieces, stop_after;
} seen;

static inline bool see(void *context, const tern_piece *piece)
{
    seen *s = context;
    tern_error err = {0};
    assert_ok(tern_buf_add(&s->text, piece->text ? piece->text : "", piece->n_text, &err), err);
    if (piece->id >= 0) s->ids[s->n_ids++] = piece->id;
    return ++s->n_pieces != s->stop_after;
}

static inline tern_generate_params greedy_params(seen *s, uint32_t max_tokens)
{
    tern_generate_params p = {
        .sampler = TERN_SAMPLER_DEFAULTS, .max_tokens = max_tokens, .on_piece = see, .context = s};
    p.sampler.temperature = 0;
    return p;
}

/* Generates after a prompt from an empty session; fails the test on error. */
static inline tern_generate_result generate(tern_session *session, const char *prompt,
                                            const tern_generate_params *params)
{
    tern_error err = {0};
    tern_generate_result result;
    tern_tokens ids = ids_of(tern_session_engine(session), prompt);
    tern_session_truncate(session, 0);
    assert_ok(tern_generate(session, ids.ids, (uint32_t)ids.n, params, &result, &err), err);
    tern_tokens_deinit(&ids);
    return result;
}

static inline void forget(seen *s)
{
    tern_buf_deinit(&s->text);
    *s = (seen){0};
}

#endif
