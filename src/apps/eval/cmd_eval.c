/* tern eval: questions with known answers. */
#include <string.h>

#include "apps/eval/queue.h"
#include "apps/lora.h"
#include "apps/open.h"
#include "apps/progress.h"
#include "base/bytes.h"
#include "base/show.h"
#include "format/json.h"

enum { OUTPUTS = 128, MAX_TOKENS = 256, PARALLEL = 8 }; /* rows of logits a step; of a written answer */

static const tern_flag flags[] = {
    {"limit", 0, TERN_FLAG_U32, "N", offsetof(tern_options, limit), 1, 1u << 30,
     "Only the first N questions of a file"},
    {"n-predict", 'n', TERN_FLAG_U32, "N", offsetof(tern_options, n_tokens), 1, 1u << 20,
     "Tokens of a written answer at most"},
    {"parallel", 0, TERN_FLAG_U32, "N", offsetof(tern_options, n_parallel), 1, TERN_BATCH_MAX_PARALLEL,
     "Answers in one step; the same ones with any number on the CPU"},
    {"json", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, json), 0, 0, "One JSON object a line for each result"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags},
                                         {"Model", tern_flags_model},
                                         {"Adapters", tern_flags_lora},
                                         {"Context", tern_flags_session},
                                         {"Numbers", tern_flags_numbers, true},
                                         {"Device", tern_flags_device},
                                         {"Several processes (mpirun)", tern_flags_ranks, true},
                                         {"CPU", tern_flags_cpu},
                                         {"Kernels", tern_flags_kernel, true},
                                         {"Fusion", tern_flags_fusion, true},
                                         {0}};

static void defaults(tern_options *o)
{
    o->n_tokens = MAX_TOKENS;
    o->n_parallel = PARALLEL;
}

typedef struct evaluation {
    const tern_options *options;
    tern_engine *engine;
    tern_app_loras loras;
    tern_eval_queue *queue;
    bool adapted;
    uint64_t n; /* questions of the file so far */
} evaluation;

static tern_status open_evaluation(evaluation *e, tern_error *err)
{
    const tern_options *o = e->options;
    TERN_TRY(tern_app_open_reader(&e->engine, o, err));
    TERN_TRY(tern_app_load_loras(&e->loras, o, e->engine, err));
    const tern_eval_asking how = {.engine = e->engine,
                                  .batch = {.size = sizeof(tern_batch_params),
                                            .n_parallel = o->n_parallel,
                                            .n_ctx = tern_app_ctx(o, e->engine),
                                            .n_batch = o->batch,
                                            .max_outputs = OUTPUTS,
                                            .kv = tern_app_kv(o)},
                                  .max_tokens = o->n_tokens};
    return tern_eval_queue_open(&e->queue, &how, err);
}

static void close_evaluation(evaluation *e)
{
    tern_eval_queue_close(e->queue);
    tern_app_close_loras(&e->loras);
    tern_engine_close(e->engine);
}

/* That a line is an object, as far as its first character says. */
static tern_status check_object(const char *line, size_t n, tern_error *err)
{
    const size_t begin = strspn(line, " \t\r");
    if (line[begin] == '{') return TERN_OK;
    if (line[begin] == '[')
        return tern_fail(err, TERN_MALFORMED,
                         "a JSON list found, one object per line expected (jq -c '.[]' makes them)");
    return tern_fail(err, TERN_MALFORMED, "%s found, one JSON object per line expected",
                     tern_show((tern_span){(const uint8_t *)line + begin, n - begin}).text);
}

static tern_status ask_line(evaluation *e, const char *line, size_t n, const char *where, tern_error *err)
{
    json_t *object = NULL;
    tern_eval_item item = {0};
    tern_status status;
    TERN_GOTO(check_object(line, n, err));
    TERN_GOTO(tern_json_parse(&object, line, n, "JSON", err));
    TERN_GOTO(tern_eval_item_read(&item, object, err));
    TERN_GOTO(tern_eval_queue_add(e->queue, &item, where, e->loras.uses, e->adapted ? e->loras.n : 0, err));
    e->n++;
fail:
    tern_eval_item_deinit(&item);
    tern_json_free(object);
    return status;
}

