/* Whole models on a GPU: PyTorch's numbers, the CPU's, its text; and with the layers split between the two. */
#include "support/gpu_model.h"

#include <math.h>

#include "format/json.h"
#include "infer/perplexity.h"
#include "infer/support.h"
#include "support/op_case.h"

enum { MAX_BYTES = 1 << 20, ALL = 1000, FEW = 6 };

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
        check_model("bitnet", n, 2e-3, FEW);
        if (!test_quick()) check_model("llama", n, 5e-4, FEW);
    }
}

static void check_text(tern_session *session, const char *prompt, const json_t *golden)
{
    const char *text = json_string_value(json_object_get(golden, "text")); /* prompt included */
    seen s = {0};
    tern_generate_params params = greedy_params(&s, 64);
    generate(session, prompt, &params);
    assert_string_equal(s.text.data, text + strlen(prompt));
    forget(&s);
}

static tern_engine *open_trained_on_gpu(uint32_t gpu_layers)
{
    tern_error err = {0};
    tern_model *model;
    tern_engine *engine;
    test_gpu_backend();
    tern_engine_params params = {.backend = {.name = "vulkan", .n_threads = 1, .device = getenv("TERN_TEST_DEVICE")}};
    params.backend.split = gpu_layers != test_all_layers;
    params.backend.gpu_layers = gpu_layers;
    assert_ok(tern_model_open(&model, test_model("tiny-stories-bitnet"), &(tern_model_options){0}, &err), err);
    assert_ok(tern_engine_open(&engine, model, &params, &err), err);
    return engine;
}

/* The same words as on the CPU, whose margins are all clear enough (at least 0.0079). */
static void check_texts(uint32_t gpu_layers)
{
    tern_error err = {0};
    json_t *root;
    tern_engine *engine = open_trained_on_gpu(gpu_layers);
    tern_session *session = open_session(engine, (tern_session_params){.n_ctx = 128});
    assert_ok(tern_json_read(&root, test_model("tiny-stories-bitnet/golden_greedy.json"), MAX_BYTES, &err), err);
    const char *prompt;
    json_t *golden;
    json_object_foreach(root, prompt, golden) check_text(session, prompt, golden);
    tern_json_free(root);
    tern_session_close(session);
    tern_engine_close(engine);
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

/* Held-out text: all of it must be as likely as PyTorch says; when quick, a part as likely as on the CPU. */
static void perplexity(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_engine *gpu = open_trained_on_gpu(test_all_layers), *cpu = open_trained(1);
    tern_session *a = open_session(gpu, (tern_session_params){.n_ctx = 512, .max_outputs = 128});
    tern_session *b = open_session(cpu, (tern_session_params){.n_ctx = 512, .max_outputs = 128});
    tern_buf text = {0};
    tern_tokens ids = {0};
    assert_ok(tern_file_read(&text, test_model("tiny-stories-bitnet/heldout_shakespeare.txt"), MAX_BYTES, &err), err);
    assert_ok(tern_tokenize(tern_model_tokenizer(tern_engine_model(cpu)), text.data, text.size, false, &ids, &err),
              err);
    uint32_t n = test_quick() ? 128 : 1024;
    tern_perplexity_result result;
    assert_ok(tern_perplexity(a, ids.ids, n, &(tern_perplexity_params){.window = 512, .against = b}, &result, &err),
              err);
    print_message("perplexity %g, KL divergence from the CPU %g, same top token %g\n", result.ppl, result.kl,
                  result.same_top1);
    assert_true(result.kl <= 1e-3);
    assert_true(result.same_top1 >= 0.99);
    tern_buf_deinit(&text);
    tern_tokens_deinit(&ids);
    tern_session_close(a);
    tern_session_close(b);
    tern_engine_close(gpu);
    tern_engine_close(cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bitnet),
        cmocka_unit_test(bitnet_packed),
        cmocka_unit_test(llama),
        cmocka_unit_test(trained_model),
        cmocka_unit_test(split),
        cmocka_unit_test(greedy_text),
        cmocka_unit_test(greedy_text_split),
        cmocka_unit_test(perplexity),
    };
    return cmocka_run_group_tests(tests, NULL, test_backends_close);
}
