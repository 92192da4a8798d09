/* Generating on a device that chooses the tokens itself: several in one run, of which only the ids come back. The last
 * token is always left to the next run, which evaluates it first: so one at a time or many, prompt or not, each token
 * is computed by the same graph. */
#include "infer/session/generate_internal.h"

enum { RUN_MS = 50, MOST_STEPS = 32, GROWTH = 4 };

bool tern_generation__on_device(const tern_session *session, const tern_generate_params *params)
{
    return session->steps > 0 && params->draft_tokens == 0 && !params->filter &&
           tern_sampler_fits_gpu(&params->sampler);
}

/* Room for at least one more token, or a stop. */
static tern_status shift_if_full(tern_generation *g, tern_error *err)
{
    if (g->session->n_tokens < tern_session_n_ctx(g->session)) return TERN_OK;
    if (g->params.context_shift) return tern_session__begin_shift(g->session, g->params.n_keep, true, err);
    tern_generation__stop(g, TERN_STOP_CONTEXT);
    return TERN_OK;
}

/* How many tokens the next run chooses. */
static uint32_t count_steps(const tern_generation *g)
{
    uint32_t n = g->session->steps, room = tern_session_n_ctx(g->session) - g->session->n_tokens;
    uint32_t left = g->params.max_tokens - g->result.n_generated;
    if (n > room) n = room;
    return g->params.max_tokens && n > left ? left : n;
}

/* Ends that the device need not look for only cost time: they are looked for here as well. */
static void fill_end_ids(const tern_generation *g, tern_sample_params *sample)
{
    size_t n = 0;
    const int32_t *ids = g->tokenizer && !g->params.ignore_eos ? tern_tokenizer_ends(g->tokenizer, &n) : NULL;
    if (n > TERN_SAMPLE_MAX_ENDS) n = TERN_SAMPLE_MAX_ENDS;
    for (size_t i = 0; i < n; i++) sample->end_ids[i] = (uint32_t)ids[i];
    sample->n_ends = (uint32_t)n;
}

/* The last token that was taken had logits that are not finite. */
static tern_status search_nonfinite(tern_session *s, tern_error *err)
{
    const tern_runner_step step = {
        .ids = s->tokens + s->n_tokens - 1, .n_tokens = 1, .first_position = s->n_tokens - 1, .n_outputs = 1};
    return tern_session__search_nonfinite(s, &step, err);
}

/* Takes the tokens of a run one by one, until one of them stops the generation; what was chosen after it is forgotten.
 */
static tern_status take_tokens(tern_generation *g, const uint32_t *ids, uint32_t n, tern_error *err)
{
    tern_session *s = g->session;
    const uint32_t n_vocab = tern_engine_config(tern_session_engine(s))->n_vocab;
    for (uint32_t i = 0; i < n && !g->stopped; i++) {
        if (ids[i] == TERN_SAMPLE_NOT_FINITE) return search_nonfinite(s, err);
        if (ids[i] >= n_vocab)
            return tern_fail(err, TERN_INTERNAL, "the device chose token %u of a vocabulary of %u", ids[i], n_vocab);
        if (tern_generation__is_end(g, (int32_t)ids[i])) {
            tern_generation__stop(g, TERN_STOP_END_TOKEN);
            break;
        }
        s->tokens[s->n_tokens++] = (int32_t)ids[i];
        s->n_evaluated = s->n_tokens - 1;
        TERN_TRY(tern_generation__emit(g, (int32_t)ids[i], err));
    }
    return TERN_OK;
}

static tern_status start_steps(tern_generation *g, tern_error *err)
{
    tern_session *s = g->session;
    tern_sample_params sample;
    tern_sampler_fill(g->sampler, &sample, count_steps(g));
    fill_end_ids(g, &sample);
    const tern_runner_steps steps = {.id = s->tokens[s->n_tokens - 1], .position = s->n_tokens - 1, .sample = &sample};
    g->result.steps = s->steps;
    g->run_start_ms = tern_generation__now_ms();
    TERN_TRY(tern_runner_start_steps(&s->runner, &steps, err));
    g->n_running = sample.n_tokens;
    return TERN_OK;
}

/* Where nobody can wait, a run is as long as a person does not notice: what a token took now says how many the next run
 * chooses. */
static void adapt_steps(tern_generation *g, uint32_t n)
{
    tern_session *s = g->session;
    const tern_backend *b = tern_engine_backend(tern_session_engine(s));
    if (!b->info.never_waits || s->steps_chosen) return;
    double ms = (tern_generation__now_ms() - g->run_start_ms) / (double)n, most = ms > 0 ? RUN_MS / ms : MOST_STEPS;
    uint32_t limit = b->info.max_steps < MOST_STEPS ? b->info.max_steps : MOST_STEPS;
    if (limit > GROWTH * s->steps) limit = GROWTH * s->steps; /* the first runs may not be like the others */
    s->steps = most >= limit ? limit : most < 1 ? 1 : (uint32_t)most;
}

tern_status tern_generation__device_step(tern_generation *g, tern_error *err)
{
    if (!g->n_running) {
        TERN_TRY(shift_if_full(g, err));
        if (g->stopped || g->session->evaluation.active) return TERN_OK;
        TERN_TRY(start_steps(g, err));
    }
    tern_status status = tern_runner_finish_steps(&g->session->runner, g->n_running, g->chosen, err);
    if (status == TERN_PENDING) return status;
    g->n_running = 0;
    TERN_TRY(status);
    if (g->stop_requested) tern_generation__stop(g, TERN_STOP_CALLER);
    if (g->stopped) return TERN_OK;
    adapt_steps(g, g->chosen[0]);
    tern_sampler_consume(g->sampler, g->chosen[0]);
    return take_tokens(g, g->chosen + 1, g->chosen[0], err);
}
