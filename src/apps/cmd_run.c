/* tern run: a prompt, and what the model makes of it. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/app.h"
#include "apps/chat/talk.h"
#include "apps/generation.h"
#include "apps/hub/hub.h"
#include "apps/lora.h"
#include "apps/progress.h"
#include "apps/ranks.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/output.h"
#include "base/show.h"

static const char bundled_prompt[] = "Once upon a time";

#define FIELD(name) offsetof(tern_options, name)

static const tern_flag flags[] = {
    {"prompt", 'p', TERN_FLAG_TEXT, "TEXT", FIELD(prompt), 0, 0, "The beginning of the text"},
    {"file", 'f', TERN_FLAG_TEXT, "FILE", FIELD(file), 0, 0,
     "A file with the prompt; - is standard input; one newline at the end is left out"},
    {"suffix", 0, TERN_FLAG_TEXT, "TEXT", FIELD(suffix), 0, 0,
     "The text behind a gap: the model writes what stands between the prompt and it (fill in the middle)",
     .more = true},
    TERN_APP_FLAG_SPM_INFILL("With --suffix: "),
    {"no-special", 0, TERN_FLAG_BOOL, NULL, FIELD(no_special), 0, 0,
     "Read the names of special tokens in the prompt as plain text", .more = true},
    {"no-bos", 0, TERN_FLAG_BOOL, NULL, FIELD(no_bos), 0, 0, "Put no BOS token before the prompt", .more = true},
    {"special", 0, TERN_FLAG_BOOL, NULL, FIELD(special), 0, 0, "Show special tokens in the text", .more = true},
    {"save", 0, TERN_FLAG_TEXT, "FILE", FIELD(save), 0, 0, "Save the session at the end; may be the file of --restore"},
    TERN_APP_FLAG_OVERWRITE(0),
    {"restore", 0, TERN_FLAG_TEXT, "FILE", FIELD(restore), 0, 0, "Continue a saved session"},
    {"json", 0, TERN_FLAG_BOOL, NULL, FIELD(json), 0, 0, "Print one JSON object at the end"},
    {"quiet", 'q', TERN_FLAG_BOOL, NULL, FIELD(quiet), 0, 0, "Print the generated text only"},
    {"verbose", 'v', TERN_FLAG_BOOL, NULL, FIELD(verbose), 0, 0, "Print statistics; the memory's limit beside them"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags},
                                         {"Model", tern_flags_model},
                                         {"Adapters", tern_flags_lora},
                                         {"Thoughts", tern_flags_thoughts},
                                         {"Generation", tern_flags_generation},
                                         {"Sampling", tern_flags_sampling},
                                         {"Grammar", tern_flags_grammar},
                                         {"Context", tern_flags_session},
                                         {"Numbers", tern_flags_numbers, true},
                                         {"Device", tern_flags_device},
                                         {"Several processes (mpirun)", tern_flags_ranks, true},
                                         {"Decoding on a GPU", tern_flags_steps, true},
                                         {"CPU", tern_flags_cpu},
                                         {"Kernels", tern_flags_kernel, true},
                                         {"Fusion", tern_flags_fusion, true},
                                         {0}};

/* One run: what it needs, and what its text goes to. */
typedef struct story {
    const tern_options *options;
    tern_engine *engine;
    tern_app_loras loras;
    tern_session *session;
    tern_app_draft draft;
    tern_buf prompt, text; /* text: for --json */
    tern_tokens ids;
    bool failed;
    char last; /* shown */
} story;

static void defaults(tern_options *o)
{
    tern_app_generation_defaults(o);
    o->n_tokens = 256;
    o->thought_budget = UINT32_MAX;
}

static bool is_bundled(const tern_options *o)
{
    tern_app_path path;
    tern_error ignored;
    return tern_app_find_model(o, &path, &ignored) == TERN_OK && strstr(path.text, "/stories.gguf") != NULL;
}

