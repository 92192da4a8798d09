/* Adapters in sessions: exchanged, saved, refused, from memory. */
#include "infer/lora_cases.h"

/* What was evaluated keeps the keys of the old adapters, until it is evaluated again. */
static void swapped_in_a_session(void **state)
{
    (void)state;
    enum { HALF = N_IDS / 2 };
    tern_error err = {0};
    tern_engine *engine = test_engine(test_fixture("bitnet"), NULL);
    tern_session *s = test_session(engine, false), *fresh;
    tern_lora *a = test_lora(engine, 4, 1, false), *b = test_lora(engine, 8, 2, true);
    const tern_lora_use use_a = {a, 1}, use_b = {b, 0.5f};
    const tern_session_params params = {.size = sizeof params,
                                        .n_ctx = 128,
                                        .max_outputs = 128,
                                        .kv = {TERN_KV_F32, TERN_KV_F32},
                                        .loras = &use_b,
                                        .n_loras = 1};
    assert_ok(tern_session_open(&fresh, engine, &params, &err), err);
    size_t row = lora_vocabulary(s) * sizeof(float);
    float *of_b = lora_logits_of(fresh), *before = malloc(row);

    lora_set(s, &use_a, 1);
    assert_ok(tern_session_append(s, lora_ids, HALF, &err), err);
    memcpy(before, test_logits(s, 0), row);
    lora_set(s, &use_b, 1);
    assert_memory_equal(test_logits(s, 0), before, row); /* still those of the last append */
    assert_int_equal(tern_session_n_tokens(s), HALF);
    assert_ok(tern_session_append(s, lora_ids + HALF, N_IDS - HALF, &err), err);
    const float *want = of_b + (size_t)(N_IDS - 1) * lora_vocabulary(s);
    assert_true(test_rms_error(test_logits(s, 0), want, lora_vocabulary(s)) > 1e-3); /* half of it is a's */

    tern_session_truncate(s, 0);
    assert_ok(tern_session_append(s, tern_session_tokens(s), N_IDS, &err), err);
    assert_memory_equal(test_logits(s, 0), want, row);
    free(of_b);
    free(before);
    tern_session_close(fresh);
    tern_session_close(s);
    tern_lora_close(a);
    tern_lora_close(b);
    tern_engine_close(engine);
}

static void session_files(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_engine *engine = test_engine(test_fixture("bitnet"), NULL);
    tern_session *s = test_session(engine, false), *t = test_session(engine, false);
    tern_lora *a = test_lora(engine, 4, 1, false), *b = test_lora(engine, 4, 2, false);
    const tern_lora_use both[] = {{a, 1}, {b, 0.5f}}, turned[] = {both[1], both[0]}, weaker[] = {both[0], {b, 0.4f}};
    const char *path = test_scratch("lora-session");
    lora_set(s, both, 2);
    assert_ok(tern_session_append(s, lora_ids, N_IDS, &err), err);
    assert_ok(tern_session_save(s, path, &err), err);
    const struct {
        const tern_lora_use *uses;
        uint32_t n;
    } others[] = {{NULL, 0}, {both, 1}, {turned, 2}, {weaker, 2}};
    for (size_t i = 0; i < 4; i++) {
        lora_set(t, others[i].uses, others[i].n);
        assert_int_equal(tern_session_restore(t, path, &err), TERN_MALFORMED);
        assert_non_null(strstr(err.message, "another model wrote it, or other adapters"));
    }
    lora_set(t, both, 2);
    assert_ok(tern_session_restore(t, path, &err), err);
    assert_memory_equal(test_logits(t, 0), test_logits(s, 0), lora_vocabulary(s) * sizeof(float));
    remove(path);
    tern_session_close(s);
    tern_session_close(t);
    tern_lora_close(a);
    tern_lora_close(b);
    tern_engine_close(engine);
}

static tern_lora_file file_of(tern_file_map *map, const char *path)
{
    tern_error err = {0};
    assert_ok(tern_file_map_open(map, path, &err), err);
    return (tern_lora_file){path, map->data, map->size};
}

