/* tern perplexity: how well a model predicts a text. */
#include <math.h>

#include "apps/eval/kl_run.h"
#include "apps/lora.h"
#include "apps/progress.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"

enum { OUTPUTS = 128, DEFAULT_WINDOW = 512 }; /* rows of logits a step; tokens */

static const tern_flag flags[] = {
    {"window", 0, TERN_FLAG_U32, "N", offsetof(tern_options, window), 2, 1 << 20,
     "Tokens of a window; each starts empty; 512 when not given"},
    {"against", 0, TERN_FLAG_TEXT, "PATH", offsetof(tern_options, against), 0, 0,
     "Another model of the same vocabulary, for KL divergence"},
    {"save-all-logits", 0, TERN_FLAG_TEXT, "FILE", offsetof(tern_options, save_logits), 0, 0,
     "Save the text's log-probabilities, in llama.cpp's form (its --save-all-logits)"},
    {"kl-base", 0, TERN_FLAG_TEXT, "FILE", offsetof(tern_options, kl_base), 0, 0,
     "Compare with saved log-probabilities, of Tern or llama.cpp, like its --kl-divergence; the file contains TEXT"},
    TERN_APP_FLAG_OVERWRITE('f'),
    {"json", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, json), 0, 0, "Print JSON"},
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

/* A model, or the one to compare with. */
typedef struct reader {
    tern_engine *engine;
    tern_app_loras loras;
    tern_session *session;
} reader;

/* The window asked for, or 512 where the model's context is not smaller. */
static uint32_t window_of(const tern_engine *engine, const tern_options *o)
{
    tern_engine_info model = {.size = sizeof model};
    tern_engine_describe(engine, &model, NULL); /* fails on NULL alone */
    if (o->window) return o->window;
    return model.n_ctx_train < DEFAULT_WINDOW ? model.n_ctx_train : DEFAULT_WINDOW;
}

static tern_status open_reader(reader *r, const tern_options *o, const char *path, tern_error *err)
{
    tern_options input = *o;
    if (path) input.model = path;
    if (path) input.loras.n = 0; /* adapters belong to the model of -m */
    TERN_TRY(tern_app_open_engine(&r->engine, &input, true, err));
    TERN_TRY(tern_app_load_loras(&r->loras, &input, r->engine, err));
    tern_session_params params = {.size = sizeof params,
                                  .n_ctx = window_of(r->engine, o),
                                  .n_batch = OUTPUTS,
                                  .max_outputs = OUTPUTS,
                                  .host_sampling = true,
                                  .loras = r->loras.uses,
                                  .n_loras = r->loras.n};
    return tern_app_open_session(&r->session, r->engine, &input, params, err);
}

static void close_reader(reader *r)
{
    tern_session_close(r->session);
    tern_app_close_loras(&r->loras);
    tern_engine_close(r->engine);
}

static tern_status tokenize_file(const reader *r, const char *path, tern_tokens *ids, tern_error *err)
{
    tern_buf text = {0};
    tern_status status;
    TERN_GOTO(tern_app_read_text(path, &text, err));
    TERN_GOTO(tern_engine_tokenize(r->engine, text.data, text.size, 0, ids, err));
fail:
    tern_buf_deinit(&text);
    return status;
}

static bool update(void *context, double done)
{
    return tern_progress_update(context, (float)done);
}

static tern_status print(const tern_perplexity_result *r, uint32_t window, const char *activations,
                         const tern_options *o, tern_error *err)
{
    if (o->json) {
        json_t *out =
            json_pack("{s:I, s:i, s:i, s:o, s:o, s:f, s:s}", "tokens_scored", (json_int_t)r->n_scored, "windows",
                      (int)r->n_windows, "window", (int)window, "nll", tern_app_json_number(r->nll), "ppl",
                      tern_app_json_number(r->ppl), "top1", r->top1, "activations", activations);
        if (o->against)
            json_object_update_new(
                out, json_pack("{s:o, s:f}", "kl", tern_app_json_number(r->kl), "same_top1", r->same_top1));
        return tern_app_print_json(out, err);
    }
    printf("tokens scored  %llu in %u windows of %u\nactivations    %s\nnll            %.5f\nppl            %.4f\n"
           "top-1          %.2f %%\n",
           (unsigned long long)r->n_scored, r->n_windows, window, activations, r->nll, r->ppl, 100 * r->top1);
    if (o->against) printf("kl             %.6g\nsame top-1     %.2f %%\n", r->kl, 100 * r->same_top1);
    return TERN_OK;
}

static tern_status score(const reader *r, const reader *other, const tern_options *o, tern_error *err)
{
    tern_tokens ids = {0};
    tern_progress progress = {.label = "Reading"};
    tern_perplexity_result result = {.size = sizeof result};
    const uint32_t window = window_of(r->engine, o);
    tern_perplexity_params how = {
        .size = sizeof how, .window = window, .against = other->session, .progress = update, .context = &progress};
    tern_status status;
    TERN_GOTO(tokenize_file(r, o->args.items[0], &ids, err));
    status = tern_perplexity(r->session, ids.ids, ids.n, &how, &result, err);
    tern_progress_end(&progress);
    if (status == TERN_OK) status = print(&result, window, tern_app_activations(r->engine), o, err);
fail:
    tern_tokens_deinit(&ids);
    return status;
}

/* ---- a file of log-probabilities */

