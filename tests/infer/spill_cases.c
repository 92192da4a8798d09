/* Sessions whose keys and values are not all on the device. */
#include "infer/spill_cases.h"

#include "backend/counters.h"
#include "graph/fusions.h"
#include "support/gpu_model.h"
#include "support/logits.h"
#include "support/op_case.h"

tern_engine *spill_open_how(const char *path, tern_engine_params how, bool apart)
{
    tern_error err = {0};
    how.kv_on_host = true;
    if (apart) assert_ok(tern_graph_fusions_parse("rope_attention", &how.no_fusion, &err), err);
    if (test_on_gpu()) return test_gpu_engine(path, test_all_layers, &how);
    return test_engine_with(path, &how);
}

tern_engine *spill_open(const char *path, uint64_t bytes, const char *disk)
{
    return spill_open_how(path, (tern_engine_params){.kv_memory.bytes = bytes, .kv_disk = disk}, false);
}

static int32_t id_at(const tern_engine *engine, uint32_t i)
{
    return (int32_t)((7 * i * i + 3 * i) % tern_engine_config(engine)->n_vocab);
}

tern_session_params spill_params(tern_kv_types kv)
{
    return TERN_SIZED(tern_session_params, .n_ctx = N_CTX, .n_batch = 48, .max_outputs = 4, .host_sampling = true,
                      .kv = kv);
}

tern_session *spill_session(tern_engine *engine, tern_kv_types kv)
{
    return open_session(engine, spill_params(kv));
}

tern_memory_need spill_need(const char *path, tern_kv_types kv)
{
    tern_error err = {0};
    tern_runner_params params;
    tern_memory_needs needs;
    uint32_t steps;
    tern_engine *engine = spill_open(path, 0, NULL);
    const tern_session_params session = spill_params(kv);
    assert_ok(tern_session_resolve(engine, &session, &params, &steps, &err), err);
    assert_ok(tern_memory_needs_of(engine, &params, false, &needs, &err), err);
    tern_engine_close(engine);
    return needs.sides[0];
}

uint64_t spill_layer_bytes(const char *path, tern_kv_types kv, uint64_t *all)
{
    const tern_memory_need need = spill_need(path, kv);
    *all = need.cache;
    return need.largest_layer;
}

tern_backend_counters spill_counters(const tern_engine *engine)
{
    tern_backend_counters c = {0};
    const tern_backend *b = tern_engine_backend(engine);
    b->counters(b, &c);
    return c;
}

void spill_append(tern_session *s, tern_engine *engine, uint32_t first, uint32_t n)
{
    tern_error err = {0};
    int32_t ids[N_IDS];
    for (uint32_t i = 0; i < n; i++) ids[i] = id_at(engine, first + i);
    assert_ok(tern_session_append(s, ids, n, &err), err);
}

void spill_assert_same(tern_session *got, tern_session *want, const tern_engine *engine, const char *what, uint32_t at)
{
    if (memcmp(test_logits(got, 0), test_logits(want, 0), tern_engine_config(engine)->n_vocab * sizeof(float)) != 0)
        fail_msg("%s: other bits after %u tokens", what, at);
}

void spill_exercise(tern_engine *spilling, tern_engine *whole, tern_kv_types kv, const char *what)
{
    tern_session *got = spill_session(spilling, kv), *want = spill_session(whole, kv), *pair[2] = {got, want};
    tern_engine *engines[2] = {spilling, whole};
    for (int i = 0; i < 2; i++) spill_append(pair[i], engines[i], 0, N_PROMPT);
    spill_assert_same(got, want, whole, what, N_PROMPT);
    for (uint32_t t = N_PROMPT; t < N_IDS; t++) {
        for (int i = 0; i < 2; i++) spill_append(pair[i], engines[i], t, 1);
        spill_assert_same(got, want, whole, what, t + 1);
    }
    for (int i = 0; i < 2; i++) tern_session_truncate(pair[i], 75);
    for (int i = 0; i < 2; i++) spill_append(pair[i], engines[i], 100, 3);
    spill_assert_same(got, want, whole, what, 78);
    for (int i = 0; i < 2; i++) spill_append(pair[i], engines[i], 20, 60);
    spill_assert_same(got, want, whole, what, 138);
    tern_session_close(got);
    tern_session_close(want);
}