/* Both kinds of files, from memory that is gone afterwards. */
static void from_memory(void **state)
{
    (void)state;
    tern_error err = {0};
    const char *dir = test_fixture("bitnet-train/lora"), *gguf = test_scratch("lora-memory.gguf");
    tern_model *model;
    tern_engine *engine;
    tern_adapter *adapter;
    assert_ok(tern_model_open(&model, test_fixture("bitnet-train"), &(tern_model_options){0}, &err), err);
    assert_ok(tern_engine_open(&engine, model, &(tern_engine_params){0}, &err), err);
    assert_ok(tern_adapter_open(&adapter, dir, model, &err), err);
    assert_ok(tern_adapter_write_gguf(adapter, gguf, &err), err);
    tern_adapter_close(adapter);
    tern_file_map maps[3] = {0};
    tern_lora_file peft[2] = {file_of(&maps[0], test_fixture("bitnet-train/lora/adapter_model.safetensors")),
                              file_of(&maps[1], test_fixture("bitnet-train/lora/adapter_config.json"))};
    tern_lora_file one = file_of(&maps[2], gguf);
    tern_lora *loras[3];
    assert_ok(tern_lora_load(&loras[0], engine, dir, &err), err);
    assert_ok(tern_lora_load_memory(&loras[1], engine, peft, 2, &err), err);
    assert_ok(tern_lora_load_memory(&loras[2], engine, &one, 1, &err), err);
    for (int i = 0; i < 3; i++) tern_file_map_close(&maps[i]);
    tern_session *s = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 64, .max_outputs = N_IDS));
    float *plain = lora_logits_of(s), *want = lora_logits_with(s, &(tern_lora_use){loras[0], 1}, 1);
    assert_true(lora_distance(want, plain, s) > 1e-3);
    for (int i = 1; i < 3; i++) {
        float *got = lora_logits_with(s, &(tern_lora_use){loras[i], 1}, 1);
        assert_memory_equal(got, want, N_IDS * lora_vocabulary(s) * sizeof *got);
        free(got);
    }
    free(plain);
    free(want);
    tern_session_close(s);
    for (int i = 0; i < 3; i++) tern_lora_close(loras[i]);
    tern_engine_close(engine);
    remove(gguf);
}

