/* Whole models on a GPU: PyTorch's numbers, the CPU's, its text; and with the layers split between the two. */
#include "support/gpu_model.h"

#include <math.h>

#include "format/json.h"
#include "infer/support.h"
#include "support/converted.h"
#include "support/golden.h"
#include "support/logits.h"
#include "support/op_case.h"
#include "support/places.h"

enum { MAX_BYTES = 1 << 20, ALL = 1000, FEW = 6, N_GENERATED = 64, N_PERPLEXITY = 4096 };

static void check_model(const char *name, uint32_t gpu_layers, double max_rms, uint32_t n_single)
{
    char golden[64];
    snprintf(golden, sizeof golden, "%s/golden.safetensors", name);
    test_pair pair;
    test_pair_open(&pair, test_fixture(name), gpu_layers, NULL, max_rms);
    test_pair_check_golden(&pair, test_fixture(golden), n_single);
    test_pair_close(&pair);
}

static void bitnet(void **state)
{
    (void)state;
    check_model("bitnet", test_all_layers, 2e-3, test_quick() ? FEW : ALL);
}

static void bitnet_packed(void **state)
{
    (void)state;
    check_model("bitnet-packed", test_all_layers, 2e-3, test_quick() ? FEW : ALL);
}

static void llama(void **state)
{
    (void)state;
    check_model("llama", test_all_layers, 5e-4, test_quick() ? FEW : ALL);
}

/* Without the int8 quantiser (tests/data/activations). */
static void f32_activations(void **state)
{
    (void)state;
    test_pair pair;
    test_pair_open(&pair, test_fixture("bitnet"), test_all_layers, &(tern_engine_params){.f32_activations = true},
                   5e-4);
    test_pair_check_golden(&pair, TERN_SOURCE_DIR "/tests/data/activations/bitnet_f32.safetensors", FEW);
    assert_int_equal(pair.n_flips, 0);
    test_pair_close(&pair);
}

/* Experts on half of the layers; on all: test_goldens_families_gpu.c. */
static void experts(void **state)
{
    (void)state;
    check_model("mixtral", 1, 5e-4, FEW);
}

static void trained_model(void **state)
{
    (void)state;
    test_pair pair;
    test_pair_open(&pair, test_model("tiny-stories-bitnet"), test_all_layers, NULL, 2e-3);
    test_pair_check_golden(&pair, test_model("tiny-stories-bitnet/golden_logits.safetensors"), FEW);
    test_pair_close(&pair);
}

/* Every cut of both families. */
static void split(void **state)
{
    (void)state;
    for (uint32_t n = 0; n <= 4; n++) {
        if (test_takes(n, 2, 1)) check_model("bitnet", n, 2e-3, FEW);
        if (test_takes(n, 5, 1)) check_model("llama", n, 5e-4, FEW);
    }
}

/* Greedy decoding of n tokens in all after a prompt, with the logits of each: rows[n][n_vocab]. */
static void decode(tern_session *session, int32_t *ids, uint32_t n_prompt, uint32_t n, float *rows)
{
    tern_error err = {0};
    uint32_t n_vocab = tern_engine_config(tern_session_engine(session))->n_vocab;
    tern_session_truncate(session, 0);
    assert_ok(tern_session_append_all(session, ids, n_prompt, &err), err);
    memcpy(rows, test_logits(session, 0), (size_t)n_prompt * n_vocab * sizeof *rows);
    for (uint32_t t = n_prompt; t < n; t++) {
        ids[t] = (int32_t)test_top(rows + (size_t)(t - 1) * n_vocab, n_vocab, NULL);
        assert_ok(tern_session_append(session, &ids[t], 1, &err), err);
        memcpy(rows + (size_t)t * n_vocab, test_logits(session, 0), n_vocab * sizeof *rows);
    }
}

/* Whether the text is the golden one; where not, it must be what the CPU writes with some ties rounded the other way.
 */