/* Whether something writes to standard input, or a file stands there. */
static bool is_piped(void)
{
    struct stat st;
    return fstat(STDIN_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode));
}

static bool is_model(const char *word)
{
    return tern_path_ends(word, ".gguf") || tern_app_hub_names(word);
}

/* A model in the place of the prompt is a flag that was forgotten. */
static tern_status check_words(const tern_options *o, tern_error *err)
{
    const char *word = o->args.n ? o->args.items[0] : "";
    if (!tern_file_exists(word) && !is_model(word)) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "%s is a %s, a prompt expected: -m takes a model, -f a text; `tern chat -m MODEL` and `tern run "
                     "MODEL MESSAGE` talk with a model",
                     tern_show_z(word).text, tern_app_hub_names(word) ? "model" : "file");
}

/* A file or a pipe: the newline at its end belongs to the file, not to the prompt. */
static tern_status read_prompt_file(tern_buf *prompt, const char *path, tern_error *err)
{
    TERN_TRY(tern_app_read_text(path, prompt, err));
    if (prompt->size == 0 || prompt->data[prompt->size - 1] != '\n') return TERN_OK;
    prompt->size -= prompt->size > 1 && prompt->data[prompt->size - 2] == '\r' ? 2 : 1;
    return TERN_OK;
}

static tern_status read_prompt(story *s, tern_error *err)
{
    const tern_options *o = s->options;
    const char *text = o->prompt ? o->prompt : o->args.n ? o->args.items[0] : NULL;
    if ((o->prompt != NULL) + (o->file != NULL) + (o->args.n > 0) > 1)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "several prompts: one of TEXT, --prompt and --file expected");
    if (o->file) return read_prompt_file(&s->prompt, o->file, err);
    if (!text && is_piped()) TERN_TRY(read_prompt_file(&s->prompt, "-", err));
    if (s->prompt.size) return TERN_OK;
    if (!text && !o->restore && is_bundled(o)) text = bundled_prompt;
    if (!text && !o->restore)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "no prompt: give it as a word, with -p TEXT or -f FILE, or piped");
    return text ? tern_buf_add(&s->prompt, text, strlen(text), err) : TERN_OK;
}

/* A prompt of /apply-template, or copied from a log, begins with the token that is added anyway. */
static tern_status say_spelled_bos(const story *s, tern_error *err)
{
    tern_engine_info info = {.size = sizeof info};
    tern_buf bos = {0};
    TERN_TRY(tern_engine_describe(s->engine, &info, err));
    if (!info.adds_bos || info.bos < 0) return TERN_OK;
    const tern_status status = tern_engine_detokenize(s->engine, &info.bos, 1, true, &bos, err);
    if (status == TERN_OK && bos.size && s->prompt.size >= bos.size && memcmp(s->prompt.data, bos.data, bos.size) == 0)
        tern_app_say("note: the prompt begins with %s, which the model's texts begin with anyway: it is taken once\n",
                     bos.data);
    tern_buf_deinit(&bos);
    return status;
}

/* A model with a chat template continues a raw text instead of answering it. The note tells how to get an answer. */
static tern_status note_template(const story *s, tern_error *err)
{
    const tern_options *o = s->options;
    tern_engine_info info = {.size = sizeof info};
    if (o->quiet || o->json || o->restore || o->suffix || !isatty(STDOUT_FILENO)) return TERN_OK;
    TERN_TRY(tern_engine_describe(s->engine, &info, err));
    if (info.chat_template)
        tern_app_say("note: the text is continued as it stands; the model has a chat template: `tern chat -m MODEL` "
                     "and `tern run MODEL MESSAGE` talk with it\n");
    return TERN_OK;
}

/* Flags of an answer. */
static tern_status check_thoughts(const tern_options *o, tern_error *err)
{
    const char *flag = o->thought_budget_given ? "reasoning-budget"
                       : o->thought_message    ? "reasoning-budget-message"
                       : o->variables          ? "chat-template-kwargs"
                                               : NULL;
    if (!flag) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "--%s goes with MODEL MESSAGE, which the model answers, not with a text that it continues", flag);
}

