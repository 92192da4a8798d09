/* Sessions with rings beside sessions that keep the whole context. */
#include "infer/ring_cases.h"

#include "backend/counters.h"
#include "support/logits.h"
#include "support/op_case.h"

tern_session *ring_session(tern_engine *engine, uint32_t n_batch)
{
    const tern_session_params params = {.size = sizeof params,
                                        .n_ctx = RING_CTX,
                                        .n_batch = n_batch,
                                        .max_outputs = 5,
                                        .kv = {TERN_KV_F32, TERN_KV_F32},
                                        .host_sampling = true};
    return open_session(engine, params);
}

void ring_open(ring_pair *p, const char *name)
{
    ring_open_split(p, name, test_all_layers);
}

void ring_open_split(ring_pair *p, const char *name, uint32_t gpu_layers)
{
    *p = (ring_pair){0};
    p->engine =
        test_on_gpu() ? test_gpu_engine(test_fixture(name), gpu_layers, NULL) : test_engine(test_fixture(name), NULL);
    p->cpu = test_engine(test_fixture(name), NULL);
    p->ring = ring_session(p->engine, RING_BATCH);
    p->whole = ring_session(p->cpu, RING_CTX);
    p->n_vocab = tern_engine_config(p->cpu)->n_vocab;
}

void ring_close(ring_pair *p)
{
    tern_session_close(p->ring);
    tern_session_close(p->whole);
    tern_engine_close(p->engine);
    tern_engine_close(p->cpu);
}

void ring_append(ring_pair *p, const int32_t *ids, uint32_t n)
{
    tern_error err = {0};
    assert_ok(tern_session_append(p->ring, ids, n, &err), err);
    assert_ok(tern_session_append(p->whole, ids, n, &err), err);
}

void ring_check(ring_pair *p, const char *what)
{
    const float *got = test_logits(p->ring, 0), *want = test_logits(p->whole, 0);
    const uint32_t n = tern_session_n_tokens(p->whole);
    assert_int_equal(tern_session_n_tokens(p->ring), n);
    assert_memory_equal(tern_session_tokens(p->ring), tern_session_tokens(p->whole), n * sizeof(int32_t));
    if (test_on_gpu()) test_check_rows(got, want, 1, p->n_vocab, 5e-4, what);
    else if (memcmp(got, want, p->n_vocab * sizeof *got) != 0) fail_msg("%s: other bits than of a whole context", what);
}

void ring_fill_ids(tern_rng *rng, const ring_pair *p, int32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)tern_rng_below(rng, p->n_vocab);
}

uint64_t ring_runs(const ring_pair *p)
{
    tern_backend_counters counters = {0};
    tern_backend *b = tern_engine_backend(p->engine);
    b->counters(b, &counters);
    return counters.runs;
}