static bool check_text(test_pair *pair, const json_t *golden)
{
    enum { MAX = 96 };
    const json_t *want = json_object_get(golden, "ids");
    int32_t ids[MAX];
    bool same = true;
    uint32_t n = (uint32_t)json_array_size(want), n_prompt = n - N_GENERATED;
    assert_true(n <= MAX);
    for (uint32_t t = 0; t < n_prompt; t++) ids[t] = (int32_t)json_number_value(json_array_get(want, t));
    float *rows = malloc((size_t)n * tern_engine_config(pair->cpu_engine)->n_vocab * sizeof *rows);
    decode(pair->gpu, ids, n_prompt, n, rows);
    for (uint32_t t = 0; t < n; t++) same = same && ids[t] == (int32_t)json_number_value(json_array_get(want, t));
    if (!same) assert_true(test_pair_check(pair, ids, n, rows) > 0);
    free(rows);
    return same;
}

static void check_texts(uint32_t gpu_layers)
{
    tern_error err = {0};
    json_t *root, *golden;
    const char *prompt;
    uint32_t n = 0, n_same = 0;
    test_pair pair;
    test_pair_open(&pair, test_model("tiny-stories-bitnet"), gpu_layers, NULL, 2e-3);
    assert_ok(tern_json_read(&root, test_model("tiny-stories-bitnet/golden_greedy.json"), MAX_BYTES, &err), err);
    json_object_foreach(root, prompt, golden)
    {
        bool same = check_text(&pair, golden);
        if (!same) print_message("\"%s\" goes on in another way after a rounding tie\n", prompt);
        if (strcmp(prompt, "There once was a gentle boy who") == 0) assert_true(same);
        n_same += same;
        n++;
    }
    assert_true(n == 5 && n_same >= 2);
    tern_json_free(root);
    test_pair_close(&pair);
}

static void greedy_text(void **state)
{
    (void)state;
    check_texts(test_all_layers);
}

static void greedy_text_split(void **state)
{
    (void)state;
    check_texts(3);
}

/* Held-out text is as likely as PyTorch says (when quick, a part of it as likely as on the CPU), token by token as
 * likely as on the CPU. */
static void perplexity(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_engine *gpu = test_gpu_engine(test_model("tiny-stories-bitnet"), test_all_layers, NULL),
                *cpu = open_trained(0);
    tern_session *a = open_session(gpu, TERN_SIZED(tern_session_params, .n_ctx = 512, .max_outputs = 128));
    tern_session *b = open_session(cpu, TERN_SIZED(tern_session_params, .n_ctx = 512, .max_outputs = 128));
    tern_tokens ids = test_heldout(cpu);
    tern_perplexity_result result = {.size = sizeof result};
    tern_perplexity_params params = {.size = sizeof params, .window = 512, .against = b};
    assert_ok(tern_perplexity(a, ids.ids, test_quick() ? 128 : N_PERPLEXITY, &params, &result, &err), err);
    print_message("perplexity %g, KL divergence from the CPU %g, same top token %g\n", result.ppl, result.kl,
                  result.same_top1);
    if (!test_quick()) assert_true(fabs(exp(test_heldout_nll() - result.nll) - 1) <= 0.005);
    assert_true(result.kl <= 1e-3);
    assert_true(result.same_top1 >= 0.97);
    tern_tokens_deinit(&ids);
    tern_session_close(a);
    tern_session_close(b);
    tern_engine_close(gpu);
    tern_engine_close(cpu);
}

/* Where nothing is chosen dense layers in blocks multiply f32 on a GPU, and beside one. */
static void automatic_activations(void **state)
{
    (void)state;
    const tern_engine_params how = {.int8_blocks = TERN_BLOCK_ROWS_AUTO};
    const char *path = test_converted(test_fixture("llama"), "q8_0", "q8_0");
    for (uint32_t layers = 1; layers <= test_all_layers; layers += test_all_layers - 1) {
        tern_engine *engine = test_gpu_engine(path, layers, &how);
        assert_string_equal(tern_engine_activations(engine), "f32");
        assert_int_equal(tern_engine_int8_blocks(engine), TERN_BLOCK_ROWS_F32);
        tern_engine_close(engine);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(bitnet),          cmocka_unit_test(bitnet_packed),         cmocka_unit_test(llama),
    cmocka_unit_test(f32_activations), cmocka_unit_test(trained_model),         cmocka_unit_test(split),
    cmocka_unit_test(greedy_text),     cmocka_unit_test(greedy_text_split),     cmocka_unit_test(perplexity),
    cmocka_unit_test(experts),         cmocka_unit_test(automatic_activations),
};

TEST_GROUP(goldens_gpu, "devices", tests, .teardown = test_backends_close);