/* Flags of a prompt that goes on. */
static tern_status check_suffix(const tern_options *o, tern_error *err)
{
    if (o->suffix_first && !o->suffix)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--spm-infill goes with --suffix, none found");
    const char *other = o->restore ? "restore" : o->no_bos ? "no-bos" : o->no_special ? "no-special" : NULL;
    if (!o->suffix || !other) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "--%s goes with a text that the model continues, not with --suffix",
                     other);
}

static tern_status tokenize_gap(story *s, tern_error *err)
{
    const char *suffix = s->options->suffix;
    const tern_fim fim = {.size = sizeof fim,
                          .prefix = s->prompt.data,
                          .n_prefix = s->prompt.size,
                          .suffix = suffix,
                          .n_suffix = strlen(suffix),
                          .suffix_first = s->options->suffix_first};
    const tern_status status = tern_engine_fim_prompt(s->engine, &fim, &s->ids, NULL, err);
    return status == TERN_OK ? status : tern_error_prefix(err, "--suffix");
}

/* The prompt's ids: with BOS where the tokenizer wants it, at the start of a text only. */
static tern_status tokenize_prompt(story *s, tern_error *err)
{
    const tern_options *o = s->options;
    const bool starts = tern_session_n_tokens(s->session) == 0;
    const unsigned how = (starts && !o->no_bos ? TERN_TOKENIZE_BOS : 0u) | (o->no_special ? 0u : TERN_TOKENIZE_SPECIAL);
    tern_engine_info info = {.size = sizeof info};
    if (o->suffix) return tokenize_gap(s, err);
    TERN_TRY(tern_engine_tokenize(s->engine, s->prompt.data, s->prompt.size, how, &s->ids, err));
    if (how & TERN_TOKENIZE_BOS && how & TERN_TOKENIZE_SPECIAL && !o->quiet) TERN_TRY(say_spelled_bos(s, err));
    if (s->ids.n || !starts) return TERN_OK;
    TERN_TRY(tern_engine_describe(s->engine, &info, err));
    if (info.bos < 0) return tern_fail(err, TERN_INVALID_ARGUMENT, "the prompt is empty: some text expected");
    return tern_tokens_add(&s->ids, info.bos, err);
}

static tern_status check_length(const story *s, tern_error *err)
{
    const uint32_t n_ctx = tern_session_n_ctx(s->session), before = tern_session_n_tokens(s->session);
    if (s->options->context_shift || before + s->ids.n <= n_ctx) return TERN_OK;
    return tern_fail(err, TERN_CONTEXT_FULL,
                     "the prompt has %zu tokens%s, the context %u: a shorter one, or a larger --ctx expected", s->ids.n,
                     before ? " beside those of the session" : "", n_ctx);
}

/* A session goes on in the file that it came from. */
static tern_status check_save(const tern_options *o, tern_error *err)
{
    tern_app_path model;
    tern_options all = *o;
    if (!o->save) return TERN_OK;
    all.overwrite = o->overwrite || tern_output_same(o->save, o->restore);
    TERN_TRY(tern_app_find_model(o, &model, err));
    return tern_app_check_output(&all, model.text, o->save, false, err);
}

static void show(story *s, const char *text, size_t n)
{
    if (n == 0) return;
    if (!tern_app_write_text(text, n) || !tern_app_flushed()) s->failed = true;
    s->last = text[n - 1];
}

static bool on_piece(void *context, const tern_piece *piece)
{
    story *s = context;
    tern_error err;
    if (!s->options->json) show(s, piece->text, piece->n_text);
    else if (tern_buf_add(&s->text, piece->text, piece->n_text, &err) != TERN_OK) s->failed = true;
    return !s->failed && !tern_app_interrupted();
}

