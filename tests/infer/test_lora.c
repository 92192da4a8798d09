/* Sessions with adapters: PyTorch's numbers, sums and scales, adapters that change while a session goes on, the same
 * from merged weights, files, refusals, and memory that runs out. */
#include "infer/lora_cases.h"

static const double budget = 2e-3; /* fixtures/README */

/* PEFT's adapter beside transformers' model. */
static void goldens(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_safetensors *file;
    assert_ok(tern_safetensors_open(&file, test_fixture("bitnet-train/golden_lora.safetensors"), &err), err);
    const int32_t *rows = (const int32_t *)(const void *)tern_safetensors_find(file, "input_ids")->data;
    const float *want = (const float *)(const void *)tern_safetensors_find(file, "logits")->data;
    tern_engine *engine = test_engine(test_fixture("bitnet-train"), NULL);
    tern_session *s = test_session(engine, false);
    tern_lora *lora = test_lora_load(engine, test_fixture("bitnet-train/lora"));
    size_t n_vocab = lora_vocabulary(s);
    lora_set(s, &(tern_lora_use){lora, 1}, 1);
    for (uint32_t row = 0; row < ROWS; row++) {
        double error;
        const test_run run = {s, rows + row * LENGTH, LENGTH, want + row * LENGTH * n_vocab};
        uint32_t n = test_flips_nearest(&run, budget, MAX_FLIPS, &error);
        print_message("row %u: relative rms error %.2g after %u flips\n", row, error, n);
        test_check_rows(test_logits(s, 0), run.want, LENGTH, (uint32_t)n_vocab, budget, "with the adapter");
        lora_set(s, NULL, 0);
        test_flips_nearest(&run, budget, MAX_FLIPS, &error);
        assert_true(error > 0.3); /* without it they are others */
        lora_set(s, &(tern_lora_use){lora, 1}, 1);
    }
    tern_session_close(s);
    tern_lora_close(lora);
    tern_engine_close(engine);
    tern_safetensors_close(file);
}

static const char *const models[] = {"bitnet", "llama"};

/* Scale 0 is as if the adapter were not there, and so is a session from which it was taken away. */
static void off_means_the_same_bits(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        tern_engine *engine = test_engine(test_fixture(models[m]), NULL);
        tern_session *s = test_session(engine, false);
        tern_lora *lora = test_lora(engine, 4, 1, false);
        size_t bytes = N_IDS * lora_vocabulary(s) * sizeof(float);
        float *base = lora_logits_of(s), *on = lora_logits_with(s, &(tern_lora_use){lora, 1}, 1);
        float *zero = lora_logits_with(s, &(tern_lora_use){lora, 0}, 1), *none = lora_logits_with(s, NULL, 0);
        assert_true(lora_distance(on, base, s) > 1e-2);
        assert_memory_equal(zero, base, bytes);
        assert_memory_equal(none, base, bytes);
        free(base);
        free(on);
        free(zero);
        free(none);
        tern_session_close(s);
        tern_lora_close(lora);
        tern_engine_close(engine);
    }
}

/* a and b side by side as one adapter of the ranks of both. */
static tern_lora *joined(tern_engine *engine, uint32_t rank, const tern_adapter *parts[2])
{
    tern_error err = {0};
    tern_lora *lora;
    tern_adapter *both = test_adapter(tern_engine_model(engine), 2 * rank, 9, false);
    for (uint32_t layer = 0; layer < tern_engine_config(engine)->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_adapter_pair *out = tern_adapter_find(both, (tern_role)role, layer);
            for (uint32_t half = 0; out && half < 2; half++) {
                const tern_adapter_pair *in = tern_adapter_find(parts[half], (tern_role)role, layer);
                memcpy(out->a + (size_t)half * rank * out->in, in->a, (size_t)rank * out->in * sizeof *in->a);
                for (uint32_t r = 0; r < out->out; r++)
                    memcpy(out->b + ((size_t)2 * r + half) * rank, in->b + (size_t)r * rank, rank * sizeof *in->b);
            }
        }
    assert_ok(tern_lora_open(&lora, engine, both, &err), err);
    tern_adapter_close(both);
    return lora;
}

static void several_add_up(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_engine *engine = test_engine(test_fixture("llama"), NULL);
    tern_session *s = test_session(engine, false);
    tern_adapter *a = test_adapter(tern_engine_model(engine), 3, 1, false),
                 *b = test_adapter(tern_engine_model(engine), 3, 2, false);
    tern_lora *one, *two, *both = joined(engine, 3, (const tern_adapter *[]){a, b});
    assert_ok(tern_lora_open(&one, engine, a, &err), err);
    assert_ok(tern_lora_open(&two, engine, b, &err), err);
    float *want = lora_logits_with(s, &(tern_lora_use){both, 1}, 1),
          *first = lora_logits_with(s, &(tern_lora_use){one, 1}, 1);
    float *sum = lora_logits_with(s, (tern_lora_use[]){{one, 1}, {two, 1}}, 2);
    float *parts = lora_logits_with(s, (tern_lora_use[]){{one, 0.25f}, {two, 1}, {both, 0}, {one, 0.75f}}, 4);
    assert_true(lora_distance(first, want, s) > 1e-2);
    assert_true(lora_distance(sum, want, s) <= 1e-5);
    assert_true(lora_distance(parts, want, s) <= 1e-5);
    free(want);
    free(first);
    free(sum);
    free(parts);
    tern_session_close(s);
    tern_lora_close(one);
    tern_lora_close(two);
    tern_lora_close(both);
    tern_adapter_close(a);
    tern_adapter_close(b);
    tern_engine_close(engine);
}

