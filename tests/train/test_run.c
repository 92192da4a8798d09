/* Whole runs: what they learn, what they write, what they say, and what they refuse. */
#include "train/run_cases.h"

#include "base/bytes.h"
#include "quant/encoding.h"
#include "quant/weight.h"

/* The mean loss of the sequences in a file of ids, from the logits of a session: inference, not training. */
static double loss_of(const char *path, const char *jsonl)
{
    tern_error err = {0};
    tern_engine *engine = NULL;
    tern_session *session = NULL;
    const tern_engine_options how = {.size = sizeof how, .cpu.n_threads = 1};
    const tern_session_params params = {
        .size = sizeof params, .n_ctx = 64, .max_outputs = RUN_SEQ, .kv = {TERN_KV_F32, TERN_KV_F32}};
    assert_ok(tern_engine_load(&engine, path, &how, &err), err);
    assert_ok(tern_session_open(&session, engine, &params, &err), err);
    tern_buf text = bytes_of(jsonl);
    double sum = 0;
    size_t n = 0;
    for (char *line = text.data, *end; (end = strchr(line, '\n')); line = end + 1) {
        int32_t ids[RUN_SEQ];
        char *at = strchr(line, '[') + 1;
        for (size_t i = 0; i < RUN_SEQ; i++, at++) ids[i] = (int32_t)strtol(at, &at, 10);
        tern_session_truncate(session, 0);
        assert_ok(tern_session_append_all(session, ids, RUN_SEQ - 1, &err), err);
        for (uint32_t i = 0; i + 1 < RUN_SEQ; i++, n++) {
            const float *logits = test_logits(session, i);
            double total = 0;
            for (size_t v = 0; v < RUN_VOCAB; v++) total += exp((double)logits[v]);
            sum += log(total) - (double)logits[ids[i + 1]];
        }
    }
    tern_buf_deinit(&text);
    tern_session_close(session);
    tern_engine_close(engine);
    return sum / (double)n;
}

static void assert_near(double found, double want, double relative)
{
    if (!(fabs(found - want) <= relative * fabs(want))) fail_msg("%.6f found, %.6f expected", found, want);
}

/* What is written is the model whose validation loss was told, and inference agrees. */
static void a_run_learns_and_its_result_runs(void **state)
{
    (void)state;
    char *validation = strdup(put_sequences("validation.jsonl", 20, 4));
    static const char *const outputs[] = {"learned", "learned.gguf", "learned-tq1.gguf"};
    for (size_t i = 0; i < 3; i++) {
        const run_path out = scratch(outputs[i]);
        said s;
        tern_finetune_options o = run_case_options(out.text);
        o.validation_split = -1;
        o.validation_data = validation;
        o.steps = 120;
        o.batch = 8;
        o.evaluate_every = 30;
        o.type = i == 2 ? "t160" : NULL;
        o.plot = true;
        const tern_finetune_result r = run_case_run(o, &s);
        assert_int_equal(s.n_steps, 120);
        assert_int_equal(s.n_evaluated, 5); /* before the first step, too */
        assert_int_equal(s.n_written, 1);
        assert_string_equal(s.written, out.text);
        assert_near(s.first_validation, log(RUN_VOCAB), 0.1);
        assert_near(loss_of(run_case_model.text, validation), s.first_validation, 2e-3);
        if (!(s.best < 0.6 * s.first_validation)) fail_msg("%g to %g", s.first_validation, s.best);
        assert_near(loss_of(out.text, validation), s.best, 2e-3);
        assert_true(r.best_validation == s.best && r.first_validation == s.first_validation);
        assert_true(r.n_steps == 120 && r.n_tokens == 120 * 8 * (RUN_SEQ - 1) && !r.stopped_early);
        assert_true(r.planned_bytes == s.planned && r.resident_bytes > 1 << 20 && r.tokens_per_second > 0);
    }
    assert_true(access(inside(scratch("learned").text, "loss.svg").text, F_OK) == 0);
    assert_true(access(inside(scratch("learned.train").text, "loss.csv").text, F_OK) == 0);
    free(validation);
}

