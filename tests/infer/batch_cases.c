/* Requests to a batch and what each gives alone. */
#include "infer/batch_cases.h"

static const char *const stops[] = {" the", "park. E", "zebra", "."};

static void fill_prompt(batch_case *c, const batch_case *earlier, uint32_t n_vocab, tern_rng *rng)
{
    static const uint32_t lengths[] = {1, 2, 5, 17, 31, 32, 33, 64, 65, 100, 150};
    const uint32_t n = lengths[tern_rng_below(rng, sizeof lengths / sizeof *lengths)];
    const uint32_t same = earlier ? tern_rng_below(rng, earlier->params.n_prompt + 1) : 0;
    for (uint32_t i = 0; i < n; i++)
        c->prompt[i] = i < same ? earlier->prompt[i] : (int32_t)tern_rng_below(rng, n_vocab);
    c->params.prompt = c->prompt;
    c->params.n_prompt = n;
}

/* Steps that only the host takes; state that goes on from token to token; another order. */
static const tern_sampler_step llama_order[] = {TERN_SAMPLER_PENALTIES,   TERN_SAMPLER_DRY,   TERN_SAMPLER_TOP_N_SIGMA,
                                                TERN_SAMPLER_TOP_K,       TERN_SAMPLER_TOP_P, TERN_SAMPLER_MIN_P,
                                                TERN_SAMPLER_TEMPERATURE, TERN_SAMPLER_XTC};
static const tern_sampler_chain chains[] = {
    {.size = sizeof(tern_sampler_chain), .dry_multiplier = 0.8f, .xtc_probability = 0.5f, .dynatemp_range = 0.5f},
    {.size = sizeof(tern_sampler_chain), .mirostat_tau = 4},
    {.size = sizeof(tern_sampler_chain), .top_n_sigma = 1, .order = llama_order, .n_order = 8}};

static void fill_sampler(tern_sampler_params *s, tern_rng *rng)
{
    *s = (tern_sampler_params)TERN_SAMPLER_DEFAULTS;
    s->seed = tern_rng_u64(rng);
    switch (tern_rng_below(rng, 7)) {
    case 0:
    case 1:
    case 2: s->temperature = 0; break;
    case 3: s->repetition_penalty = 1.3f; break;
    case 4: s->top_k = 0; break;
    case 5: s->chain = &chains[tern_rng_below(rng, 3)]; break;
    default: break;
    }
}

void batch_fill(batch_case *cases, uint32_t n, uint32_t n_vocab, uint64_t seed)
{
    tern_rng rng = {.state = seed};
    memset(cases, 0, n * sizeof *cases);
    for (uint32_t i = 0; i < n; i++) {
        batch_case *c = &cases[i];
        fill_prompt(c, i % 2 ? &cases[i - 1] : NULL, n_vocab, &rng);
        fill_sampler(&c->params.sampler, &rng);
        c->params.max_tokens = 1 + tern_rng_below(&rng, 24);
        c->params.ignore_eos = tern_rng_below(&rng, 2);
        if (tern_rng_below(&rng, 4) == 0) c->params.stops = &stops[tern_rng_below(&rng, 4)], c->params.n_stops = 1;
        if (tern_rng_below(&rng, 4) == 0) c->params.draft_tokens = 1 + tern_rng_below(&rng, 4);
        if (tern_rng_below(&rng, 5) == 0) c->params.n = 2 + tern_rng_below(&rng, 3);
        if (tern_rng_below(&rng, 6) == 0) c->stop_after = 1 + tern_rng_below(&rng, 6);
    }
}

static void add(batch_text *t, int32_t id, const char *text, size_t n)
{
    assert_true(t->n_text + n <= sizeof t->text && t->n_ids < BATCH_MAX_IDS);
    if (n) memcpy(t->text + t->n_text, text, n);
    t->n_text += n;
    if (id >= 0) t->ids[t->n_ids++] = id;
}

/* A completion that runs alone. */
typedef struct listener {
    batch_case *c;
    batch_text *t;
    uint32_t n_pieces;
} listener;

static bool hear(void *context, const tern_piece *piece)
{
    listener *l = context;
    add(l->t, piece->id, piece->text, piece->n_text);
    return ++l->n_pieces != l->c->stop_after;
}