static void refusals(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_engine *engine = test_engine(test_fixture("bitnet"), NULL), *other = test_engine(test_fixture("llama"), NULL);
    tern_session *s = test_session(engine, false), *none = NULL;
    tern_lora *a = test_lora(engine, 4, 1, false), *foreign = test_lora(other, 4, 1, false), *lora = a;
    float *want = lora_logits_with(s, &(tern_lora_use){a, 1}, 1);
    const tern_lora_use bad[][2] = {
        {{a, 1}, {foreign, 1}}, {{a, 1}, {NULL, 1}}, {{a, 1}, {a, NAN}}, {{a, 1}, {a, INFINITY}}};
    static const char *const messages[] = {
        "adapter 1: one of another engine found, one of this session's engine expected",
        "adapter 1: none found, one of this session's engine expected",
        "adapter 1: scale nan found, a finite number expected", "adapter 1: scale inf found, a finite number expected"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(tern_session_set_loras(s, bad[i], 2, &err), TERN_INVALID_ARGUMENT);
        assert_string_equal(err.message, messages[i]);
        const tern_session_params params = {.size = sizeof params, .loras = bad[i], .n_loras = 2};
        assert_int_equal(tern_session_open(&none, engine, &params, &err), TERN_INVALID_ARGUMENT);
        assert_null(none);
    }
    assert_int_equal(tern_session_set_loras(s, NULL, 1, &err), TERN_INVALID_ARGUMENT);
    float *got = lora_logits_of(s); /* as before */
    assert_memory_equal(got, want, N_IDS * lora_vocabulary(s) * sizeof *got);
    assert_int_equal(tern_lora_load(&lora, engine, test_fixture("bitnet-train/lora"), &err), TERN_MALFORMED);
    assert_null(lora);
    assert_non_null(strstr(err.message, "found, ["));
    assert_int_equal(tern_lora_load(&lora, engine, "/nowhere/at/all", &err), TERN_NOT_FOUND);
    tern_adapter *unbound;
    assert_ok(tern_adapter_open(&unbound, test_fixture("bitnet-train/lora"), NULL, &err), err);
    assert_int_equal(tern_lora_open(&lora, engine, unbound, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "adapter of 2 layers: 3 expected");
    tern_adapter_close(unbound);
    free(got);
    free(want);
    tern_session_close(s);
    tern_lora_close(a);
    tern_lora_close(foreign);
    tern_engine_close(engine);
    tern_engine_close(other);
}

/* Each allocation of a swap fails once: nothing leaks, and the session computes what it did. */
static void allocations_fail(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_engine *engine = test_engine(test_fixture("bitnet"), NULL);
    tern_session *s = test_session(engine, false);
    tern_adapter *adapter = test_adapter(tern_engine_model(engine), 4, 2, false);
    tern_lora *a = test_lora(engine, 4, 1, false), *b = NULL;
    const int64_t bare = tern_alloc_live();
    uint64_t n = 1;
    for (;; n++) {
        tern_alloc_fail_after(n, false);
        tern_status status = tern_lora_open(&b, engine, adapter, &err);
        tern_alloc_fail_after(0, false);
        if (status == TERN_OK) break;
        assert_int_equal(status, TERN_OUT_OF_MEMORY);
        assert_null(b);
        assert_int_equal(tern_alloc_live(), bare);
    }
    assert_true(n > 10);
    float *want = lora_logits_with(s, &(tern_lora_use){a, 1}, 1);
    const int64_t live = tern_alloc_live();
    for (n = 1;; n++) {
        tern_alloc_fail_after(n, false);
        tern_status status = tern_session_set_loras(s, (tern_lora_use[]){{a, 1}, {b, 1}}, 2, &err);
        tern_alloc_fail_after(0, false);
        if (status == TERN_OK) break;
        assert_int_equal(status, TERN_OUT_OF_MEMORY);
        assert_int_equal(tern_alloc_live(), live);
        if (n % 8 || !test_takes(n / 8, 7, 1)) continue;
        float *got = lora_logits_of(s);
        assert_memory_equal(got, want, N_IDS * lora_vocabulary(s) * sizeof *got);
        free(got);
    }
    assert_true(n > 40);
    uint64_t count = tern_alloc_count();
    tern_session_truncate(s, 0);
    assert_ok(tern_session_append(s, lora_ids, N_IDS, &err), err);
    assert_int_equal(tern_alloc_count(), count); /* none for a token */
    free(want);
    tern_session_close(s);
    tern_lora_close(a);
    tern_lora_close(b);
    tern_adapter_close(adapter);
    tern_engine_close(engine);
}

/* The exact head gives the same tokens beside adapters. */
static void exact_head(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_model *model;
    tern_engine *engine, *plain = open_trained(1);
    assert_ok(tern_model_open(&model, test_model("tiny-stories-bitnet"), &(tern_model_options){0}, &err), err);
    assert_ok(tern_engine_open(&engine, model, &(tern_engine_params){.head_exact = true}, &err), err);
    tern_engine *engines[] = {plain, engine};
    seen texts[2] = {0};
    for (int i = 0; i < 2; i++) {
        tern_lora *lora = test_lora(engines[i], 4, 7, false);
        tern_lora_use use = {lora, 0.3f};
        tern_session *s =
            open_session(engines[i], TERN_SIZED(tern_session_params, .n_ctx = 128, .loras = &use, .n_loras = 1));
        tern_generate_params params = greedy_params(&texts[i], 24);
        generate(s, "Once upon a time", &params);
        tern_session_close(s);
        tern_lora_close(lora);
    }
    assert_int_equal(texts[0].n_ids, texts[1].n_ids);
    assert_memory_equal(texts[0].ids, texts[1].ids, texts[0].n_ids * sizeof *texts[0].ids);
    forget(&texts[0]);
    forget(&texts[1]);
    tern_engine_close(engine);
    tern_engine_close(plain);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(swapped_in_a_session), cmocka_unit_test(session_files),
    cmocka_unit_test(from_memory),          cmocka_unit_test(refusals),
    cmocka_unit_test(allocations_fail),     cmocka_unit_test(exact_head),
};

TEST_GROUP(lora_sessions, "", tests, .setup = lora_setup);