static void adapters_are_written(void **state)
{
    static const char *const targets[] = {"q_proj", "down_proj"};
    (void)state;
    tern_error err = {0};
    tern_model *base;
    assert_ok(tern_model_open(&base, run_case_model.text, NULL, &err), err);
    for (int gguf = 0; gguf < 2; gguf++) {
        const run_path out = scratch(gguf ? "adapter.gguf" : "adapter");
        said s;
        tern_adapter *adapter;
        tern_finetune_options o = run_case_options(out.text);
        o.lora_rank = 4;
        o.lora_targets = targets;
        o.n_lora_targets = 2;
        o.steps = 60;
        o.validation_split = 0.2;
        run_case_run(o, &s);
        assert_true(s.last_validation < s.first_validation);
        assert_ok(tern_adapter_open(&adapter, out.text, base, &err), err);
        const tern_adapter_info *info = tern_adapter_describe(adapter);
        assert_int_equal(info->rank, 4);
        assert_true(info->alpha == 8);
        assert_int_equal(info->n_pairs, 4);
        assert_non_null(tern_adapter_find(adapter, TERN_ROLE_FFN_DOWN, 1));
        assert_null(tern_adapter_find(adapter, TERN_ROLE_ATTN_K, 1));
        tern_adapter_close(adapter);
        /* And gone on from. */
        o = run_case_options(gguf ? scratch("adapter-2.gguf").text : scratch("adapter-2").text);
        o.lora_start = out.text;
        o.validation_split = 0.2;
        said more;
        run_case_run(o, &more);
        assert_near(more.first_validation, s.best, 1e-4);
    }
    tern_model_close(base);
}

/* Sequences that have nothing to do with the others: what helps here hurts there. */
static void the_best_weights_are_kept(void **state)
{
    (void)state;
    char *other = strdup(put_sequences("unlike.jsonl", 20, 5));
    tern_buf text = bytes_of(other);
    for (size_t i = 0; i < text.size; i++) /* other digits, the same form */
        if (text.data[i] == '1') text.data[i] = '2';
    snprintf(other, strlen(other) + 1, "%s", put_file("unlike.jsonl", text.data, text.size));
    tern_buf_deinit(&text);
    const run_path out = scratch("best.gguf");
    said s;
    tern_finetune_options o = run_case_options(out.text);
    o.validation_split = -1;
    o.validation_data = other;
    o.steps = 400;
    o.lr = 2e-2;
    o.evaluate_every = 5;
    o.patience = 3;
    const tern_finetune_result r = run_case_run(o, &s);
    assert_true(r.stopped_early && r.n_steps < 400);
    assert_true(r.best_step + 3 * 5 == r.n_steps);
    assert_true(s.last_validation > s.best);
    assert_near(loss_of(out.text, other), s.best, 2e-3);
    free(other);
}

/* Training that only does harm leaves the model as it was, and says so. */
static void harm_is_not_written(void **state)
{
    (void)state;
    char *validation = strdup(put_sequences("validation.jsonl", 20, 4));
    const run_path out = scratch("harmed.gguf");
    said s;
    tern_finetune_options o = run_case_options(out.text);
    o.validation_split = -1;
    o.validation_data = validation;
    o.steps = 4;
    o.lr = 0.5;
    o.warmup = 0;
    o.evaluate_every = 1;
    const tern_finetune_result r = run_case_run(o, &s);
    assert_true(r.best_step == 0 && s.last_validation > s.best);
    assert_non_null(strstr(s.notes, "no step has lowered the validation loss"));
    assert_near(loss_of(out.text, validation), s.first_validation, 2e-3);
    /* A run that goes on knows where it began. */
    o.overwrite = false;
    o.resume = true;
    const tern_finetune_result again = run_case_run(o, &s);
    assert_true(s.n_steps == 0 && fabs(again.first_validation - r.first_validation) < 1e-6);
    free(validation);
}

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; (text = strchr(text, '\n')); text++) n++;
    return n;
}

static void the_curve_is_written(void **state)
{
    (void)state;
    const run_path out = scratch("curve");
    said s;
    tern_finetune_options o = run_case_options(out.text);
    o.validation_split = 0.2;
    o.evaluate_every = 4;
    run_case_run(o, &s);
    tern_buf csv = bytes_of(inside(out.text, "loss.csv").text);
    unsigned step, tokens;
    double epoch, loss, ppl, norm, lr, validation;
    assert_int_equal(count_lines(csv.data), 1 + 1 + 10);
    csv.data[csv.size - 1] = 0;
    const char *line = strrchr(csv.data, '\n') + 1;
    assert_int_equal(
        sscanf(line, "%u,%u,%lf,%lf,%lf,%lf,%lf,%lf", &step, &tokens, &epoch, &loss, &ppl, &norm, &lr, &validation), 8);
    assert_int_equal(step, 10);
    assert_int_equal(tokens, 10 * 2 * (RUN_SEQ - 1));
    assert_near(loss, s.last_loss, 1e-8);
    assert_near(validation, s.last_validation, 1e-8);
    tern_buf_deinit(&csv);
}