static tern_status open_session(story *s, const tern_app_generation *g, tern_error *err)
{
    const tern_options *o = s->options;
    tern_session_params params = {.size = sizeof params,
                                  .max_outputs = g->params.draft_tokens + 1,
                                  .host_sampling = g->params.draft_tokens > 0 || g->params.filter,
                                  .loras = s->loras.uses,
                                  .n_loras = s->loras.n};
    TERN_TRY(tern_app_open_session(&s->session, s->engine, o, params, err));
    if (!o->restore) return TERN_OK;
    TERN_TRY(tern_session_restore(s->session, o->restore, err));
    if (s->prompt.size == 0 && tern_session_n_tokens(s->session) == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s holds no tokens: give a prompt with -p", o->restore);
    return TERN_OK;
}

static tern_status print_json(const story *s, const tern_app_cost *cost, tern_error *err)
{
    json_t *document =
        json_pack("{s:o, s:o, s:o}", "prompt", tern_app_json_text(s->prompt.data, s->prompt.size), "text",
                  tern_app_json_text(s->text.data, s->text.size), "statistics", tern_app_cost_json(cost));
    const tern_status status = tern_app_add_usage(document, s->engine, err);
    if (status == TERN_OK) return tern_app_print_json(document, err);
    json_decref(document);
    return status;
}

static tern_status finish(story *s, tern_app_cost *cost, tern_error *err)
{
    const tern_options *o = s->options;
    if (o->suffix && !o->json && !o->quiet) show(s, o->suffix, strlen(o->suffix));
    if (!o->json && s->last != '\n') show(s, "\n", 1);
    /* Also where nobody reads any more, as when the terminal was closed. */
    if (o->save) TERN_TRY(tern_session_save(s->session, o->save, err));
    if (s->failed) return tern_app_flush(err);
    tern_app_count_cost(cost, s->engine);
    if (o->verbose && o->n_tokens && !tern_app_interrupted()) tern_app_measure_cost(cost, s->engine);
    if (o->json) return print_json(s, cost, err);
    if (o->n_tokens && (o->verbose || (!o->quiet && isatty(STDERR_FILENO)))) tern_app_print_cost(cost);
    return TERN_OK;
}

/* Output made before an error is kept too; the first error is the one that is reported. */
static tern_status generate_text(story *s, tern_app_generation *g, tern_generate_result *result, tern_error *err)
{
    tern_error ignored;
    if (s->options->n_tokens == 0) return tern_session_append(s->session, s->ids.ids, (uint32_t)s->ids.n, err);
    const tern_status status = tern_generate(s->session, s->ids.ids, (uint32_t)s->ids.n, &g->params, result, err);
    if (status == TERN_OK) return TERN_OK;
    if (!s->options->json && s->last && s->last != '\n') show(s, "\n", 1);
    if (s->options->save) (void)tern_session_save(s->session, s->options->save, &ignored);
    return status;
}

static tern_status generate(story *s, tern_app_generation *g, tern_error *err)
{
    tern_app_cost cost = {.seed = g->params.sampler.seed, .result.size = sizeof cost.result};
    g->params.on_piece = on_piece;
    g->params.context = s;
    g->params.show_special = s->options->special;
    TERN_TRY(open_session(s, g, err));
    TERN_TRY(tern_app_draft_open(&s->draft, s->options, tern_session_n_ctx(s->session), err));
    g->params.draft = s->draft.session;
    TERN_TRY(tokenize_prompt(s, err));
    TERN_TRY(check_length(s, err));
    TERN_TRY(note_template(s, err));
    if (!s->options->json && !s->options->quiet) show(s, s->prompt.data, s->prompt.size);
    TERN_TRY(generate_text(s, g, &cost.result, err));
    if (!s->options->quiet) tern_app_note_steps(&cost.result, s->options);
    TERN_TRY(finish(s, &cost, err));
    return tern_app_interrupted() ? tern_app_fail_interrupted(err) : TERN_OK;
}

/* MODEL MESSAGE, or MODEL with a message from a pipe: an answer by the model's template. */
static bool has_message(const tern_options *o)
{
    return o->args.n == 2 || (o->args.n == 1 && !o->model && is_model(o->args.items[0]) && is_piped());
}

/* Flags of a text that is continued. */
static tern_status check_message(const tern_options *o, tern_error *err)
{
    const struct {
        const char *flag;
        bool given;
    } raw[] = {{"model", o->model || o->hf},
               {"prompt", o->prompt},
               {"file", o->file},
               {"json", o->json},
               {"save", o->save},
               {"restore", o->restore},
               {"suffix", o->suffix},
               {"spm-infill", o->suffix_first},
               {"no-bos", o->no_bos},
               {"no-special", o->no_special},
               {"special", o->special}};
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++)
        if (raw[i].given)
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "--%s goes with a text that the model continues, not with MODEL MESSAGE", raw[i].flag);
    return TERN_OK;
}