void batch_run_alone(tern_session *session, batch_case *cases, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        batch_case *c = &cases[i];
        for (uint32_t k = 0; k < (c->params.n ? c->params.n : 1); k++) {
            tern_error err = {0};
            tern_generate_result result = {.size = sizeof result};
            listener l = {.c = c, .t = &c->alone[k]};
            tern_generate_params params = {.size = sizeof params,
                                           .sampler = c->params.sampler,
                                           .max_tokens = c->params.max_tokens,
                                           .stops = c->params.stops,
                                           .n_stops = c->params.n_stops,
                                           .ignore_eos = c->params.ignore_eos,
                                           .on_piece = hear,
                                           .context = &l};
            params.sampler.seed += k;
            tern_session_truncate(session, 0);
            assert_ok(tern_generate(session, c->prompt, c->params.n_prompt, &params, &result, &err), err);
            c->alone[k].reason = result.reason;
        }
    }
}

tern_batch *batch_open(tern_engine *engine, tern_batch_params params)
{
    tern_error err = {0};
    tern_batch *batch;
    assert_ok(tern_batch_open(&batch, engine, &params, &err), err);
    return batch;
}

static bool take_piece(void *context, const tern_request_piece *piece)
{
    batch_case *c = context;
    batch_text *t = &c->together[piece->index];
    assert_int_equal(t->n_ends, 0);
    if (piece->prompt) {
        assert_int_equal(piece->id, c->prompt[t->n_echoed++]);
        return true;
    }
    add(t, piece->id, piece->text, piece->n_text);
    return t->n_ids != c->stop_after;
}

static void take_end(void *context, const tern_request_result *result)
{
    batch_case *c = context;
    batch_text *t = &c->together[result->index];
    t->n_ends++;
    t->reason = result->reason;
    t->result = *result;
    if (result->error) snprintf(t->error, sizeof t->error, "%s", result->error->message);
}

void batch_submit(tern_batch *batch, batch_case *c)
{
    tern_error err = {0};
    memset(c->together, 0, sizeof c->together);
    c->params.size = sizeof c->params;
    c->params.on_piece = take_piece;
    c->params.on_end = take_end;
    c->params.context = c;
    assert_ok(tern_batch_submit(batch, &c->params, &c->request, &err), err);
}

void batch_finish(tern_batch *batch)
{
    tern_error err = {0};
    for (bool busy = true; busy;) assert_ok(tern_batch_step(batch, &busy, &err), err);
}

void batch_run_together(tern_batch *batch, batch_case *cases, uint32_t n, uint32_t between)
{
    bool busy = false;
    for (uint32_t i = 0; i < n; i++) {
        tern_error err = {0};
        batch_submit(batch, &cases[i]);
        for (uint32_t k = 0; k < between; k++) assert_ok(tern_batch_step(batch, &busy, &err), err);
    }
    batch_finish(batch);
}

static void check_text(const batch_text *found, const batch_text *expected, const char *what, uint32_t i, uint32_t k)
{
    if (found->n_ends != 1) fail_msg("%s: request %u, completion %u ended %u times", what, i, k, found->n_ends);
    if (found->error[0]) fail_msg("%s: request %u, completion %u: %s", what, i, k, found->error);
    for (uint32_t j = 0; j < found->n_ids && j < expected->n_ids; j++)
        if (found->ids[j] != expected->ids[j])
            fail_msg("%s: request %u, completion %u: token %u is %d, alone %d", what, i, k, j, found->ids[j],
                     expected->ids[j]);
    if (found->n_ids != expected->n_ids || found->reason != expected->reason)
        fail_msg("%s: request %u, completion %u: %u tokens (%s), alone %u (%s)", what, i, k, found->n_ids,
                 tern_stop_reason_name(found->reason), expected->n_ids, tern_stop_reason_name(expected->reason));
    assert_int_equal(found->n_text, expected->n_text);
    assert_memory_equal(found->text, expected->text, found->n_text);
}

bool batch_same_tokens(const batch_case *c)
{
    bool same = true;
    for (uint32_t k = 0; k < (c->params.n ? c->params.n : 1); k++) {
        const batch_text *found = &c->together[k], *expected = &c->alone[k];
        assert_int_equal(found->n_ends, 1);
        assert_string_equal(found->error, "");
        same = same && found->n_ids == expected->n_ids &&
               memcmp(found->ids, expected->ids, found->n_ids * sizeof *found->ids) == 0;
    }
    return same;
}

void batch_check(batch_case *cases, uint32_t n, const char *what)
{
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < (cases[i].params.n ? cases[i].params.n : 1); k++)
            check_text(&cases[i].together[k], &cases[i].alone[k], what, i, k);
        tern_request_free(cases[i].request);
        cases[i].request = NULL;
    }
}
