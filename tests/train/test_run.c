/* Whole runs: what they learn, what they write, what they say, and what they refuse. */
#include "support/converted.h"
#include "support/logits.h"
#include "train/run_support.h"

#include "infer/session.h"
#include "model/adapter.h"

static run_path model, data;
static const char *data_list[1];

static int make_files(void **state)
{
    (void)state;
    model = put_model("run-model");
    snprintf(data.text, sizeof data.text, "%s", put_sequences("run.jsonl", 80, 3));
    data_list[0] = data.text;
    return 0;
}

static tern_finetune_options options(const char *output)
{
    return run_options(model.text, data_list, output);
}

/* What a run said. */
typedef struct said {
    uint64_t n_planned, n_steps, n_evaluated, n_saved, n_notes, n_written, n_samples;
    double first_loss, last_loss, first_validation, last_validation, best, least_duty;
    uint64_t planned, total_rows;
    uint32_t batch, accumulate;
    char notes[1024], sample[1024], written[512];
} said;

static void hear(void *context, const tern_finetune_event *e)
{
    said *s = context;
    switch (e->kind) {
    case TERN_FINETUNE_PLANNED:
        s->n_planned++;
        s->planned = e->plan->total;
        s->total_rows = e->plan->n_rows + e->plan->n_validation_rows;
        s->batch = e->plan->batch;
        s->accumulate = e->plan->accumulate;
        break;
    case TERN_FINETUNE_STEP:
        if (s->n_steps++ == 0) s->first_loss = e->loss;
        s->last_loss = e->loss;
        assert_true(e->step == s->n_steps && e->norm > 0 && e->tokens_per_second > 0 && e->step_ms > 0);
        assert_true(fabs(e->ppl - exp(e->loss)) < 1e-9 * e->ppl);
        if (s->n_steps == 1 || e->duty < s->least_duty) s->least_duty = e->duty;
        break;
    case TERN_FINETUNE_EVALUATED:
        if (s->n_evaluated++ == 0) s->first_validation = e->loss;
        s->last_validation = e->loss;
        s->best = e->best_loss;
        break;
    case TERN_FINETUNE_SAVED: s->n_saved++; break;
    case TERN_FINETUNE_NOTE:
        s->n_notes++;
        snprintf(s->notes + strlen(s->notes), sizeof s->notes - strlen(s->notes), "%s\n", e->text);
        break;
    case TERN_FINETUNE_SAMPLE:
        s->n_samples++;
        snprintf(s->sample, sizeof s->sample, "%s", e->text);
        break;
    case TERN_FINETUNE_WRITTEN:
        s->n_written++;
        snprintf(s->written, sizeof s->written, "%s", e->text);
        break;
    case TERN_FINETUNE_PROGRESS: break;
    }
}

static tern_finetune_result run(tern_finetune_options o, said *s)
{
    tern_error err = {0};
    tern_finetune_result result;
    memset(s, 0, sizeof *s);
    o.on_event = hear;
    o.context = s;
    assert_ok(tern_finetune(&o, &result, &err), err);
    return result;
}

