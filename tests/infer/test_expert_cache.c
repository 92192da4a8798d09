/* Models of which not all experts are on the device at once: the same bits with every number of them, counters that add
 * up, what is refused. */
#include "infer/support.h"

#include <unistd.h>

#include "backend/counters.h"
#include "backend/paged/paged_internal.h"
#include "infer/engine/memory_need.h"
#include "infer/experts/cache.h"
#include "model/package/package.h"
#include "support/adapters.h"
#include "support/gpu_model.h"
#include "support/logits.h"
#include "support/op_case.h"
#include "support/pending_backend.h"
#include "support/pretended.h"

enum { N_DECODED = 12, N_PROMPT = 24, MAX_TOKENS = N_PROMPT + N_DECODED };

typedef struct run_of {
    int32_t ids[MAX_TOKENS];
    float *logits; /* [N_PROMPT + N_DECODED][n_vocab] */
    tern_backend_counters counters;
    tern_paged_info info;
} run_of;

static tern_engine *open_with(const char *path, tern_experts_size size)
{
    const tern_engine_params how = {.experts = size};
    if (test_on_gpu()) return test_gpu_engine(path, test_all_layers, &how);
    return test_engine_with(path, &how);
}

/* A prompt in one step, then greedy tokens one by one; lora NULL: without an adapter. */
static run_of run_with(tern_engine *engine, tern_lora *lora)
{
    tern_error err = {0};
    run_of r = {0};
    const tern_config *c = tern_engine_config(engine);
    const tern_lora_use use = {lora, 0.7f};
    tern_session *s = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 64, .max_outputs = N_PROMPT,
                                                      .loras = &use, .n_loras = lora ? 1 : 0));
    tern_backend *b = tern_engine_backend(engine);
    tern_backend_counters before, after;
    r.logits = malloc((size_t)MAX_TOKENS * c->n_vocab * sizeof *r.logits);
    for (int32_t i = 0; i < N_PROMPT; i++) r.ids[i] = (7 * i * i + 3 * i) % (int32_t)c->n_vocab;
    b->counters(b, &before);
    assert_ok(tern_session_append_all(s, r.ids, N_PROMPT, &err), err);
    memcpy(r.logits, test_logits(s, 0), (size_t)N_PROMPT * c->n_vocab * sizeof *r.logits);
    for (uint32_t t = N_PROMPT; t < MAX_TOKENS; t++) {
        r.ids[t] = (int32_t)test_top(r.logits + (size_t)(t - 1) * c->n_vocab, c->n_vocab, NULL);
        assert_ok(tern_session_append(s, &r.ids[t], 1, &err), err);
        memcpy(r.logits + (size_t)t * c->n_vocab, test_logits(s, 0), c->n_vocab * sizeof *r.logits);
    }
    b->counters(b, &after);
    uint64_t *to = (uint64_t *)&r.counters; /* every member is one, or an array of them */
    for (size_t i = 0; i < sizeof r.counters / sizeof *to; i++)
        to[i] = ((const uint64_t *)&after)[i] - ((const uint64_t *)&before)[i];
    if (b->info.paged) r.info = *b->info.paged;
    tern_session_close(s);
    return r;
}

static run_of run_engine(tern_engine *engine)
{
    return run_with(engine, NULL);
}

static run_of run_path(const char *path, tern_experts_size size)
{
    tern_engine *engine = open_with(path, size);
    const run_of r = run_engine(engine);
    tern_engine_close(engine);
    return r;
}

static uint64_t bytes_of_experts(const tern_paged_info *info, uint64_t n)
{
    return info->all_bytes / info->n_all * n;
}

static void check_same(const char *path, tern_experts_size size, const run_of *want, const tern_config *c)
{
    run_of got = run_path(path, size);
    const tern_backend_counters *n = &got.counters;
    print_message("%s: %u of %u experts: %llu hits, %llu misses\n", path, got.info.n_slots, got.info.n_all,
                  (unsigned long long)n->expert_hits, (unsigned long long)n->expert_misses);
    assert_memory_equal(got.ids, want->ids, sizeof got.ids);
    assert_memory_equal(got.logits, want->logits, (size_t)MAX_TOKENS * c->n_vocab * sizeof *got.logits);
    assert_true(got.info.n_slots > 0 && got.info.n_slots < got.info.n_all);
    /* A decoded token takes its experts of each layer, each of them once; a prompt at most all of them. */
    const uint64_t decoded = (uint64_t)N_DECODED * c->n_layers * c->n_experts_used,
                   asked = n->expert_hits + n->expert_misses;
    assert_true(asked > decoded && asked <= decoded + got.info.n_all);
    const uint64_t copied = n->expert_misses + n->expert_prefetched;
    assert_int_equal(n->expert_bytes, bytes_of_experts(&got.info, copied));
    assert_true(copied >= n->expert_evictions && copied - n->expert_evictions <= got.info.n_slots);
    assert_int_equal(n->runs, 1 + N_DECODED);
    free(got.logits);
}

