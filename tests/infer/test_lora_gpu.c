/* Sessions with adapters on a GPU, and with the layers split: PyTorch's numbers and the CPU's, changes while a session
 * goes on, tokens that the device chooses. */
#include "support/gpu_model.h"

#include "infer/support.h"
#include "support/adapters.h"
#include "support/logits.h"
#include "support/op_case.h"

enum { LENGTH = 32, FEW = 6, MAX_SPLIT = 2 };

static int32_t ids[LENGTH];

static int setup(void **state)
{
    (void)state;
    for (int32_t i = 0; i < LENGTH; i++) ids[i] = (i * 37 + 5) % 250;
    return 0;
}

static void set(tern_session *s, const tern_lora_use *uses, uint32_t n)
{
    tern_error err = {0};
    assert_ok(tern_session_set_loras(s, uses, n, &err), err);
}

/* A model on both, each with the same adapter. */
typedef struct adapted {
    test_pair pair;
    tern_lora *gpu, *cpu;
} adapted;

static void apply(adapted *a, float scale)
{
    set(a->pair.gpu, &(tern_lora_use){a->gpu, scale}, 1);
    set(a->pair.cpu, &(tern_lora_use){a->cpu, scale}, 1);
}

static void close_adapted(adapted *a)
{
    set(a->pair.gpu, NULL, 0);
    set(a->pair.cpu, NULL, 0);
    tern_lora_close(a->gpu);
    tern_lora_close(a->cpu);
    test_pair_close(&a->pair);
}

/* n tokens in one step, then the first few one by one, against the CPU; returns the flips of the one step. */
static uint32_t check_tokens(test_pair *pair, const int32_t *tokens, uint32_t n)
{
    tern_error err = {0};
    size_t row = tern_engine_config(pair->gpu_engine)->n_vocab;
    float *singles = malloc(FEW * row * sizeof *singles);
    tern_session_truncate(pair->gpu, 0);
    for (uint32_t t = 0; t < FEW; t++) {
        assert_ok(tern_session_append(pair->gpu, &tokens[t], 1, &err), err);
        memcpy(singles + t * row, test_logits(pair->gpu, 0), row * sizeof *singles);
    }
    test_pair_check(pair, tokens, FEW, singles);
    free(singles);
    tern_session_truncate(pair->gpu, 0);
    assert_ok(tern_session_append_all(pair->gpu, tokens, n, &err), err);
    return test_pair_check(pair, tokens, n, test_logits(pair->gpu, 0));
}

static void check_golden(uint32_t gpu_layers)
{
    tern_error err = {0};
    tern_safetensors *file;
    adapted a;
    test_pair_open(&a.pair, test_fixture("bitnet-train"), gpu_layers, NULL, 2e-3);
    assert_ok(tern_safetensors_open(&file, test_fixture("bitnet-train/golden_lora.safetensors"), &err), err);
    const int32_t *rows = (const int32_t *)(const void *)tern_safetensors_find(file, "input_ids")->data;
    const float *want = (const float *)(const void *)tern_safetensors_find(file, "logits")->data;
    a.gpu = test_lora_load(a.pair.gpu_engine, test_fixture("bitnet-train/lora"));
    a.cpu = test_lora_load(a.pair.cpu_engine, test_fixture("bitnet-train/lora"));
    apply(&a, 1);
    const size_t n_vocab = tern_engine_config(a.pair.cpu_engine)->n_vocab, n = LENGTH * n_vocab;
    uint32_t n_exact = 0;
    for (uint32_t row = 0; row < 2; row++) {
        uint32_t n_flips = check_tokens(&a.pair, rows + row * LENGTH, LENGTH);
        double error = test_rms_error(test_logits(a.pair.gpu, 0), want + row * n, n),
               cpu = test_rms_error(test_logits(a.pair.cpu, 0), want + row * n, n);
        print_message("row %u: relative rms error %.2g against the golden logits\n", row, error);
        if (n_flips == 0 && cpu <= a.pair.max_rms) n_exact += error <= a.pair.max_rms;
        assert_true(error <= 5e-2); /* a few ties at most; without the adapter it is 0.3 and more */
    }
    assert_true(n_exact >= 1); /* a row without ties */
    close_adapted(&a);
    tern_safetensors_close(file);
}

static void golden_whole(void **state)
{
    (void)state;
    check_golden(test_all_layers);
}

static void golden_split(void **state)
{
    (void)state;
    for (uint32_t n = 0; n <= MAX_SPLIT; n++)
        if (test_takes(n, 2, 1)) check_golden(n);
}

/* Ranks that are no multiple of anything, in encodings short and long. */
static void every_rank(void **state)
{
    (void)state;
    static const char *const models[] = {"llama", "bitnet"};
    static const uint32_t ranks[] = {1, 5, 16, 64};
    for (size_t m = 0; m < 2; m++) {
        adapted a;
        test_pair_open(&a.pair, test_fixture(models[m]), m ? 1 : test_all_layers, NULL, m ? 2e-3 : 5e-4);
        for (size_t k = 0; k < 4; k++) {
            if (!test_takes(m + k, 3, 2)) continue;
            a.gpu = test_lora(a.pair.gpu_engine, ranks[k], 3, k % 2 == 0);
            a.cpu = test_lora(a.pair.cpu_engine, ranks[k], 3, k % 2 == 0);
            apply(&a, 0.7f);
            check_tokens(&a.pair, ids, LENGTH);
            apply(&a, 1); /* no op for the scale, and inner products in one */
            check_tokens(&a.pair, ids, LENGTH);
            set(a.pair.gpu, NULL, 0);
            set(a.pair.cpu, NULL, 0);
            tern_lora_close(a.gpu);
            tern_lora_close(a.cpu);
        }
        test_pair_close(&a.pair);
    }
}