/* All questions of a file, a line each. */
static tern_status answer_all(evaluation *e, const char *path, const tern_buf *text, tern_eval_score *score,
                              tern_error *err)
{
    tern_progress progress = {.label = "Answering"};
    tern_status status = TERN_OK;
    unsigned long long number = 0;
    for (size_t at = 0; at < text->size && status == TERN_OK;) {
        const char *line = text->data + at, *end = memchr(line, '\n', text->size - at);
        const size_t n = end ? (size_t)(end - line) : text->size - at;
        at += n + 1;
        number++;
        if (strspn(line, " \t\r") >= n) continue;
        char where[160];
        if (e->options->limit && e->n == e->options->limit) break;
        snprintf(where, sizeof where, "%s:%llu", tern_show_z(path).text, number);
        status = ask_line(e, line, n, where, err);
        if (status != TERN_OK) tern_error_prefix(err, "%s", where);
        else if (!tern_progress_update(&progress, (float)at / (float)text->size))
            status = tern_app_fail_interrupted(err);
    }
    if (status == TERN_OK) status = tern_eval_queue_finish(e->queue, score, err);
    tern_progress_end(&progress);
    return status;
}

/* One figure: as a line of a table, or of JSON. */
static tern_status print(const evaluation *e, const char *path, bool adapted, const char *metric, uint64_t right,
                         uint64_t n, tern_error *err)
{
    const double value = (double)right / (double)n, wrong_by = tern_eval_stderr(right, n);
    const char *who = adapted ? "with adapters" : e->loras.n ? "without" : "";
    if (n == 0) return TERN_OK;
    if (e->options->json)
        return tern_app_print_json_line(json_pack("{s:o, s:s, s:b, s:I, s:I, s:f, s:o, s:s}", "file",
                                                  tern_app_json_text(path, strlen(path)), "metric", metric, "adapters",
                                                  adapted, "n", (json_int_t)n, "right", (json_int_t)right, "value",
                                                  value, "stderr", n > 1 ? json_real(wrong_by) : json_null(),
                                                  "activations", tern_app_activations(e->engine)),
                                        err);
    char spread[16] = "  n/a";
    if (n > 1) snprintf(spread, sizeof spread, "%5.2f", 100 * wrong_by);
    printf("%-32s %-12s %6.2f %% +- %s  of %llu%s%s\n", tern_show_z(path).text, metric, 100 * value, spread,
           (unsigned long long)n, *who ? "  " : "", who);
    return TERN_OK;
}

static tern_status evaluate(evaluation *e, const char *path, const tern_buf *text, bool adapted, tern_error *err)
{
    tern_eval_score s = {0};
    e->adapted = adapted;
    e->n = 0;
    TERN_TRY(answer_all(e, path, text, &s, err));
    if (s.n_choices + s.n_exact == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: no question found, at least one expected",
                         tern_show_z(path).text);
    TERN_TRY(print(e, path, adapted, "acc", s.right, s.n_choices, err));
    TERN_TRY(print(e, path, adapted, "acc_norm", s.right_norm, s.n_choices, err));
    return print(e, path, adapted, "exact_match", s.exact, s.n_exact, err);
}

static tern_status evaluate_file(evaluation *e, const char *path, tern_error *err)
{
    tern_buf text = {0};
    tern_status status;
    TERN_GOTO(tern_app_read_text(path, &text, err));
    TERN_GOTO(evaluate(e, path, &text, false, err));
    if (e->loras.n) TERN_GOTO(evaluate(e, path, &text, true, err));
fail:
    tern_buf_deinit(&text);
    return status;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    evaluation e = {.options = o};
    tern_status status;
    TERN_GOTO(open_evaluation(&e, err));
    if (!o->json) printf("activations: %s\n", tern_app_activations(e.engine));
    for (size_t i = 0; i < o->args.n; i++) TERN_GOTO(evaluate_file(&e, o->args.items[i], err));
fail:
    close_evaluation(&e);
    return status;
}

const tern_command tern_command_eval = {
    .name = "eval",
    .usage = "-m MODEL FILE...",
    .summary = "Let a model answer questions with known answers",
    .detail = "A FILE has a JSON object a line: of HellaSwag, PIQA, ARC, MMLU or GSM8K as published, or\n"
              "{\"prompt\": ..., \"choices\": [...], \"answer\": 0} or {\"prompt\": ..., \"answer\": ...}.\n"
              "With --lora each file is answered twice, without the adapters and with them.",
    .groups = groups,
    .ranks = TERN_RANKED_FOLLOWED,
    .min_args = 1,
    .max_args = 64,
    .defaults = defaults,
    .run = run,
};
