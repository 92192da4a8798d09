/* Generating on a device that chooses the tokens itself: several in one run, of which only the ids come back. The last
 * token is always left to the next run, which evaluates it first: so one at a time or many, prompt or not, each token
 * is computed by the same graph. */
#include <string.h>

#include "infer/generate_state.h"

bool tern_generation__on_device(const tern_session *session, const tern_generate_params *params)
{
    return session->steps > 0 && params->draft_tokens == 0 && tern_sampler_fits_gpu(&params->sampler);
}

/* Room for at least one more token, or a stop. */
static tern_status make_room(tern_generation *g, tern_error *err)
{
    if (g->session->n_tokens < tern_session_n_ctx(g->session)) return TERN_OK;
    if (g->params->context_shift) return tern_session__shift(g->session, g->params->n_keep, err);
    tern_generation__stop(g, TERN_STOP_CONTEXT);
    return TERN_OK;
}

/* How many tokens the next run chooses. */
static uint32_t count(const tern_generation *g)
{
    uint32_t n = g->session->steps, room = tern_session_n_ctx(g->session) - g->session->n_tokens;
    uint32_t left = g->params->max_tokens - g->result->n_generated;
    if (n > room) n = room;
    return g->params->max_tokens && n > left ? left : n;
}

/* Ends that the device need not look for only cost time: they are looked for here as well. */
static void fill_ends(const tern_generation *g, tern_sample_params *sample)
{
    size_t n = 0;
    const int32_t *ids = g->tokenizer && !g->params->ignore_eos ? tern_tokenizer_ends(g->tokenizer, &n) : NULL;
    if (n > TERN_SAMPLE_MAX_ENDS) n = TERN_SAMPLE_MAX_ENDS;
    for (size_t i = 0; i < n; i++) sample->end_ids[i] = (uint32_t)ids[i];
    sample->n_ends = (uint32_t)n;
}

/* Takes the tokens of a run one by one, until one of them stops the generation; what was chosen after it is forgotten.
 */
static tern_status take(tern_generation *g, const uint32_t *ids, uint32_t n, tern_error *err)
{
    tern_session *s = g->session;
    const uint32_t n_vocab = tern_engine_config(tern_session_engine(s))->n_vocab;
    for (uint32_t i = 0; i < n && !g->stopped; i++) {
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

static tern_status run(tern_generation *g, tern_error *err)
{
    tern_session *s = g->session;
    tern_sample_params sample;
    uint32_t chosen[1 + TERN_SAMPLE_MAX_STEPS];
    tern_sampler_fill(g->sampler, &sample, count(g));
    fill_ends(g, &sample);
    const tern_runner_steps steps = {.id = s->tokens[s->n_tokens - 1], .position = s->n_tokens - 1, .sample = &sample};
    TERN_TRY(tern_runner_run_steps(&s->runner, &steps, chosen, err));
    tern_sampler_consume(g->sampler, chosen[0]);
    return take(g, chosen + 1, chosen[0], err);
}

tern_status tern_generation__loop_steps(tern_generation *g, tern_error *err)
{
    g->result->steps = g->session->steps;
    while (!g->stopped) {
        TERN_TRY(make_room(g, err));
        if (!g->stopped) TERN_TRY(run(g, err));
    }
    return TERN_OK;
}