/* The mean loss of the sequences in a file of ids, from the logits of a session: inference, not training. */
static double loss_of(const char *path, const char *jsonl)
{
    tern_error err = {0};
    tern_engine *engine = NULL;
    tern_session *session = NULL;
    const tern_engine_options how = {.n_threads = 1};
    const tern_session_params params = {.n_ctx = 64, .max_outputs = RUN_SEQ, .kv = TERN_KV_F32};
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
        tern_finetune_options o = options(out.text);
        o.validation_split = -1;
        o.validation_data = validation;
        o.steps = 120;
        o.batch = 8;
        o.evaluate_every = 30;
        o.type = i == 2 ? "t160" : NULL;
        o.plot = true;
        const tern_finetune_result r = run(o, &s);
        assert_int_equal(s.n_steps, 120);
        assert_int_equal(s.n_evaluated, 5); /* before the first step, too */
        assert_int_equal(s.n_written, 1);
        assert_string_equal(s.written, out.text);
        assert_near(s.first_validation, log(RUN_VOCAB), 0.1);
        assert_near(loss_of(model.text, validation), s.first_validation, 2e-3);
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
    assert_ok(tern_model_open(&base, model.text, NULL, &err), err);
    for (int gguf = 0; gguf < 2; gguf++) {
        const run_path out = scratch(gguf ? "adapter.gguf" : "adapter");
        said s;
        tern_adapter *adapter;
        tern_finetune_options o = options(out.text);
        o.lora_rank = 4;
        o.lora_targets = targets;
        o.n_lora_targets = 2;
        o.steps = 60;
        o.validation_split = 0.2;
        run(o, &s);
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
        o = options(gguf ? scratch("adapter-2.gguf").text : scratch("adapter-2").text);
        o.lora_start = out.text;
        o.validation_split = 0.2;
        said more;
        run(o, &more);
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
    tern_finetune_options o = options(out.text);
    o.validation_split = -1;
    o.validation_data = other;
    o.steps = 400;
    o.lr = 2e-2;
    o.evaluate_every = 5;
    o.patience = 3;
    const tern_finetune_result r = run(o, &s);
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
    tern_finetune_options o = options(out.text);
    o.validation_split = -1;
    o.validation_data = validation;
    o.steps = 4;
    o.lr = 0.5;
    o.warmup = 0;
    o.evaluate_every = 1;
    const tern_finetune_result r = run(o, &s);
    assert_true(r.best_step == 0 && s.last_validation > s.best);
    assert_non_null(strstr(s.notes, "no step has lowered the validation loss"));
    assert_near(loss_of(out.text, validation), s.first_validation, 2e-3);
    /* A run that goes on knows where it began. */
    o.overwrite = false;
    o.resume = true;
    const tern_finetune_result again = run(o, &s);
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
    tern_finetune_options o = options(out.text);
    o.validation_split = 0.2;
    o.evaluate_every = 4;
    run(o, &s);
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
    tern_finetune_options o = options(out.text);
    o.model = dense.text;
    o.blend_steps = 20;
    o.steps = 60;
    o.batch = 8;
    o.validation_split = -1;
    char *validation = strdup(put_sequences("validation.jsonl", 20, 4));
    o.validation_data = validation;
    o.evaluate_every = 60;
    run(o, &s);
    assert_true(s.last_validation < 0.9 * s.first_validation);
    tern_model *made;
    assert_ok(tern_model_open(&made, out.text, NULL, &err), err);
    assert_true(tern_model_weight(made, TERN_ROLE_FFN_UP, 1)->encoding->ternary);
    tern_model_close(made);
    assert_near(loss_of(out.text, validation), s.best, 2e-2);
    free(validation);
}

/* ---- from nothing */

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
    o.split = "blank";
    o.seq = 32;
    o.steps = 60;
    o.sample_every = 60;
    o.sample_prompt = "The";
    o.sample_tokens = 8;
    run(o, &s);
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
    run(o, &s);
    assert_ok(tern_model_open(&made, second.text, NULL, &err), err);
    assert_int_equal(tern_tokenizer_size(tern_model_tokenizer(made)), n_tokens);
    tern_model_close(made);
    tern_buf_deinit(&text);
    free(corpus);
    free(json);
}

/* ---- power */

static void heat_slows_it_down(void **state)
{
    static const char trace[] = "seconds,celsius\n0,90\n0.001,95\n";
    (void)state;
    const run_path out = scratch("warm");
    char *path = strdup(put_file("warm.csv", trace, sizeof trace - 1));
    said s;
    tern_finetune_options o = options(out.text);
    run(o, &s);
    assert_true(s.least_duty == 1);
    assert_int_equal(s.batch, 2);
    o.power = "balanced";
    run(o, &s);
    assert_true(s.least_duty == 0.9);
    o.power = "saver";
    o.batch = 0;
    run(o, &s);
    assert_true(s.least_duty == 0.6 && s.batch == 1 && s.accumulate == 4);
    o.power = NULL;
    o.max_temp = 89;
    o.thermal_trace = path;
    run(o, &s);
    assert_true(s.least_duty < 1);
    free(path);
}

/* Too hot to go on: it says so, what was learned is saved, and nothing else changes. */
static void heat_stops_a_run_for_a_while(void **state)
{
    static const char trace[] = "0,95\n2.5,\n4,60\n";
    (void)state;
    const run_path out = scratch("hot");
    said cool, hot;
    tern_finetune_options o = options(out.text);
    o.steps = 3;
    run(o, &cool);
    assert_int_equal(cool.n_saved, 1);
    o.max_temp = 80;
    o.thermal_trace = put_file("hot.csv", trace, sizeof trace - 1);
    run(o, &hot);
    assert_int_equal(hot.n_saved, 2);
    assert_int_equal(hot.n_steps, 3);
    assert_true(hot.last_loss == cool.last_loss);
    static const char *const notes[] = {"95 degrees, where 80 are too many: no work until it is below that",
                                        "not known any more, 95 degrees at last", "60 degrees: it goes on"};
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (!strstr(hot.notes, notes[i])) fail_msg("\"%s\" has no \"%s\"", hot.notes, notes[i]);
}