static void check_model(const char *path)
{
    tern_engine *engine = open_with(path, (tern_experts_size){0});
    const tern_config c = *tern_engine_config(engine);
    run_of want = run_engine(engine);
    tern_engine_close(engine);
    assert_int_equal(want.info.n_slots, 0);
    assert_int_equal(want.counters.expert_hits + want.counters.expert_misses, 0);
    for (uint32_t n = c.n_experts_used; n < c.n_experts; n++)
        if (test_takes(n, 2, 1)) check_same(path, (tern_experts_size){.per_layer = n}, &want, &c);
    free(want.logits);
}

static void fixtures(void **state)
{
    (void)state;
    check_model(test_fixture("mixtral"));
    check_model(test_fixture("gpt-oss"));
}

static run_of run_adapted(const char *path, uint32_t per_layer, uint32_t rank)
{
    tern_engine *engine = open_with(path, (tern_experts_size){.per_layer = per_layer});
    tern_lora *lora = test_lora(engine, rank, 5, false);
    const run_of r = run_with(engine, lora);
    tern_lora_close(lora);
    tern_engine_close(engine);
    return r;
}

/* Adapters beside experts are on the device as a whole. */
static void adapters(void **state)
{
    (void)state;
    static const char *const models[] = {"mixtral", "gpt-oss"};
    for (uint32_t m = 0; m < 2; m++) {
        const char *path = test_fixture(models[m]);
        tern_engine *engine = open_with(path, (tern_experts_size){0});
        const tern_config c = *tern_engine_config(engine);
        tern_engine_close(engine);
        const size_t n_bytes = (size_t)MAX_TOKENS * c.n_vocab * sizeof(float);
        run_of want = run_adapted(path, 0, 4 + 4 * m), without = run_path(path, (tern_experts_size){0});
        assert_memory_not_equal(want.logits, without.logits, n_bytes);
        for (uint32_t n = c.n_experts_used; n < c.n_experts; n++) {
            if (!test_takes(n, 2, 1)) continue;
            run_of got = run_adapted(path, n, 4 + 4 * m);
            assert_true(got.info.n_slots > 0 && got.info.n_slots < got.info.n_all);
            assert_memory_equal(got.logits, want.logits, n_bytes);
            assert_int_equal(got.counters.expert_bytes,
                             bytes_of_experts(&got.info, got.counters.expert_misses + got.counters.expert_prefetched));
            free(got.logits);
        }
        free(want.logits);
        free(without.logits);
    }
}

/* Bytes for one slot after the other, from too few to all. */
static void bytes(void **state)
{
    (void)state;
    tern_error err = {0};
    const char *path = test_fixture("mixtral");
    tern_model *model;
    tern_engine *engine;
    run_of want = run_path(path, (tern_experts_size){.all = true});
    assert_ok(tern_model_open(&model, path, &(tern_model_options){.no_tokenizer = true}, &err), err);
    const tern_config c = *tern_model_config(model);
    uint64_t each = 0; /* of an expert */
    for (int role = TERN_ROLE_FFN_GATE_EXPS; role <= TERN_ROLE_FFN_DOWN_EXPS; role++)
        each += tern_model_weight(model, (tern_role)role, 0)->bytes / c.n_experts;
    const tern_engine_params few = {.experts.bytes = each * c.n_experts_used - 1};
    assert_int_equal(tern_engine_open(&engine, model, &few, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "room for 2 of them at least"));
    for (uint32_t n = c.n_experts_used; !test_on_gpu() && n < c.n_layers * c.n_experts; n++)
        check_same(path, (tern_experts_size){.bytes = each * n + each / 2}, &want, &c);
    if (test_on_gpu()) check_same(path, (tern_experts_size){.bytes = each * 3}, &want, &c);
    free(want.logits);
}

