/* tern imatrix: how much each column of a model's matrices counts, for quantising. */
#include <string.h>

#include "apps/app.h"
#include "apps/open.h"
#include "apps/progress.h"
#include "infer/session/importance.h"

static const tern_flag flags[] = {
    {"file", 'f', TERN_FLAG_TEXT, "TEXT", offsetof(tern_options, file), 0, 0,
     "The text that the model reads; - is standard input"},
    {"output", 'o', TERN_FLAG_TEXT, "FILE", offsetof(tern_options, output), 0, 0, "The importance matrix to write"},
    TERN_APP_FLAG_OVERWRITE(0),
    {"window", 0, TERN_FLAG_U32, "N", offsetof(tern_options, window), 2, 1 << 20,
     "Tokens of a window; each starts empty; 512 when not given"},
    {"json", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, json), 0, 0, "Print JSON"},
    {0},
};

static const tern_flag_group groups[] = {
    {"Flags", flags}, {"Model", tern_flags_model}, {"Device", tern_flags_device}, {"CPU", tern_flags_cpu}, {0}};

static bool update(void *context, double done)
{
    return tern_progress_update(context, (float)done);
}

static tern_status tokenize(tern_engine *engine, const char *path, tern_tokens *ids, tern_error *err)
{
    tern_buf text = {0};
    tern_status status;
    TERN_GOTO(tern_app_read_text(path, &text, err));
    TERN_GOTO(tern_engine_tokenize(engine, text.data, text.size, 0, ids, err));
fail:
    tern_buf_deinit(&text);
    return status;
}

static tern_status measure(tern_engine *engine, const tern_options *o, tern_importance *importance, tern_error *err)
{
    tern_tokens ids = {0};
    tern_progress progress = {.label = "Reading"};
    const tern_importance_params how = {.window = o->window, .progress = update, .context = &progress};
    tern_status status;
    TERN_GOTO(tokenize(engine, o->file, &ids, err));
    status = tern_importance_measure(importance, engine, ids.ids, ids.n, &how, err);
    tern_progress_end(&progress);
fail:
    tern_tokens_deinit(&ids);
    return status;
}

static tern_status report(const tern_importance *m, const tern_options *o, tern_error *err)
{
    tern_app_say("%s: %zu matrices, %llu tokens in %u windows of %u\n", o->output, m->n,
                 (unsigned long long)m->n_tokens, m->n_windows, m->window);
    if (!o->json) return TERN_OK;
    return tern_app_print_json(json_pack("{s:o, s:I, s:I, s:i, s:i}", "file",
                                         tern_app_json_text(o->output, strlen(o->output)), "matrices", (json_int_t)m->n,
                                         "tokens", (json_int_t)m->n_tokens, "windows", (int)m->n_windows, "window",
                                         (int)m->window),
                               err);
}

static tern_status write_file(const tern_importance *m, const tern_options *o, tern_error *err)
{
    const char *slash = strrchr(o->file, '/');
    const tern_imatrix_about about = {
        .dataset = slash ? slash + 1 : o->file, .n_chunks = m->n_windows, .chunk_size = m->window};
    TERN_TRY(tern_imatrix_write(o->output, m->sums, m->n, &about, err));
    return report(m, o, err);
}

static tern_status check(const tern_options *o, tern_error *err)
{
    tern_app_path model;
    if (!o->file) return tern_fail(err, TERN_INVALID_ARGUMENT, "no text: give the file that the model reads with -f");
    if (!o->output) return tern_fail(err, TERN_INVALID_ARGUMENT, "no output: give the file to write with -o");
    TERN_TRY(tern_app_find_model(o, &model, err));
    return tern_app_check_output(o, model.text, o->output, false, err);
}

static tern_status run(const tern_options *o, tern_error *err)
{
    tern_engine *engine = NULL;
    tern_importance importance = {0};
    tern_status status;
    TERN_GOTO(check(o, err));
    TERN_GOTO(tern_app_open_reader(&engine, o, err));
    TERN_GOTO(measure(engine, o, &importance, err));
    TERN_GOTO(write_file(&importance, o, err));
fail:
    tern_importance_deinit(&importance);
    tern_engine_close(engine);
    return status;
}

const tern_command tern_command_imatrix = {
    .name = "imatrix",
    .usage = "-m MODEL -f TEXT -o FILE [--window N]",
    .summary = "Measure which columns of matrices count, for convert --imatrix",
    .detail =
        "FILE has for each matrix the sums of its squared inputs while the model reads TEXT, in the GGUF form of\n"
        "llama.cpp's imatrix, which either program reads.",
    .groups = groups,
    .run = run,
};