/* ---- plans */

static void plans_come_before_memory(void **state)
{
    (void)state;
    const run_path out = scratch("planned");
    said s, less;
    tern_error err = {0};
    tern_finetune_options o = options(out.text);
    o.dry_run = true;
    o.data = NULL;
    o.n_data = 0;
    o.output = NULL;
    run(o, &s);
    assert_true(s.n_planned == 1 && s.n_steps == 0 && s.n_written == 0 && s.planned > 1 << 20);
    o.states = "8bit";
    run(o, &less);
    assert_true(less.planned < s.planned);
    o = options(out.text);
    o.memory_limit = s.planned / 2;
    memset(&s, 0, sizeof s);
    o.on_event = hear;
    o.context = &s;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_OUT_OF_MEMORY);
    assert_int_equal(s.n_planned, 1);
    assert_non_null(strstr(err.message, "GiB expected; --"));
    o.dry_run = true;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_OUT_OF_MEMORY);
}

/* ---- refused */

static void assert_refused(tern_finetune_options o, tern_status code, const char *words)
{
    tern_error err = {0};
    tern_finetune_result result;
    const tern_status status = tern_finetune(&o, &result, &err);
    if (status != code || !strstr(err.message, words))
        fail_msg("status %d, \"%s\": status %d and \"%s\" expected", status, err.message, code, words);
    assert_int_equal(tern_finetune(&o, NULL, NULL), code);
}

#define REFUSE(code, words, change)                                                                                    \
    do {                                                                                                               \
        tern_finetune_options o = options(out.text);                                                                   \
        change;                                                                                                        \
        assert_refused(o, TERN_##code, words);                                                                         \
    } while (0)

static void mistakes_have_words(void **state)
{
    (void)state;
    const run_path out = scratch("mistakes");
    static const char *patterns[] = {"model.layers.9.*"};
    static const char *bad_target[] = {"z_proj"};
    static const char *missing[] = {"no-such-file.txt"};
    REFUSE(INVALID_ARGUMENT, "optimizer adam: adamw or sgd expected", o.optimizer = "adam");
    REFUSE(INVALID_ARGUMENT, "schedule flat: cosine, linear or constant expected", o.schedule = "flat");
    REFUSE(INVALID_ARGUMENT, "master f16: f32 or bf16 expected", o.master = "f16");
    REFUSE(INVALID_ARGUMENT, "states 4bit: f32, bf16 or 8bit expected", o.states = "4bit");
    REFUSE(INVALID_ARGUMENT, "power turbo: performance, balanced or saver expected", o.power = "turbo");
    REFUSE(INVALID_ARGUMENT, "type q9", o.type = "q9");
    REFUSE(INVALID_ARGUMENT, "goes with an output NAME.gguf", o.type = "i2_s");
    REFUSE(INVALID_ARGUMENT, "validation split 1: 0 up to", o.validation_split = 1);
    REFUSE(INVALID_ARGUMENT, "validation split nan", o.validation_split = NAN);
    REFUSE(INVALID_ARGUMENT, "epochs 0: above 0", (o.steps = 0, o.epochs = 0));
    REFUSE(INVALID_ARGUMENT, "learning rate -1: above 0", o.lr = -1);
    REFUSE(INVALID_ARGUMENT, "seq 65: at most the model's context of 64", o.seq = 65);
    REFUSE(INVALID_ARGUMENT, "beta1: 1 found", o.beta1 = 1);
    REFUSE(INVALID_ARGUMENT, "clip: nan found", o.clip = NAN);
    REFUSE(INVALID_ARGUMENT, "accumulate: 0 found", o.accumulate = 0);
    REFUSE(INVALID_ARGUMENT, "no tensor of that name", (o.freeze = patterns, o.n_freeze = 1));
    REFUSE(INVALID_ARGUMENT, "LoRA target z_proj",
           (o.lora_rank = 4, o.lora_targets = bad_target, o.n_lora_targets = 1));
    REFUSE(INVALID_ARGUMENT, "a model and a config: one of them", o.config = "x.json");
    REFUSE(INVALID_ARGUMENT, "neither a model nor a config", o.model = NULL);
    REFUSE(INVALID_ARGUMENT, "no data given", o.n_data = 0);
    REFUSE(INVALID_ARGUMENT, "no output given", o.output = NULL);
    REFUSE(INVALID_ARGUMENT, "input and output are the same folder", o.output = model.text);
    REFUSE(INVALID_ARGUMENT, "to resume and to overwrite", o.resume = true);
    REFUSE(INVALID_ARGUMENT, "split and mark", (o.split = "line", o.mark = "x"));
    const char *a_model[] = {test_small_model()};
    REFUSE(INVALID_ARGUMENT, ".gguf is a model: text, JSONL", o.data = a_model);
    REFUSE(INVALID_ARGUMENT, "run.jsonl: input and output are the same file", o.output = data.text);
    REFUSE(NOT_FOUND, "no-such-file.txt", o.data = missing);
    REFUSE(NOT_FOUND, "no-such-model", o.model = "no-such-model");
    REFUSE(NOT_FOUND, "no-such-adapter", o.lora_start = "no-such-adapter");
    REFUSE(UNSUPPORTED, "backend \"abacus\"", o.backend = "abacus");
    REFUSE(INVALID_ARGUMENT, "step ", (o.lr = 1e30, o.clip = 0, o.warmup = 0, o.optimizer = "sgd"));
}

/* A tokenizer that a folder cannot hold, and an encoding that the matrices do not fit, are found before the first step.
 */
static void results_are_rehearsed(void **state)
{
    (void)state;
    said s = {0};
    tern_error err = {0};
    const run_path out = scratch("rehearsed.gguf");
    tern_finetune_options o = options(out.text);
    o.type = "tq2_0"; /* rows of 256; these have 128 */
    o.on_event = hear;
    o.context = &s;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "the result could not be written: model.layers.0."));
    assert_int_equal(s.n_planned, 0);
}

