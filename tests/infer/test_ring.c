/* Layers with a window keep a ring of pages: the same results as with the whole context, whatever a session does. */
#include "infer/ring_cases.h"

#include "base/file.h"
#include "support/logits.h"
#include "support/micro_model.h"
#include "support/op_case.h"

enum { N_MOVES = 40, MAX_APPEND = 40, WINDOW = 16 };
static const char *const models[] = {"gemma2", "gemma3"};
static const uint32_t n_layers[] = {4, 7}, n_full[] = {2, 1}, kv_cols[] = {128, 64};

/* The golden inputs in steps of all sizes, which run past the end of the ring. */
static void golden_inputs(const char *name)
{
    char path[64];
    test_golden golden;
    ring_pair p;
    tern_error err = {0};
    snprintf(path, sizeof path, "%s/golden.safetensors", name);
    test_golden_open(&golden, test_fixture(path));
    ring_open(&p, name);
    for (uint32_t i = 0; i < golden.n_inputs; i++) {
        uint32_t n;
        const int32_t *ids = test_golden_ids(&golden, i, &n);
        const float *want = test_golden_logits(&golden, i, (size_t)n * p.n_vocab);
        tern_session_truncate(p.ring, 0);
        for (uint32_t at = 0, step = 1; at < n; at += step, step = step % 11 + 1) {
            if (step > n - at) step = n - at;
            assert_ok(tern_session_append(p.ring, ids + at, step, &err), err);
            test_check_rows(test_logits(p.ring, 0), want + (size_t)(at + step - 1) * p.n_vocab, 1, p.n_vocab, 1e-3,
                            name);
        }
    }
    ring_close(&p);
    test_golden_close(&golden);
}

static void goldens(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) golden_inputs(models[i]);
}

/* Layers without a window keep all positions, the others the ring's. */
static void memory(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        ring_pair p;
        ring_open(&p, models[i]);
        const uint64_t position = 2 * sizeof(float) * kv_cols[i];
        assert_int_equal(tern_session_kv_bytes(p.whole), position * RING_CTX * n_layers[i]);
        assert_int_equal(tern_session_kv_bytes(p.ring),
                         position * (RING_CTX * n_full[i] + RING_POSITIONS * (n_layers[i] - n_full[i])));
        ring_close(&p);
    }
}

/* From file to file, and on in another session: of this ring, of a larger one, of the whole context. */
static void travel(ring_pair *p, tern_rng *rng)
{
    static const uint32_t batches[] = {RING_BATCH, 40, RING_CTX};
    tern_error err = {0};
    const char *path = test_scratch("session-ring");
    for (uint32_t i = 0; i <= tern_rng_below(rng, 2); i++) {
        tern_session *other = ring_session(p->engine, batches[tern_rng_below(rng, 3)]);
        assert_ok(tern_session_save(p->ring, path, &err), err);
        assert_ok(tern_session_restore(other, path, &err), err);
        tern_session_close(p->ring);
        p->ring = other;
    }
    remove(path);
}

/* One random thing that sessions do. */
static const char *move(ring_pair *p, tern_rng *rng)
{
    int32_t ids[MAX_APPEND];
    tern_error err = {0};
    const uint32_t n = tern_session_n_tokens(p->ring), what = tern_rng_below(rng, 8);
    uint32_t some = 1 + tern_rng_below(rng, tern_rng_below(rng, 2) ? MAX_APPEND : 3);
    if (what == 0 && n > 2) {
        const uint32_t keep = tern_rng_below(rng, n - 2);
        assert_ok(tern_session_shift(p->ring, keep, &err), err);
        assert_ok(tern_session_shift(p->whole, keep, &err), err);
        return "shift";
    }
    if (what == 1 && n) {
        travel(p, rng);
        return "save and restore";
    }
    if (what == 2 && n) some = 1; /* after what was given up */
    if (what <= 4 && n) {
        const uint32_t keep = what == 2 ? tern_rng_below(rng, n) : n - tern_rng_below(rng, n < 6 ? n : 6);
        tern_session_truncate(p->ring, keep);
        tern_session_truncate(p->whole, keep);
        if (what <= 3 && keep && tern_rng_below(rng, 2)) travel(p, rng);
    }
    if (some > RING_CTX - tern_session_n_tokens(p->ring)) {
        tern_session_truncate(p->ring, 100);
        tern_session_truncate(p->whole, 100);
    }
    ring_fill_ids(rng, p, ids, some);
    ring_append(p, ids, some);
    return "append";
}