static float *logits_of(tern_session *s)
{
    tern_error err = {0};
    size_t bytes = LENGTH * tern_engine_config(tern_session_engine(s))->n_vocab * sizeof(float);
    float *logits = malloc(bytes);
    tern_session_truncate(s, 0);
    assert_ok(tern_session_append_all(s, ids, LENGTH, &err), err);
    memcpy(logits, test_logits(s, 0), bytes);
    return logits;
}

/* A pair for each expert, in one step and in many. */
static void experts(void **state)
{
    (void)state;
    static const char *const models[] = {"mixtral", "gpt-oss"};
    for (size_t m = 0; m < 2; m++) {
        adapted a;
        test_pair_open(&a.pair, test_fixture(models[m]), test_all_layers, NULL, 5e-4);
        a.gpu = test_lora(a.pair.gpu_engine, m ? 16 : 4, 5, m);
        a.cpu = test_lora(a.pair.cpu_engine, m ? 16 : 4, 5, m);
        for (int whole = 0; whole < 2; whole++) { /* 1: no op for the scale */
            apply(&a, whole ? 1 : 0.7f);
            check_tokens(&a.pair, ids, LENGTH);
        }
        float *on = logits_of(a.pair.gpu);
        set(a.pair.gpu, NULL, 0);
        float *off = logits_of(a.pair.gpu);
        assert_true(test_rms_error(on, off, LENGTH * tern_engine_config(a.pair.gpu_engine)->n_vocab) > 1e-2);
        free(on);
        free(off);
        set(a.pair.cpu, NULL, 0);
        tern_lora_close(a.gpu);
        tern_lora_close(a.cpu);
        test_pair_close(&a.pair);
    }
}

/* Taken away, or of scale 0, an adapter leaves the bits of before; put back, those of a session opened with it. */
static void swapped(void **state)
{
    (void)state;
    for (uint32_t split = 0; split < 2; split++) {
        tern_error err = {0};
        tern_engine *engine = test_gpu_engine(test_fixture("bitnet"), split ? 2 : test_all_layers, NULL);
        tern_lora *a = test_lora(engine, 4, 1, false), *b = test_lora(engine, 8, 2, true);
        const tern_lora_use both[] = {{a, 1}, {b, 0.5f}}, off = {a, 0};
        const tern_session_params params = {.size = sizeof params,
                                            .n_ctx = 128,
                                            .max_outputs = 128,
                                            .kv = {TERN_KV_F32, TERN_KV_F32},
                                            .loras = both,
                                            .n_loras = 2};
        tern_session *s = test_session(engine, false), *fresh;
        assert_ok(tern_session_open(&fresh, engine, &params, &err), err);
        size_t n = LENGTH * tern_engine_config(engine)->n_vocab, bytes = n * sizeof(float);
        float *base = logits_of(s), *want = logits_of(fresh);
        assert_true(test_rms_error(want, base, n) > 1e-2);
        for (uint32_t i = 0; i < 3; i++) {
            set(s, both, 2);
            float *on = logits_of(s);
            set(s, &off, i % 2);
            float *none = logits_of(s);
            assert_memory_equal(on, want, bytes);
            assert_memory_equal(none, base, bytes);
            free(on);
            free(none);
        }
        free(base);
        free(want);
        tern_session_close(s);
        tern_session_close(fresh);
        tern_lora_close(a);
        tern_lora_close(b);
        tern_engine_close(engine);
    }
}

static void generate_ids(tern_session *s, seen *out)
{
    tern_generate_params params = greedy_params(out, 20);
    tern_error err = {0};
    tern_generate_result result = {.size = sizeof result};
    tern_session_truncate(s, 0);
    assert_ok(tern_generate(s, ids, 8, &params, &result, &err), err);
    assert_int_equal(result.steps, tern_session_n_ctx(s) == 96 ? 8 : 1);
}

/* The graph that chooses tokens has the adapters too: as many at once as one by one, and other text than without. */
static void chosen_on_the_device(void **state)
{
    (void)state;
    tern_engine *engine = test_gpu_engine(test_fixture("llama"), test_all_layers, NULL);
    tern_lora *lora = test_lora(engine, 8, 4, true);
    const tern_lora_use use = {lora, 2};
    tern_session *many = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 96, .steps = 8)),
                 *single = open_session(
                     engine, TERN_SIZED(tern_session_params, .n_ctx = 95, .steps = 1, .loras = &use, .n_loras = 1));
    seen texts[3] = {0};
    generate_ids(many, &texts[0]);
    set(many, &use, 1);
    generate_ids(many, &texts[1]);
    generate_ids(single, &texts[2]);
    assert_true(texts[1].n_ids == texts[2].n_ids && texts[1].n_ids > 0);
    assert_memory_equal(texts[1].ids, texts[2].ids, texts[1].n_ids * sizeof *ids);
    assert_true(texts[0].n_ids != texts[1].n_ids || memcmp(texts[0].ids, texts[1].ids, texts[0].n_ids * sizeof *ids));
    for (int i = 0; i < 3; i++) forget(&texts[i]);
    tern_session_close(many);
    tern_session_close(single);
    tern_lora_close(lora);
    tern_engine_close(engine);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(golden_whole), cmocka_unit_test(golden_split),         cmocka_unit_test(every_rank),
    cmocka_unit_test(swapped),      cmocka_unit_test(chosen_on_the_device), cmocka_unit_test(experts),
};

TEST_GROUP(lora_gpu, "devices long", tests, .setup = setup, .teardown = test_backends_close);