/* How many experts stay there where so much is free; 0: all. */
static uint32_t slots_with(tern_engine *engine, uint64_t free, const tern_runner_params *session)
{
    tern_error err = {0};
    tern_backend *b = test_pretended(free);
    assert_ok(tern_engine__page_experts(&b, engine, &(tern_engine_params){0}, session, &err), err);
    const uint32_t n = b->info.paged ? b->info.paged->n_slots : 0;
    b->close(b);
    return n;
}

/* All where there is room for them, else what there is room for, down to too little for anything. */
static void by_free_memory(void **state)
{
    (void)state;
    tern_error err = {0};
    const tern_session_params how = {.size = sizeof how, .n_ctx = 64, .n_batch = 4};
    tern_runner_params session;
    tern_memory_needs needs;
    uint32_t steps, last = UINT32_MAX;
    tern_engine *engine = test_engine_with(test_fixture("mixtral"), &(tern_engine_params){0});
    test_pretend_device(tern_engine_backend(engine));
    assert_ok(tern_session_resolve(engine, &how, &session, &steps, &err), err);
    assert_ok(tern_memory_needs_of(engine, &session, true, &needs, &err), err);
    const uint64_t total = needs.sides[0].total;
    assert_int_equal(slots_with(engine, total, &session), 0);
    assert_int_equal(slots_with(engine, 0, &session), 0); /* not known */
    for (uint64_t free = total - 1; free > total / 8; free -= total / 50) {
        const uint32_t n = slots_with(engine, free, &session);
        assert_true(n <= last && n < 16);
        if (n == 0) break;
        last = n;
    }
    assert_int_equal(last, 2);
    tern_engine_close(engine);
}

/* A shard of the package's that is not there when it is needed, or not what it was, ends the step; once it is back,
 * the session goes on as if nothing had been. */
static void faults(void **state)
{
    (void)state;
    tern_error err = {0};
    char file[4200], dir[4200], shard[4300];
    snprintf(file, sizeof file, "%s", test_scratch("faults.gguf"));
    snprintf(dir, sizeof dir, "%s", test_scratch("faults"));
    assert_ok(tern_synth_write(file, &(tern_synth_options){.preset = "mixtral-tiny"}, &err), err);
    assert_ok(tern_package_write(file, dir, &(tern_package_options){.overwrite = true}, &err), err);
    tern_engine *engine, *whole = open_with(file, (tern_experts_size){0});
    tern_engine_params how = {.backend = {.n_threads = 1}, .experts.per_layer = 2};
    if (test_on_gpu())
        how.backend = (tern_backend_options){.name = test_gpu_name(), .device = getenv("TERN_TEST_DEVICE")};
    assert_ok(tern_engine_open_path(&engine, dir, NULL, &how, &err), err);
    tern_session *s = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 64)),
                 *want = open_session(whole, TERN_SIZED(tern_session_params, .n_ctx = 64));
    const size_t n_bytes = tern_engine_config(engine)->n_vocab * sizeof(float);
    uint32_t n_failed = 0;
    for (int32_t t = 0; t < 20; t++) {
        const int32_t id = 3 * t + 1;
        snprintf(shard, sizeof shard, "%s/shard_%03d.bin", dir, 1 + t % 16);
        tern_buf right = {0};
        assert_ok(tern_file_read(&right, shard, SIZE_MAX / 2, &err), err);
        const size_t n = t % 3 == 1 ? right.size / 2 : right.size;
        if (t % 3 == 2) right.data[100] ^= 1;
        if (t % 3 == 0) assert_int_equal(unlink(shard), 0);
        else assert_ok(tern_file_write(shard, right.data, n, &err), err);
        const tern_status status = tern_session_append(s, &id, 1, &err);
        if (status != TERN_OK && !strstr(err.message, "expert ")) fail_msg("%s: the expert expected", err.message);
        n_failed += status != TERN_OK;
        if (t % 3 == 2) right.data[100] ^= 1;
        assert_ok(tern_file_write(shard, right.data, right.size, &err), err);
        tern_buf_deinit(&right);
        assert_int_equal(tern_session_n_tokens(s), status == TERN_OK ? t + 1 : t);
        if (status != TERN_OK) assert_ok(tern_session_append(s, &id, 1, &err), err);
        assert_ok(tern_session_append(want, &id, 1, &err), err);
        assert_memory_equal(test_logits(s, 0), test_logits(want, 0), n_bytes);
    }
    print_message("%u of 20 steps failed once\n", n_failed);
    assert_true(n_failed > 2);
    tern_session_close(s);
    tern_session_close(want);
    tern_engine_close(engine);
    tern_engine_close(whole);
}

