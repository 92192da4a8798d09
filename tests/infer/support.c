/* What the tests of sessions and generation share. */
#include "infer/support.h"

#include "base/bytes.h"
#include "support/gpu_model.h"
#include "support/op_case.h"
#include "support/web_device.h"

tern_engine *open_trained(uint32_t n_threads)
{
    tern_error err = {0};
    tern_model *model;
    tern_engine *engine;
    assert_ok(tern_model_open(&model, test_model("tiny-stories-bitnet"), &(tern_model_options){0}, &err), err);
    assert_ok(tern_engine_open(&engine, model, &(tern_engine_params){.backend = {.n_threads = n_threads}}, &err), err);
    return engine;
}

tern_engine *open_trained_here(void)
{
    if (!test_on_gpu()) return open_trained(1);
    tern_error err = {0};
    tern_model *model;
    tern_engine *engine;
    tern_engine_params params = {.backend = {.name = test_gpu_name(), .device = getenv("TERN_TEST_DEVICE")}};
    assert_ok(tern_model_open(&model, test_model("tiny-stories-bitnet"), &(tern_model_options){0}, &err), err);
    assert_ok(tern_engine_open(&engine, model, &params, &err), err);
    test_make_waiting(tern_engine_backend(engine));
    return engine;
}

tern_session *open_session(tern_engine *engine, tern_session_params params)
{
    tern_error err = {0};
    tern_session *session;
    assert_ok(tern_session_open(&session, engine, &params, &err), err);
    return session;
}

tern_tokens ids_of(const tern_engine *engine, const char *text)
{
    tern_error err = {0};
    tern_tokens ids = {0};
    const tern_tokenizer *t = tern_model_tokenizer(tern_engine_model(engine));
    assert_ok(tern_tokens_add(&ids, tern_tokenizer_bos(t), &err), err);
    assert_ok(tern_tokenize(t, text, strlen(text), false, &ids, &err), err);
    return ids;
}

const double equal_costs[32] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

bool see(void *context, const tern_piece *piece)
{
    seen *s = context;
    tern_error err = {0};
    assert_ok(tern_buf_add(&s->text, piece->text ? piece->text : "", piece->n_text, &err), err);
    if (piece->id >= 0) s->ids[s->n_ids++] = piece->id;
    return ++s->n_pieces != s->stop_after;
}

tern_generate_params greedy_params(seen *s, uint32_t max_tokens)
{
    tern_generate_params p = {.size = sizeof p,
                              .sampler = TERN_SAMPLER_DEFAULTS,
                              .max_tokens = max_tokens,
                              .draft_costs = equal_costs,
                              .on_piece = see,
                              .context = s};
    p.sampler.temperature = 0;
    return p;
}

tern_generate_result generate(tern_session *session, const char *prompt, const tern_generate_params *params)
{
    tern_error err = {0};
    tern_generate_result result = {.size = sizeof result};
    tern_tokens ids = ids_of(tern_session_engine(session), prompt);
    tern_session_truncate(session, 0);
    assert_ok(tern_generate(session, ids.ids, (uint32_t)ids.n, params, &result, &err), err);
    tern_tokens_deinit(&ids);
    return result;
}

void forget(seen *s)
{
    tern_buf_deinit(&s->text);
    *s = (seen){0};
}