/* A dense model becomes a ternary one, its quantisers blended in. */
static void dense_models_become_ternary(void **state)
{
    (void)state;
    tern_error err = {0};
    const run_path dense = scratch("dense-model"), out = scratch("blended.gguf");
    tern_init init;
    static const char config[] = "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 128, "
                                 "\"intermediate_size\": 128, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "
                                 "\"vocab_size\": 64, \"max_position_embeddings\": 64}";
    assert_ok(tern_init_read(&init, put_file("dense.json", config, sizeof config - 1), &err), err);
    const tern_master_source source = tern_init_source(&init);
    assert_ok(tern_hf_write(dense.text, &init.config, NULL, &source, NULL, &err), err);
    said s;
    tern_finetune_options o = run_case_options(out.text);
    o.model = dense.text;
    o.blend_steps = 20;
    o.steps = 60;
    o.batch = 8;
    o.validation_split = -1;
    char *validation = strdup(put_sequences("validation.jsonl", 20, 4));
    o.validation_data = validation;
    o.evaluate_every = 60;
    run_case_run(o, &s);
    assert_true(s.last_validation < 0.9 * s.first_validation);
    tern_model *made;
    assert_ok(tern_model_open(&made, out.text, NULL, &err), err);
    assert_true(tern_model_weight(made, TERN_ROLE_FFN_UP, 1)->encoding->ternary);
    tern_model_close(made);
    assert_near(loss_of(out.text, validation), s.best, 2e-2);
    free(validation);
}

/* ---- from scratch */

static void models_come_from_nothing(void **state)
{
    static const char config[] = "{\"hidden_size\": 128, \"intermediate_size\": 128, \"num_hidden_layers\": 1, "
                                 "\"num_attention_heads\": 2, \"vocab_size\": 300, \"max_position_embeddings\": 64}";
    static const char line[] = "The cat sat on the mat, and the dog sat on the log.\n\n";
    (void)state;
    tern_error err = {0};
    tern_buf text = {0};
    for (int i = 0; i < 100; i++) assert_ok(tern_buf_addf(&text, &err, "%d. %s", i % 10, line), err);
    char *corpus = strdup(put_file("corpus.txt", text.data, text.size));
    char *json = strdup(put_file("nothing.json", config, sizeof config - 1));
    const char *list[] = {corpus};
    const run_path out = scratch("nothing.gguf");
    said s;
    tern_finetune_options o = run_options(NULL, list, out.text);
    o.config = json;
    o.split = TERN_FINETUNE_SPLIT_BLANK;
    o.seq = 32;
    o.steps = 60;
    o.sample_every = 60;
    o.sample_prompt = "The";
    o.sample_tokens = 8;
    run_case_run(o, &s);
    assert_true(s.last_loss < 0.5 * s.first_loss);
    assert_int_equal(s.n_samples, 1);
    assert_true(strncmp(s.sample, "The", 3) == 0 && strlen(s.sample) > 5);
    tern_model *made;
    assert_ok(tern_model_open(&made, out.text, NULL, &err), err);
    tern_tokens ids = {0};
    assert_ok(tern_tokenize(tern_model_tokenizer(made), "the cat sat on", 14, false, &ids, &err), err);
    assert_true(ids.n <= 6); /* it has learned what words there are */
    tern_tokens_deinit(&ids);
    const uint32_t n_tokens = tern_tokenizer_size(tern_model_tokenizer(made));
    assert_true(n_tokens > 261 && n_tokens <= 300);
    tern_model_close(made);
    /* A second one with the tokenizer of the first. */
    const run_path second = scratch("nothing-2");
    o.output = second.text;
    o.tokenizer = out.text;
    o.steps = 2;
    o.sample_every = 0;
    run_case_run(o, &s);
    assert_ok(tern_model_open(&made, second.text, NULL, &err), err);
    assert_int_equal(tern_tokenizer_size(tern_model_tokenizer(made)), n_tokens);
    tern_model_close(made);
    tern_buf_deinit(&text);
    free(corpus);
    free(json);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_run_learns_and_its_result_runs),
    cmocka_unit_test(adapters_are_written),
    cmocka_unit_test(the_best_weights_are_kept),
    cmocka_unit_test(harm_is_not_written),
    cmocka_unit_test(the_curve_is_written),
    cmocka_unit_test(dense_models_become_ternary),
    cmocka_unit_test(models_come_from_nothing),
};

TEST_GROUP(run, "slow", tests, .setup = run_case_make_files);