/* Asks for a second run in the folder of the first. */
static void ask_again(void *context, const tern_finetune_event *e)
{
    tern_error err = {0};
    if (e->kind != TERN_FINETUNE_STEP || e->step != 1) return;
    tern_finetune_options o = *(const tern_finetune_options *)context;
    o.on_event = NULL;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "another run is at work in "));
}

static void one_run_works_in_a_folder(void **state)
{
    (void)state;
    tern_error err = {0};
    const run_path out = scratch("locked");
    tern_finetune_options o = options(out.text);
    o.steps = 2;
    tern_finetune_options same = o;
    o.on_event = ask_again;
    o.context = &same;
    assert_ok(tern_finetune(&o, NULL, &err), err);
    assert_ok(tern_finetune(&same, NULL, &err), err); /* the lock is gone */
}

/* A run that ended before its first checkpoint is begun again without a flag; what is there of others is not. */
static void what_is_there_is_kept(void **state)
{
    (void)state;
    tern_error err = {0};
    char command[1200];
    const run_path out = scratch("kept"), other = scratch("somebodys.gguf");
    snprintf(command, sizeof command, "rm -rf '%s' '%s'", out.text, scratch("somebodys.train").text);
    assert_int_equal(system(command), 0);
    tern_finetune_options o = options(out.text);
    o.steps = 2;
    o.overwrite = false;
    o.memory_limit = 1;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_OUT_OF_MEMORY);
    assert_true(tern_file_is_dir(out.text));
    o.memory_limit = 0;
    assert_ok(tern_finetune(&o, NULL, &err), err);
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "--resume goes on from it, --overwrite begins anew"));
    test_write_text(other.text, "mine");
    o.output = other.text;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "somebodys.gguf is there already: --overwrite replaces it"));
    o.output = model.text; /* another one's folder */
    o.model = out.text;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "is there already and not empty"));
    o.resume = true;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_NOT_FOUND);
    assert_non_null(strstr(err.message, "no checkpoint to go on from"));
    assert_false(tern_file_exists(inside(model.text, "loss.csv").text));
    assert_false(tern_file_exists(inside(model.text, "checkpoint").text));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_run_learns_and_its_result_runs),
    cmocka_unit_test(adapters_are_written),
    cmocka_unit_test(the_best_weights_are_kept),
    cmocka_unit_test(harm_is_not_written),
    cmocka_unit_test(the_curve_is_written),
    cmocka_unit_test(dense_models_become_ternary),
    cmocka_unit_test(models_come_from_nothing),
    cmocka_unit_test(heat_slows_it_down),
    cmocka_unit_test(heat_stops_a_run_for_a_while),
    cmocka_unit_test(plans_come_before_memory),
    cmocka_unit_test(mistakes_have_words),
    cmocka_unit_test(results_are_rehearsed),
    cmocka_unit_test(one_run_works_in_a_folder),
    cmocka_unit_test(what_is_there_is_kept),
};

TEST_GROUP(run, "slow", tests, .setup = make_files);