static uint64_t nothing_left(const tern_backend *b)
{
    (void)b;
    return 1;
}

static uint64_t enough(const tern_backend *b)
{
    (void)b;
    return 1u << 30;
}

/* Others want the device's memory while two sessions run: fewer experts are there then, and nothing else changes. */
static void smaller_budget(void **state)
{
    (void)state;
    tern_error err = {0};
    const char *path = test_fixture("mixtral");
    tern_engine *engine = open_with(path, (tern_experts_size){.per_layer = 7}),
                *whole = open_with(path, (tern_experts_size){0});
    tern_backend *b = tern_engine_backend(engine), *inner = tern_wrap__inner(b);
    const tern_session_params how = {.size = sizeof how, .n_ctx = 64};
    tern_session *s[2] = {open_session(engine, how), open_session(engine, how)}, *want = open_session(whole, how);
    const size_t n_bytes = tern_engine_config(engine)->n_vocab * sizeof(float);
    uint32_t n_slots = b->info.paged->n_slots, n_shrunk = 0;
    tern_backend_counters before, after;
    for (int32_t t = 0; t < 40; t++) {
        inner->memory_free = t >= 10 && t < 34 ? nothing_left : enough;
        const int32_t id = t % 30;
        b->counters(b, &before);
        for (int i = 0; i < 2; i++) assert_ok(tern_session_append(s[i], &id, 1, &err), err);
        b->counters(b, &after);
        assert_ok(tern_session_append(want, &id, 1, &err), err);
        for (int i = 0; i < 2; i++) assert_memory_equal(test_logits(s[i], 0), test_logits(want, 0), n_bytes);
        assert_true(after.expert_evictions >= before.expert_evictions && after.expert_misses >= before.expert_misses);
        n_shrunk += b->info.paged->n_slots < n_slots;
        assert_true(b->info.paged->n_slots <= n_slots && (t >= 10 || b->info.paged->n_slots == n_slots));
        n_slots = b->info.paged->n_slots;
    }
    print_message("%u slots after %u times\n", n_slots, n_shrunk);
    assert_true(n_shrunk >= 3 && n_slots < 14);
    for (int i = 0; i < 2; i++) tern_session_close(s[i]);
    tern_session_close(want);
    tern_engine_close(engine);
    tern_engine_close(whole);
}

/* A mixture of which few experts are there, on a device that cannot be waited for. */
static tern_engine *open_pending(uint32_t per_layer, uint64_t seed)
{
    tern_engine *engine = open_with(test_fixture("mixtral"), (tern_experts_size){.per_layer = per_layer});
    tern_backend *b = tern_engine_backend(engine);
    test_make_pending(tern_wrap__inner(b), seed);
    b->info.never_waits = true;
    return engine;
}

/* The next 12 tokens, by as many calls as it takes; at most n of them. */
static tern_status append_some(tern_session *s, uint32_t n, tern_error *err)
{
    int32_t ids[12];
    tern_status status = TERN_PENDING;
    for (int32_t i = 0; i < 12; i++) ids[i] = 5 * i + 2;
    for (uint32_t i = 0; i < n && status == TERN_PENDING; i++) status = tern_session_append(s, ids, 12, err);
    return status;
}

/* Steps stop where the routes of a layer are on their way and go on there, in batches with and without logits: the same
 * bits, also after one was given up, or has failed, wherever it was. */