/* On a GPU: all layers there, then half of them. */
static void random_moves(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    for (int i = 0; i < 2; i++) {
        ring_pair p;
        ring_open_split(&p, models[i], i ? 3 : test_all_layers);
        int32_t ids[100];
        ring_fill_ids(&rng, &p, ids, 100);
        ring_append(&p, ids, 100);
        const int n_moves = test_on_gpu() || test_quick() ? N_MOVES / 4 : N_MOVES;
        for (int k = 0; k < n_moves; k++) ring_check(&p, move(&p, &rng));
        ring_close(&p);
    }
}

/* Up to n_batch tokens back costs nothing; further back all is evaluated again. */
static void what_going_back_costs(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    ring_pair p;
    int32_t ids[RING_IDS];
    ring_open(&p, "gemma3");
    ring_fill_ids(&rng, &p, ids, RING_IDS);
    for (uint32_t n = 150; n < 150 + 33; n += test_on_gpu() ? 31 : 4) {
        tern_session_truncate(p.ring, 0);
        tern_session_truncate(p.whole, 0);
        ring_append(&p, ids, n);
        const uint64_t before = ring_runs(&p);
        tern_session_truncate(p.ring, n - RING_BATCH);
        tern_session_truncate(p.whole, n - RING_BATCH);
        assert_int_equal(ring_runs(&p), before);
        ring_append(&p, ids + 300, 1);
        ring_check(&p, "a batch back");
        assert_int_equal(ring_runs(&p), before + 1);
        tern_session_truncate(p.ring, n - 60);
        tern_session_truncate(p.whole, n - 60);
        ring_append(&p, ids + 301, 1);
        ring_check(&p, "far back");
        assert_int_equal(ring_runs(&p), before + 1 + (n - 60) / RING_BATCH + 1);
    }
    ring_close(&p);
}

/* Drafts are evaluated and given up; the text is that of a session that keeps everything. */
static void drafts(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    ring_pair p;
    int32_t ids[40];
    tern_error err = {0};
    tern_generate_result result = {.size = sizeof result};
    ring_open(&p, "gemma3");
    ring_fill_ids(&rng, &p, ids, 20);
    memcpy(ids + 20, ids, 20 * sizeof *ids);
    tern_generate_params params = {.size = sizeof params,
                                   .sampler = TERN_SAMPLER_DEFAULTS,
                                   .max_tokens = 120,
                                   .draft_tokens = 4,
                                   .draft_costs = equal_costs};
    params.sampler.temperature = 2;
    params.sampler.seed = 3;
    assert_ok(tern_generate(p.ring, ids, 40, &params, &result, &err), err);
    assert_true(result.n_drafted > result.n_accepted);
    params.draft_tokens = 0;
    if (!test_on_gpu()) {
        assert_ok(tern_generate(p.whole, ids, 40, &params, &result, &err), err);
        assert_memory_equal(tern_session_tokens(p.ring), tern_session_tokens(p.whole), 160 * sizeof *ids);
    }
    ring_close(&p);
}