static tern_status follow(const tern_options *o, tern_options *followed, tern_error *err)
{
    (void)err;
    *followed = *o;
    if (has_message(o)) followed->model = o->args.items[0];
    return TERN_OK;
}

static tern_status answer(const tern_options *o, tern_error *err)
{
    tern_options options = *o;
    tern_app_path path;
    tern_buf piped = {0};
    tern_status status;
    TERN_TRY(check_message(o, err));
    options.model = o->args.items[0];
    if (tern_app_find_model(&options, &path, err) == TERN_NOT_FOUND)
        return tern_error_prefix(err, "MODEL MESSAGE (a prompt of several words stands in quotes)");
    if (!o->n_tokens_given) options.n_tokens = UINT32_MAX;
    if (o->args.n == 1) TERN_GOTO(read_prompt_file(&piped, "-", err));
    const char *message = o->args.n == 2 ? o->args.items[1] : piped.data;
    const size_t n = o->args.n == 2 ? strlen(message) : piped.size;
    if (n == 0 && o->args.n == 1) TERN_GOTO(check_words(o, err));
    if (n == 0) TERN_GOTO(tern_fail(err, TERN_INVALID_ARGUMENT, "the message is empty: some text expected"));
    status = tern_chat_once(&options, message, n, err);
fail:
    tern_buf_deinit(&piped);
    return status;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    if (has_message(o)) return answer(o, err);
    story s = {.options = o};
    tern_app_generation g;
    tern_status status;
    TERN_GOTO(tern_app_generation_init(&g, o, err));
    TERN_GOTO(check_save(o, err));
    TERN_GOTO(check_suffix(o, err));
    TERN_GOTO(check_thoughts(o, err));
    TERN_GOTO(check_words(o, err));
    TERN_GOTO(tern_app_open_reader(&s.engine, o, err));
    TERN_GOTO(read_prompt(&s, err));
    TERN_GOTO(tern_app_generation_constrain(&g, o, s.engine, err));
    TERN_GOTO(tern_app_load_loras(&s.loras, o, s.engine, err));
    TERN_GOTO(generate(&s, &g, err));
fail:
    tern_app_draft_close(&s.draft);
    tern_session_close(s.session);
    tern_app_close_loras(&s.loras);
    tern_app_generation_deinit(&g);
    tern_engine_close(s.engine);
    tern_tokens_deinit(&s.ids);
    tern_buf_deinit(&s.prompt);
    tern_buf_deinit(&s.text);
    return status;
}

const tern_command tern_command_run = {
    .name = "run",
    .usage = "[-m MODEL] [TEXT | -p TEXT | -f FILE] [-n N] | MODEL MESSAGE",
    .summary = "Let a model continue a text",
    .detail = "Without -m the bundled model writes a story. Statistics go to standard error, where that is a\n"
              "terminal, or with -v. With MODEL MESSAGE the model answers the message by its chat template, as tern\n"
              "chat does.",
    .groups = groups,
    .ranks = TERN_RANKED_FOLLOWED,
    .followed = follow,
    .max_args = 2,
    .defaults = defaults,
    .run = run,
};
