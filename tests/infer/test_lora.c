/* Sessions with adapters: PyTorch's numbers, sums and scales, adapters that change while a session goes on, the same
 * from merged weights, files, refusals, and memory that runs out. */
#include "support/adapters.h"

#include <math.h>

#include "base/alloc.h"
#include "base/file.h"
#include "infer/runner.h"
#include "infer/support.h"
#include "model/merge.h"
#include "support/converted.h"
#include "support/flips.h"
#include "support/golden.h"
#include "support/logits.h"

enum { ROWS = 2, LENGTH = 32, MAX_FLIPS = 8, N_IDS = 40 };
static const double budget = 2e-3; /* fixtures/README */

static int32_t ids[N_IDS];

static int setup(void **state)
{
    (void)state;
    for (int32_t i = 0; i < N_IDS; i++) ids[i] = (i * 37 + 5) % 250;
    return 0;
}

static void set(tern_session *s, const tern_lora_use *uses, uint32_t n)
{
    tern_error err = {0};
    assert_ok(tern_session_set_loras(s, uses, n, &err), err);
}

static size_t vocabulary(const tern_session *s)
{
    return tern_engine_config(tern_session_engine(s))->n_vocab;
}

/* The logits of all ids from an empty session on; the caller's to free. */
static float *logits_of(tern_session *s)
{
    tern_error err = {0};
    size_t bytes = N_IDS * vocabulary(s) * sizeof(float);
    tern_session_truncate(s, 0);
    assert_ok(tern_session_append_all(s, ids, N_IDS, &err), err);
    float *logits = malloc(bytes);
    memcpy(logits, test_logits(s, 0), bytes);
    return logits;
}

static float *logits_with(tern_session *s, const tern_lora_use *uses, uint32_t n)
{
    set(s, uses, n);
    return logits_of(s);
}