/* Long generation, on a GPU many tokens at a time: each token is what the whole context says comes next. */
static void long_text(void **state)
{
    (void)state;
    enum { CTX = 512, PROMPT = 40, MORE = 320 };
    tern_rng rng;
    test_seed(&rng);
    ring_pair p;
    int32_t ids[PROMPT];
    tern_error err = {0};
    tern_generate_result result = {.size = sizeof result};
    ring_open(&p, "gemma3");
    ring_fill_ids(&rng, &p, ids, PROMPT);
    tern_session *ring = open_session(
        p.engine, TERN_SIZED(tern_session_params, .n_ctx = CTX, .n_batch = 8, .kv = {TERN_KV_F32, TERN_KV_F32}));
    tern_session *whole = open_session(
        p.cpu, TERN_SIZED(tern_session_params, .n_ctx = CTX, .max_outputs = CTX, .kv = {TERN_KV_F32, TERN_KV_F32}));
    assert_true(tern_session_kv_bytes(ring) < tern_session_kv_bytes(whole) * 3 / 4);
    tern_generate_params params = {.size = sizeof params, .sampler = TERN_SAMPLER_DEFAULTS, .max_tokens = MORE};
    params.sampler.temperature = 0;
    assert_ok(tern_generate(ring, ids, PROMPT, &params, &result, &err), err);
    assert_int_equal(tern_session_n_tokens(ring), PROMPT + MORE);
    const int32_t *text = tern_session_tokens(ring);
    assert_ok(tern_session_append_all(whole, text, PROMPT + MORE - 1, &err), err);
    for (uint32_t i = PROMPT; i < PROMPT + MORE; i++) {
        float margin;
        const uint32_t top = test_top(test_logits(whole, i - 1), p.n_vocab, &margin);
        if (margin > TEST_CLEAR_MARGIN) assert_int_equal(text[i], top);
    }
    tern_session_close(ring);
    tern_session_close(whole);
    ring_close(&p);
}

static tern_engine *open_micro(tern_buf *file, tern_model **model)
{
    tern_error err = {0};
    tern_engine *engine;
    *file = micro_model(&(micro_change){
        .architecture = "llama", .drop = "sub_norm.weight", .seed = 5, .key = "attention.sliding_window", .value = 5});
    assert_ok(tern_model_open_memory(model, file->data, file->size, NULL, &err), err);
    assert_ok(tern_engine_open(&engine, *model, &(tern_engine_params){.backend = {.n_threads = 1}}, &err), err);
    return engine;
}

/* Every layer has a window (Mistral): memory does not grow with the context, nor with what was evaluated. */
static void all_layers_in_rings(void **state)
{
    (void)state;
    tern_buf file;
    tern_model *model;
    tern_error err = {0};
    tern_engine *engine = open_micro(&file, &model);
    int32_t ids[128];
    for (int32_t i = 0; i < 128; i++) ids[i] = (i * i + 3 * i) % 8;
    const tern_session_params few = {.size = sizeof few, .n_ctx = 96, .n_batch = 4},
                              many = {.size = sizeof many, .n_ctx = 128, .n_batch = 4},
                              all = {.size = sizeof all, .n_ctx = 128, .n_batch = 128};
    tern_session *a = open_session(engine, few), *b = open_session(engine, many), *c = open_session(engine, all);
    assert_int_equal(tern_session_kv_bytes(a), tern_session_kv_bytes(b));
    assert_int_equal(tern_session_kv_bytes(c), 2 * tern_session_kv_bytes(b));
    const size_t bytes = tern_engine_config(engine)->n_vocab * sizeof(float);
    for (uint32_t i = 0; i < 128; i++) {
        assert_ok(tern_session_append(b, ids + i, 1, &err), err);
        assert_ok(tern_session_append(c, ids + i, 1, &err), err);
        assert_memory_equal(test_logits(b, 0), test_logits(c, 0), bytes);
    }
    tern_session_close(a);
    tern_session_close(b);
    tern_session_close(c);
    tern_engine_close(engine);
    tern_buf_deinit(&file);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(goldens),
    cmocka_unit_test(memory),
    cmocka_unit_test(random_moves),
    cmocka_unit_test(what_going_back_costs),
    cmocka_unit_test(drafts),
    cmocka_unit_test(long_text),
    cmocka_unit_test(all_layers_in_rings),
};

TEST_GROUP(ring, "backends threads swiftshader", tests, .teardown = test_backends_close);