static tern_status print_saved(const tern_kl_saved *s, const tern_options *o, uint32_t window, const char *activations,
                               tern_error *err)
{
    if (o->json)
        return tern_app_print_json(json_pack("{s:I, s:i, s:i, s:f, s:f, s:s}", "tokens_scored", (json_int_t)s->n_scored,
                                             "windows", (int)s->n_windows, "window", (int)window, "nll", s->nll, "ppl",
                                             exp(s->nll), "activations", activations),
                                   err);
    printf("tokens scored  %llu, the second halves of %u windows of %u\nactivations    %s\nppl            %.4f\n"
           "wrote %s\n",
           (unsigned long long)s->n_scored, s->n_windows, window, activations, exp(s->nll),
           tern_show_z(o->save_logits).text);
    return TERN_OK;
}

static tern_status save(const reader *r, const tern_kl_reader *how, const tern_options *o, tern_error *err)
{
    tern_tokens ids = {0};
    tern_buf text = {0};
    tern_kl_saved saved = {0};
    const uint32_t window = window_of(r->engine, o);
    tern_status status;
    TERN_GOTO(tern_app_read_text(o->args.items[0], &text, err));
    TERN_GOTO(tern_engine_tokenize(r->engine, text.data, text.size, TERN_TOKENIZE_BOS, &ids, err));
    status = tern_kl_save(how, &ids, window, o->save_logits, &saved, err);
    tern_progress_end(how->progress);
    if (status == TERN_OK) status = print_saved(&saved, o, window, tern_app_activations(r->engine), err);
fail:
    tern_buf_deinit(&text);
    tern_tokens_deinit(&ids);
    return status;
}

static tern_status compare(const tern_kl_reader *how, const tern_kl_base *base, const tern_options *o, tern_error *err)
{
    tern_kl_token *tokens;
    size_t n;
    tern_status status = tern_kl_read(how, base, &tokens, &n, err);
    tern_progress_end(how->progress);
    if (status == TERN_OK) status = tern_kl_print(tokens, n, how->model->activations, o->json, err);
    tern_free(tokens);
    return status;
}

/* With the windows that the file has. */
static tern_status run_compare(const tern_options *options, tern_error *err)
{
    tern_options o = *options;
    tern_file_map map = {0};
    tern_kl_base base;
    reader r = {0};
    tern_engine_info model = {.size = sizeof model};
    tern_progress progress = {.label = "Reading"};
    const tern_kl_reader how = {.model = &model, .progress = &progress};
    tern_kl_reader with_session = how;
    tern_status status;
    TERN_GOTO(tern_file_map_open(&map, o.kl_base, err));
    status = tern_kl_base_read(&base, map.data, map.size, err);
    if (status != TERN_OK) TERN_GOTO(tern_error_prefix(err, "%s", tern_show_z(o.kl_base).text));
    o.window = base.window;
    TERN_GOTO(open_reader(&r, &o, NULL, err));
    TERN_GOTO(tern_engine_describe(r.engine, &model, err));
    with_session.session = r.session;
    TERN_GOTO(compare(&with_session, &base, &o, err));
fail:
    close_reader(&r);
    tern_file_map_close(&map);
    return status;
}

static tern_status run_save(const reader *r, const tern_options *o, tern_error *err)
{
    tern_engine_info model = {.size = sizeof model};
    tern_app_path path;
    tern_progress progress = {.label = "Reading"};
    const tern_kl_reader how = {.session = r->session, .model = &model, .progress = &progress};
    TERN_TRY(tern_engine_describe(r->engine, &model, err));
    TERN_TRY(tern_app_find_model(o, &path, err));
    TERN_TRY(tern_app_check_output(o, path.text, o->save_logits, false, err));
    return save(r, &how, o, err);
}

/* Checks flags that exclude each other. */
static tern_status check(const tern_options *o, tern_error *err)
{
    if (o->kl_base && (o->args.n || o->against || o->save_logits || o->window))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "--kl-base %s holds the text and its windows: no TEXT, --window, --against or "
                         "--save-all-logits expected",
                         tern_show_z(o->kl_base).text);
    if (o->save_logits && o->against)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "--save-all-logits and --against: both found, one of them expected");
    if (!o->kl_base && o->args.n == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "no text: a file expected, or - for standard input");
    return TERN_OK;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    reader r = {0}, other = {0};
    tern_status status;
    TERN_GOTO(check(o, err));
    if (o->kl_base) return run_compare(o, err);
    TERN_GOTO(open_reader(&r, o, NULL, err));
    if (o->against) TERN_GOTO(open_reader(&other, o, o->against, err));
    TERN_GOTO(o->save_logits ? run_save(&r, o, err) : score(&r, &other, o, err));
fail:
    close_reader(&other);
    close_reader(&r);
    return status;
}

const tern_command tern_command_perplexity = {
    .name = "perplexity",
    .usage = "-m MODEL [TEXT | --kl-base FILE] [--window N] [--against MODEL]",
    .summary = "Measure how well a model predicts a text",
    .detail =
        "TEXT is a file, or - for standard input. The first token of each window is not scored.\n"
        "With --save-all-logits the second half of each window is scored, as llama.cpp does, and --kl-base compares.\n"
        "Adapters go with the model of -m, not with that of --against: the same model there shows what they change.",
    .groups = groups,
    .ranks = TERN_RANKED_FOLLOWED,
    .min_args = 0,
    .max_args = 1,
    .run = run,
};