static void never_waits(void **state)
{
    (void)state;
    tern_error err = {0};
    const tern_session_params how = {.size = sizeof how, .n_ctx = 64, .n_batch = 5};
    tern_engine *whole = open_with(test_fixture("mixtral"), (tern_experts_size){0});
    tern_session *want = open_session(whole, how);
    assert_ok(append_some(want, 1, &err), err);
    const size_t n_bytes = tern_engine_config(whole)->n_vocab * sizeof(float);
    for (uint32_t per_layer = 2; per_layer < 8; per_layer++) {
        if (!test_takes(per_layer, test_on_gpu() ? 6 : 3, 1)) continue;
        tern_engine *engine = open_pending(per_layer, per_layer);
        tern_session *s = open_session(engine, how);
        uint32_t n_failed = 0;
        for (uint32_t calls = 0; calls < 40; calls++) {
            if (!test_takes(calls, test_on_gpu() ? 13 : 7, 2 * 3)) continue;
            if (calls % 2) test_pending_fail_after(1 + calls / 3);
            const tern_status status = append_some(s, calls, &err);
            n_failed += status != TERN_OK && status != TERN_PENDING;
            test_pending_fail_after(0);
            tern_session_truncate(s, 0); /* gives up what is under way */
            assert_false(test_pending_reading());
            assert_ok(append_some(s, UINT32_MAX, &err), err);
            assert_memory_equal(test_logits(s, 0), test_logits(want, 0), n_bytes);
            tern_session_truncate(s, 0);
        }
        assert_true(test_pending_count() > 20 && n_failed > 0);
        assert_int_equal(append_some(s, 1, &err), TERN_PENDING);
        tern_session_close(s); /* with a step under way */
        tern_engine_close(engine);
    }
    tern_session_close(want);
    tern_engine_close(whole);
}

/* Nor is a step lost to that of another session. */
static void one_step_at_a_time(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_engine *engine = open_pending(3, 1);
    const tern_session_params how = {.size = sizeof how, .n_ctx = 64};
    tern_session *first = open_session(engine, how), *other = open_session(engine, how);
    uint32_t n_refused = 0;
    for (uint32_t i = 0; i < 20; i++) {
        tern_status status = append_some(first, 1 + i % 4, &err);
        if (((tern_paged *)tern_engine_backend(engine))->step.p) {
            assert_int_equal(status, TERN_PENDING);
            assert_int_equal(append_some(other, 1, &err), TERN_INVALID_ARGUMENT);
            assert_non_null(strstr(err.message, "one at a time expected"));
            n_refused++;
        }
        if (status == TERN_PENDING) status = append_some(first, UINT32_MAX, &err);
        assert_ok(status, err);
        tern_session_truncate(first, 0);
        assert_ok(append_some(other, UINT32_MAX, &err), err);
        tern_session_truncate(other, 0);
    }
    assert_true(n_refused > 5);
    tern_session_close(first);
    tern_session_close(other);
    tern_engine_close(engine);
}

static void words(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        tern_experts_size size;
    } good[] = {{NULL, {0}},
                {"all", {.all = true}},
                {"5", {.per_layer = 5}},
                {"2K", {.bytes = 2048}},
                {"1.5G", {.bytes = 3ull << 29}},
                {"1024", {.per_layer = 1024}}};
    static const char *const bad[] = {"", "0", "-1", "1025", "4GB", "x", "5.5", "nan", "1e9M", "0K"};
    tern_experts_size size;
    tern_error err = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(tern_experts_parse(good[i].text, &size, &err), err);
        assert_memory_equal(&size.bytes, &good[i].size.bytes, sizeof size.bytes);
        assert_true(size.per_layer == good[i].size.per_layer && size.all == good[i].size.all);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(tern_experts_parse(bad[i], &size, &err), TERN_INVALID_ARGUMENT);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        tern_engine_params how;
        tern_status status;
        const char *says;
    } cases[] = {{"llama", {.experts.per_layer = 2}, TERN_INVALID_ARGUMENT, "experts: the model has none"},
                 {"mixtral", {.experts.per_layer = 1}, TERN_INVALID_ARGUMENT, "a token takes 2 of a layer's"},
                 {"mixtral",
                  {.experts.per_layer = 2, .backend = {.split = true, .gpu_layers = 1}},
                  TERN_UNSUPPORTED,
                  "all layers on one device expected"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_error err = {0};
        tern_model *model;
        tern_engine *engine;
        const char *path = test_fixture(cases[i].model);
        assert_ok(tern_model_open(&model, path, &(tern_model_options){.no_tokenizer = true}, &err), err);
        assert_int_equal(tern_engine_open(&engine, model, &cases[i].how, &err), cases[i].status);
        assert_non_null(strstr(err.message, cases[i].says));
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(fixtures),       cmocka_unit_test(bytes),
    cmocka_unit_test(by_free_memory), cmocka_unit_test(smaller_budget),
    cmocka_unit_test(faults),         cmocka_unit_test(words),
    cmocka_unit_test(refused),        cmocka_unit_test(adapters),
    cmocka_unit_test(never_waits),    cmocka_unit_test(one_step_at_a_time),
};

TEST_GROUP(expert_cache, "backends", tests, .teardown = test_backends_close);