static double distance(const float *got, const float *want, const tern_session *s)
{
    return test_rms_error(got, want, N_IDS * vocabulary(s));
}

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
    size_t n_vocab = vocabulary(s);
    set(s, &(tern_lora_use){lora, 1}, 1);
    for (uint32_t row = 0; row < ROWS; row++) {
        double error;
        const test_run run = {s, rows + row * LENGTH, LENGTH, want + row * LENGTH * n_vocab};
        uint32_t n = test_flips_nearest(&run, budget, MAX_FLIPS, &error);
        print_message("row %u: relative rms error %.2g after %u flips\n", row, error, n);
        test_check_rows(test_logits(s, 0), run.want, LENGTH, (uint32_t)n_vocab, budget, "with the adapter");
        set(s, NULL, 0);
        test_flips_nearest(&run, budget, MAX_FLIPS, &error);
        assert_true(error > 0.3); /* without it they are others */
        set(s, &(tern_lora_use){lora, 1}, 1);
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
        size_t bytes = N_IDS * vocabulary(s) * sizeof(float);
        float *base = logits_of(s), *on = logits_with(s, &(tern_lora_use){lora, 1}, 1);
        float *zero = logits_with(s, &(tern_lora_use){lora, 0}, 1), *none = logits_with(s, NULL, 0);
        assert_true(distance(on, base, s) > 1e-2);
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
    float *want = logits_with(s, &(tern_lora_use){both, 1}, 1), *first = logits_with(s, &(tern_lora_use){one, 1}, 1);
    float *sum = logits_with(s, (tern_lora_use[]){{one, 1}, {two, 1}}, 2);
    float *parts = logits_with(s, (tern_lora_use[]){{one, 0.25f}, {two, 1}, {both, 0}, {one, 0.75f}}, 4);
    assert_true(distance(first, want, s) > 1e-2);
    assert_true(distance(sum, want, s) <= 1e-5);
    assert_true(distance(parts, want, s) <= 1e-5);
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
        for (size_t k = 0; k < 4; k += test_quick() ? 3 : 1) {
            tern_error err = {0};
            tern_engine *engine = test_engine(test_fixture(models[m]), NULL);
            tern_session *s = test_session(engine, false);
            tern_lora *lora = test_lora(engine, ranks[k], 3, k % 2 == 0);
            const tern_lora_use use = {lora, k < 2 ? 1 : 0.7f}; /* without an op for the scale, and with one */
            size_t n_vocab = vocabulary(s);
            float *want = logits_with(s, &use, 1);
            tern_session_truncate(s, 0);
            for (uint32_t t = 0; t < N_IDS; t++) {
                assert_ok(tern_session_append(s, &ids[t], 1, &err), err);
                assert_memory_equal(test_logits(s, 0), want + t * n_vocab, n_vocab * sizeof *want);
            }
            tern_runner r;
            const tern_runner_params params = {.n_ctx = N_IDS,
                                               .n_batch = N_IDS,
                                               .max_outputs = N_IDS,
                                               .kv_f32 = true,
                                               .unfused = true,
                                               .loras = &use,
                                               .n_loras = 1};
            float *got = malloc(N_IDS * n_vocab * sizeof *got);
            assert_ok(tern_runner_open(&r, engine, &params, &err), err);
            assert_ok(
                tern_runner_run(&r, &(tern_runner_step){.ids = ids, .n_tokens = N_IDS, .n_outputs = N_IDS}, got, &err),
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
        float *logits = logits_with(s, &(tern_lora_use){lora, 1}, 1);
        if (first) assert_memory_equal(logits, first, N_IDS * vocabulary(s) * sizeof *logits);
        if (first) free(logits);
        else first = logits;
        tern_session_close(s);
        tern_lora_close(lora);
        tern_engine_close(engine);
    }
    free(first);
}

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
    const tern_session_params params = {
        .n_ctx = 128, .max_outputs = 128, .kv = TERN_KV_F32, .loras = &use_b, .n_loras = 1};
    assert_ok(tern_session_open(&fresh, engine, &params, &err), err);
    size_t row = vocabulary(s) * sizeof(float);
    float *of_b = logits_of(fresh), *before = malloc(row);

    set(s, &use_a, 1);
    assert_ok(tern_session_append(s, ids, HALF, &err), err);
    memcpy(before, test_logits(s, 0), row);
    set(s, &use_b, 1);
    assert_memory_equal(test_logits(s, 0), before, row); /* still those of the last append */
    assert_int_equal(tern_session_n_tokens(s), HALF);
    assert_ok(tern_session_append(s, ids + HALF, N_IDS - HALF, &err), err);
    const float *want = of_b + (size_t)(N_IDS - 1) * vocabulary(s);
    assert_true(test_rms_error(test_logits(s, 0), want, vocabulary(s)) > 1e-3); /* half of it is a's */

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

/* A dense model with the adapter in its weights. */
static void merged_weights_compute_the_same(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_engine *engine = test_engine(test_converted(test_fixture("llama"), "f32", "f32"), NULL), *other;
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
    float *base = logits_of(s), *beside = logits_with(s, &(tern_lora_use){lora, 0.8f}, 1), *inside = logits_of(t);
    assert_true(distance(beside, base, s) > 1e-2);
    double error = distance(beside, inside, s);
    if (!(error <= 1e-4)) fail_msg("merged weights differ by %g", error);
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

static void session_files(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_engine *engine = test_engine(test_fixture("bitnet"), NULL);
    tern_session *s = test_session(engine, false), *t = test_session(engine, false);
    tern_lora *a = test_lora(engine, 4, 1, false), *b = test_lora(engine, 4, 2, false);
    const tern_lora_use both[] = {{a, 1}, {b, 0.5f}}, turned[] = {both[1], both[0]}, weaker[] = {both[0], {b, 0.4f}};
    const char *path = test_scratch("lora-session");
    set(s, both, 2);
    assert_ok(tern_session_append(s, ids, N_IDS, &err), err);
    assert_ok(tern_session_save(s, path, &err), err);
    const struct {
        const tern_lora_use *uses;
        uint32_t n;
    } others[] = {{NULL, 0}, {both, 1}, {turned, 2}, {weaker, 2}};
    for (size_t i = 0; i < 4; i++) {
        set(t, others[i].uses, others[i].n);
        assert_int_equal(tern_session_restore(t, path, &err), TERN_MALFORMED);
        assert_non_null(strstr(err.message, "another model wrote it, or other adapters"));
    }
    set(t, both, 2);
    assert_ok(tern_session_restore(t, path, &err), err);
    assert_memory_equal(test_logits(t, 0), test_logits(s, 0), vocabulary(s) * sizeof(float));
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
    tern_session *s = open_session(engine, (tern_session_params){.n_ctx = 64, .max_outputs = N_IDS});
    float *plain = logits_of(s), *want = logits_with(s, &(tern_lora_use){loras[0], 1}, 1);
    assert_true(distance(want, plain, s) > 1e-3);
    for (int i = 1; i < 3; i++) {
        float *got = logits_with(s, &(tern_lora_use){loras[i], 1}, 1);
        assert_memory_equal(got, want, N_IDS * vocabulary(s) * sizeof *got);
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
    float *want = logits_with(s, &(tern_lora_use){a, 1}, 1);
    const tern_lora_use bad[][2] = {
        {{a, 1}, {foreign, 1}}, {{a, 1}, {NULL, 1}}, {{a, 1}, {a, NAN}}, {{a, 1}, {a, INFINITY}}};
    static const char *const messages[] = {
        "adapter 1: one of another engine found, one of this session's engine expected",
        "adapter 1: none found, one of this session's engine expected",
        "adapter 1: scale nan found, a finite number expected", "adapter 1: scale inf found, a finite number expected"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(tern_session_set_loras(s, bad[i], 2, &err), TERN_INVALID_ARGUMENT);
        assert_string_equal(err.message, messages[i]);
        const tern_session_params params = {.loras = bad[i], .n_loras = 2};
        assert_int_equal(tern_session_open(&none, engine, &params, &err), TERN_INVALID_ARGUMENT);
        assert_null(none);
    }
    assert_int_equal(tern_session_set_loras(s, NULL, 1, &err), TERN_INVALID_ARGUMENT);
    float *got = logits_of(s); /* as before */
    assert_memory_equal(got, want, N_IDS * vocabulary(s) * sizeof *got);
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
    float *want = logits_with(s, &(tern_lora_use){a, 1}, 1);
    const int64_t live = tern_alloc_live();
    for (n = 1;; n++) {
        tern_alloc_fail_after(n, false);
        tern_status status = tern_session_set_loras(s, (tern_lora_use[]){{a, 1}, {b, 1}}, 2, &err);
        tern_alloc_fail_after(0, false);
        if (status == TERN_OK) break;
        assert_int_equal(status, TERN_OUT_OF_MEMORY);
        assert_int_equal(tern_alloc_live(), live);
        if (n % (test_quick() ? 64 : 8)) continue;
        float *got = logits_of(s);
        assert_memory_equal(got, want, N_IDS * vocabulary(s) * sizeof *got);
        free(got);
    }
    assert_true(n > 40);
    uint64_t count = tern_alloc_count();
    tern_session_truncate(s, 0);
    assert_ok(tern_session_append(s, ids, N_IDS, &err), err);
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
        tern_session *s = open_session(engines[i], (tern_session_params){.n_ctx = 128, .loras = &use, .n_loras = 1});
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
    cmocka_unit_test(goldens),
    cmocka_unit_test(off_means_the_same_bits),
    cmocka_unit_test(several_add_up),
    cmocka_unit_test(the_same_bits_on_every_path),
    cmocka_unit_test(threads_change_no_bit),
    cmocka_unit_test(swapped_in_a_session),
    cmocka_unit_test(merged_weights_compute_the_same),
    cmocka_unit_test(session_files),
    cmocka_unit_test(from_memory),
    cmocka_unit_test(refusals),
    cmocka_unit_test(allocations_fail),
    cmocka_unit_test(exact_head),
};

TEST_GROUP(lora, "web", tests, .setup = setup);