/* Odd ranks, prefill and tokens one by one, fused and not, short encodings and long, any number of threads. */
static void the_same_bits_on_every_path(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {1, 5, 8, 16};
    for (size_t m = 0; m < 2; m++)
        for (size_t k = 0; k < 4; k++) {
            if (!test_takes(m + k, 3, 2)) continue;
            tern_error err = {0};
            tern_engine *engine = test_engine(test_fixture(models[m]), NULL);
            tern_session *s = test_session(engine, false);
            tern_lora *lora = test_lora(engine, ranks[k], 3, k % 2 == 0);
            const tern_lora_use use = {lora, k < 2 ? 1 : 0.7f}; /* without an op for the scale, and with one */
            size_t n_vocab = lora_vocabulary(s);
            float *want = lora_logits_with(s, &use, 1);
            tern_session_truncate(s, 0);
            for (uint32_t t = 0; t < N_IDS; t++) {
                assert_ok(tern_session_append(s, &lora_ids[t], 1, &err), err);
                assert_memory_equal(test_logits(s, 0), want + t * n_vocab, n_vocab * sizeof *want);
            }
            tern_runner r;
            const tern_runner_params params = {.n_ctx = N_IDS,
                                               .n_batch = N_IDS,
                                               .max_outputs = N_IDS,
                                               .kv = {TERN_DTYPE_F32, TERN_DTYPE_F32},
                                               .unfused = true,
                                               .loras = &use,
                                               .n_loras = 1};
            float *got = malloc(N_IDS * n_vocab * sizeof *got);
            assert_ok(tern_runner_open(&r, engine, &params, &err), err);
            assert_ok(tern_runner_run(&r, &(tern_runner_step){.ids = lora_ids, .n_tokens = N_IDS, .n_outputs = N_IDS},
                                      got, &err),
                      err);
            assert_memory_equal(got, want, N_IDS * n_vocab * sizeof *want);
            tern_runner_deinit(&r);
            free(got);
            free(want);
            tern_session_close(s);
            tern_lora_close(lora);
            tern_engine_close(engine);
        }
}

static tern_engine *engine_of(const char *path, uint32_t n_threads)
{
    tern_error err = {0};
    tern_model *model;
    tern_engine *engine;
    assert_ok(tern_model_open(&model, path, &(tern_model_options){.no_tokenizer = true}, &err), err);
    const tern_engine_params params = {.backend = {.n_threads = n_threads}};
    assert_ok(tern_engine_open(&engine, model, &params, &err), err);
    return engine;
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    static const uint32_t threads[] = {1, 2, 3, 8};
    float *first = NULL;
    for (size_t i = 0; i < 4; i++) {
        tern_engine *engine = engine_of(test_fixture("bitnet"), threads[i]);
        tern_session *s = test_session(engine, false);
        tern_lora *lora = test_lora(engine, 8, 3, false);
        float *logits = lora_logits_with(s, &(tern_lora_use){lora, 1}, 1);
        if (first) assert_memory_equal(logits, first, N_IDS * lora_vocabulary(s) * sizeof *logits);
        if (first) free(logits);
        else first = logits;
        tern_session_close(s);
        tern_lora_close(lora);
        tern_engine_close(engine);
    }
    free(first);
}

/* A dense model with the adapter in its weights; experts have a pair each. */
static void check_merged(const char *fixture)
{
    tern_error err = {0};
    tern_engine *engine = test_engine(test_converted(test_fixture(fixture), "f32", "f32"), NULL), *other;
    tern_adapter *adapter = test_adapter(tern_engine_model(engine), 6, 5, false);
    tern_lora *lora;
    tern_model *merged;
    assert_ok(tern_lora_open(&lora, engine, adapter, &err), err);
    const tern_merge_item item = {adapter, 0.8f};
    tern_merge merge = {.base = tern_engine_model(engine), .items = &item, .n_items = 1};
    const tern_master_source source = tern_merge_source(&merge);
    const tern_derivation how = {.has = tern_merge_has, .context = &merge, .source = &source};
    assert_ok(tern_model_derive(&merged, merge.base, &how, &err), err);
    assert_ok(tern_engine_open(&other, merged, &(tern_engine_params){0}, &err), err);
    tern_session *s = test_session(engine, false), *t = test_session(other, false);
    float *base = lora_logits_of(s), *beside = lora_logits_with(s, &(tern_lora_use){lora, 0.8f}, 1),
          *inside = lora_logits_of(t);
    assert_true(lora_distance(beside, base, s) > 1e-2);
    double error = lora_distance(beside, inside, s);
    if (!(error <= 1e-4)) fail_msg("%s: merged weights differ by %g", fixture, error);
    free(base);
    free(beside);
    free(inside);
    tern_session_close(s);
    tern_session_close(t);
    tern_engine_close(other);
    tern_lora_close(lora);
    tern_adapter_close(adapter);
    tern_engine_close(engine);
}

static void merged_weights_compute_the_same(void **state)
{
    (void)state;
    check_merged("llama");
    check_merged("mixtral");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(goldens),
    cmocka_unit_test(off_means_the_same_bits),
    cmocka_unit_test(several_add_up),
    cmocka_unit_test(the_same_bits_on_every_path),
    cmocka_unit_test(threads_change_no_bit),
    cmocka_unit_test(merged_weights_compute_the_same),
};

TEST_GROUP(lora, "web", tests, .setup = lora_setup);
