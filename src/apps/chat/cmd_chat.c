/* tern chat: a conversation with a model. */
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "apps/app.h"
#include "apps/chat/input.h"
#include "apps/chat/talk.h"
#include "base/alloc.h"
#include "base/nearest.h"
#include "base/output.h"
#include "base/show.h"

static const tern_flag flags[] = {
    {"prompt", 'p', TERN_FLAG_TEXT, "TEXT", offsetof(tern_options, prompt), 0, 0,
     "Answer this message and leave, as with TEXT alone"},
    {"system", 0, TERN_FLAG_TEXT, "TEXT", offsetof(tern_options, system), 0, 0,
     "An instruction before the conversation"},
    {"template", 0, TERN_FLAG_TEXT, "NAME", offsetof(tern_options, template), 0, 0,
     "Chat template of the conversation; " TERN_CHAT_TEMPLATES ", or a Jinja file"},
    {"history", 0, TERN_FLAG_TEXT, "FILE", offsetof(tern_options, history), 0, 0,
     "Where typed lines are kept; \"\" keeps none"},
    {"restore", 0, TERN_FLAG_TEXT, "FILE", offsetof(tern_options, restore), 0, 0,
     "Go on with a conversation that /save wrote"},
    {"fold-thoughts", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, fold_thoughts), 0, 0,
     "Show one line in the place of a model's thoughts"},
    {"verbose", 'v', TERN_FLAG_BOOL, NULL, offsetof(tern_options, verbose), 0, 0, "Statistics after each answer"},
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

/* Flags that can be set while talking: "/temp 0.5". */
static const tern_flag_group live_groups[] = {{"Generation", tern_flags_generation},
                                              {"Sampling", tern_flags_sampling},
                                              {"Grammar", tern_flags_grammar},
                                              {"Thoughts", tern_flags_thoughts},
                                              {0}};
static const tern_command live = {.name = "chat", .usage = "", .groups = live_groups, .max_args = 1};

/* One /command: its word, what follows it, and what it does; CANCELLED leaves the chat. */
typedef struct chat_command {
    const char *name, *metavar, *help;
    tern_status (*run)(tern_chat_talk *talk, char *rest, tern_error *err);
} chat_command;

static tern_status run_help(tern_chat_talk *talk, char *rest, tern_error *err);

/* The effect of a command, for somebody at a terminal. */
static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void tell(const char *format, ...)
{
    va_list args;
    if (!tern_app_on_terminal()) return;
    va_start(args, format);
    fputc('(', stdout);
    vprintf(format, args);
    puts(")");
    va_end(args);
}

static tern_status run_exit(tern_chat_talk *talk, char *rest, tern_error *err)
{
    (void)talk;
    (void)rest;
    return tern_fail(err, TERN_CANCELLED, "bye");
}

static tern_status run_clear(tern_chat_talk *talk, char *rest, tern_error *err)
{
    (void)rest;
    (void)err;
    bool system = talk->n && strcmp(talk->messages[0].role, "system") == 0;
    tern_chat_talk_truncate(talk, system);
    tell("the conversation is forgotten%s", system ? ", what the model was told first is kept" : "");
    return TERN_OK;
}

static tern_status run_system(tern_chat_talk *talk, char *rest, tern_error *err)
{
    TERN_TRY(tern_chat_talk_set_system(talk, rest, strlen(rest), err));
    tell(*rest ? "the model is told this first, from the next answer on" : "the model is told nothing first");
    return TERN_OK;
}

static tern_status run_regenerate(tern_chat_talk *talk, char *rest, tern_error *err)
{
    (void)rest;
    if (talk->n == 0 || strcmp(talk->messages[talk->n - 1].role, "assistant") != 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "there is no answer yet");
    tern_chat_talk_truncate(talk, talk->n - 1);
    return tern_chat_talk_answer(talk, err);
}

static tern_status run_stats(tern_chat_talk *talk, char *rest, tern_error *err)
{
    (void)rest;
    (void)err;
    fprintf(stderr, "%zu messages, %u of %u tokens of context\n", talk->n, tern_session_n_tokens(talk->session),
            tern_session_n_ctx(talk->session));
    if (talk->cost.result.n_generated == 0) return TERN_OK;
    tern_app_count_cost(&talk->cost, talk->engine);
    tern_app_measure_cost(&talk->cost, talk->engine);
    tern_app_print_cost(&talk->cost);
    return TERN_OK;
}

static tern_status run_thoughts(tern_chat_talk *talk, char *rest, tern_error *err)
{
    (void)rest;
    if (!talk->thinking.marks)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "/thoughts: the model has no thoughts that are known");
    talk->thinking.folded = !talk->thinking.folded;
    tell(talk->thinking.folded ? "one line stands for thoughts" : "thoughts are shown");
    return TERN_OK;
}

static tern_status run_lora(tern_chat_talk *talk, char *rest, tern_error *err)
{
    return tern_chat_lora_command(talk, rest, err);
}

static tern_status need_file(const char *rest, tern_error *err)
{
    return *rest ? TERN_OK : tern_fail(err, TERN_INVALID_ARGUMENT, "the name of a file is missing");
}

/* The file that this conversation is in. */
static tern_status set_file(tern_chat_talk *talk, const char *path, tern_error *err)
{
    char *copy = tern_strdup(path);
    if (!copy) return tern_fail_alloc(err, strlen(path) + 1);
    tern_free(talk->file);
    talk->file = copy;
    return TERN_OK;
}

/* Another file that is there is not replaced. */
static tern_status check_save(const tern_chat_talk *talk, const char *path, tern_error *err)
{
    const tern_output output = {.path = path, .overwrite = tern_output_same(path, talk->file)};
    if (tern_output_check(&output, NULL) == TERN_OK) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "%s exists, and this chat has neither loaded nor saved it: another name expected",
                     tern_show_z(path).text);
}

static tern_status run_save(tern_chat_talk *talk, char *rest, tern_error *err)
{
    TERN_TRY(need_file(rest, err));
    TERN_TRY(check_save(talk, rest, err));
    TERN_TRY(tern_chat_talk_save(talk, rest, err));
    tell("%zu messages are in %s", talk->n, tern_show_z(rest).text);
    return set_file(talk, rest, err);
}

static tern_status run_load(tern_chat_talk *talk, char *rest, tern_error *err)
{
    TERN_TRY(need_file(rest, err));
    TERN_TRY(tern_chat_talk_load(talk, rest, err));
    tell("%zu messages are here again", talk->n);
    return set_file(talk, rest, err);
}

static const chat_command commands[] = {
    {"help", "", "Show this list", run_help},
    {"exit", "", "Leave (Ctrl-D does the same)", run_exit},
    {"quit", "", "Leave", run_exit},
    {"bye", "", "Leave", run_exit},
    {"clear", "", "Forget the conversation", run_clear},
    {"system", " TEXT", "Tell the model something first; without TEXT: nothing", run_system},
    {"regenerate", "", "Answer the last message again", run_regenerate},
    {"stats", "", "Show context and speed", run_stats},
    {"save", " FILE", "Save the conversation as JSON", run_save},
    {"thoughts", "", "Show a model's thoughts, or one line in their place", run_thoughts},
    {"lora", " [add F[:SCALE] | remove N | scale N SCALE]", "Show or change the adapters", run_lora},
    {"load", " FILE", "Go on with a saved conversation", run_load},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static tern_status run_help(tern_chat_talk *talk, char *rest, tern_error *err)
{
    (void)talk;
    (void)rest;
    (void)err;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        int n = printf("  /%s%s", commands[i].name, commands[i].metavar);
        printf("%*s%s\n", n < 20 ? 20 - n : 1, "", commands[i].help);
    }
    puts("  /temp T, /top-p P, /seed N, ...: any flag of generation and sampling\n"
         "A line that ends with \\ (or Alt-Enter) goes on in the next one; \"\"\" begins and\n"
         "ends a message of several lines; pasted lines are one message.\n"
         "Ctrl-C stops an answer or drops a line (Up has it again); at an empty line,\n"
         "twice, it leaves.");
    return TERN_OK;
}

/* Names of commands, then of flags; --help and --help-all, which end the flags of every command, are none of a chat. */
static const char *name_at(size_t i)
{
    if (i < N_COMMANDS) return commands[i].name;
    const tern_flag *f = tern_args_flag_at(&live, i - N_COMMANDS);
    return f && strncmp(f->name, "help", 4) != 0 ? f->name : NULL;
}

static const char *word_at(const void *context, size_t i)
{
    (void)context;
    return name_at(i);
}

/* A message about a flag speaks of the command that was typed: "/temp x", not "--temp x". */
static tern_status as_command(tern_error *err)
{
    if (strncmp(err->message, "--", 2) == 0) {
        err->message[0] = '/';
        memmove(err->message + 1, err->message + 2, strlen(err->message + 2) + 1);
    }
    return err->code;
}

/* A flag points to its text, which must outlive the line that it stands in. */
static tern_status keep_setting(tern_chat_talk *talk, char **text, tern_error *err)
{
    void *all = talk->settings;
    TERN_TRY(tern_grow(&all, &talk->cap_settings, talk->n_settings + 1, sizeof *talk->settings, err));
    talk->settings = all;
    char *copy = tern_strdup(*text);
    if (!copy) return tern_fail_alloc(err, strlen(*text) + 1);
    *text = talk->settings[talk->n_settings++] = copy;
    return TERN_OK;
}

static tern_status set_flag(tern_chat_talk *talk, const tern_flag *f, char *rest, tern_error *err)
{
    char flag[64];
    snprintf(flag, sizeof flag, "--%s", f->name);
    if (f->kind == TERN_FLAG_TEXTS || f->kind == TERN_FLAG_CHOICE)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "/%s: --%s can be given at the start of `tern chat` only", f->name,
                         f->name);
    char *words[] = {flag, rest};
    if (f->kind == TERN_FLAG_TEXT) TERN_TRY(keep_setting(talk, &words[1], err));
    if (tern_args_parse(&live, *rest ? 2 : 1, words, talk->options, err) != TERN_OK) return as_command(err);
    tell("%s is %s now", f->name, *rest ? rest : "on");
    return TERN_OK;
}

static tern_status run_command(tern_chat_talk *talk, char *line, tern_error *err)
{
    char *rest = line + strcspn(line, " ");
    if (*rest) *rest++ = 0;
    rest += strspn(rest, " ");
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, line) == 0) return commands[i].run(talk, rest, err);
    for (size_t i = 0; tern_args_flag_at(&live, i); i++)
        if (strcmp(tern_args_flag_at(&live, i)->name, line) == 0)
            return set_flag(talk, tern_args_flag_at(&live, i), rest, err);
    const char *nearest = tern_nearest(line, word_at, NULL);
    if (nearest) return tern_fail(err, TERN_INVALID_ARGUMENT, "unknown command /%s: did you mean /%s?", line, nearest);
    return tern_fail(err, TERN_INVALID_ARGUMENT, "unknown command /%s (/help lists them)", line);
}

static tern_status say(tern_chat_talk *talk, const char *line, tern_error *err)
{
    size_t before = talk->n;
    tern_status status = tern_chat_talk_add(talk, "user", line, strlen(line), err);
    if (status == TERN_OK) status = tern_chat_talk_answer(talk, err);
    if (status != TERN_OK) tern_chat_talk_truncate(talk, before);
    else if (talk->options->verbose) status = run_stats(talk, NULL, err);
    return status;
}

/* After Ctrl-C at the prompt: the first time a hint, the second time the end; with a line that was begun, another. */
static bool leaves(const tern_chat_input *input, bool *warned)
{
    const bool stopped = tern_app_take_interrupt() || input->stopped;
    if (input->dropped) return *warned = false;
    if (!stopped || !input->terminal || *warned) return true;
    puts(input->stopped ? "(Ctrl-C again, Ctrl-D or /exit leaves)" : "\n(Ctrl-C again, Ctrl-D or /exit leaves)");
    *warned = true;
    return false;
}

/* Errors in a conversation on a terminal are shown and it goes on; elsewhere they end it. */
static tern_status converse(tern_chat_talk *talk, tern_chat_input *input, tern_error *err)
{
    bool warned = false;
    for (;;) {
        char *line = tern_chat_input_next(input);
        if (input->too_long)
            return tern_fail(err, TERN_LIMIT,
                             "standard input: a message of more than %d bytes found, at most %d expected",
                             TERN_CHAT_LINE_BYTES, TERN_CHAT_LINE_BYTES);
        if (!line && leaves(input, &warned)) return TERN_OK;
        if (!line || !*line) continue;
        warned = false;
        const bool command = *line == '/' && !input->quoted;
        tern_status status = command ? run_command(talk, line + 1, err) : say(talk, line, err);
        tern_app_take_interrupt();
        if (status == TERN_CANCELLED) return TERN_OK;
        if (talk->failed) return tern_app_flush(err);
        if (status != TERN_OK && !input->terminal) return status;
        if (status != TERN_OK) fprintf(stderr, "error: %s\n", err->message);
        *err = (tern_error){0};
    }
}

static void defaults(tern_options *o)
{
    tern_app_generation_defaults(o);
    o->n_tokens = UINT32_MAX;
    o->thought_budget = UINT32_MAX;
    o->bundled = "chat.gguf";
}

/* The model of the conversation, and how to leave. */
static void greet(const tern_chat_talk *talk)
{
    tern_engine_info info = {.size = sizeof info};
    tern_app_path path;
    tern_error ignored;
    if (tern_engine_describe(talk->engine, &info, NULL) != TERN_OK) return;
    const bool found = tern_app_find_model(talk->options, &path, &ignored) == TERN_OK;
    const char *slash = found ? strrchr(path.text, '/') : NULL;
    const bool small = info.parameters < 1000000000;
    printf("%s (%s, %.3g %c parameters) on %s, %s activations, %u tokens of context\nType a message; /help lists what "
           "else there is, "
           "Ctrl-D leaves.\n",
           tern_show_z(slash   ? slash + 1
                       : found ? path.text
                               : info.name)
               .text,
           info.architecture, (double)info.parameters * (small ? 1e-6 : 1e-9), small ? 'M' : 'G',
           info.device ? info.device : info.backend, info.activations, tern_session_n_ctx(talk->session));
}

tern_status tern_chat_once(const tern_options *o, const char *message, size_t n, tern_error *err)
{
    tern_options options = *o;
    tern_chat_talk talk;
    tern_status status;
    TERN_GOTO(tern_chat_talk_open(&talk, &options, err));
    if (o->restore) TERN_GOTO(tern_chat_talk_load(&talk, o->restore, err));
    talk.style = tern_chat_style_of(tern_app_on_terminal());
    TERN_GOTO(tern_chat_talk_add(&talk, "user", message, n, err));
    TERN_GOTO(tern_chat_talk_answer(&talk, err));
    if (talk.failed) TERN_GOTO(tern_app_flush(err));
    if (o->verbose) TERN_GOTO(run_stats(&talk, NULL, err));
    if (tern_app_interrupted()) status = tern_app_fail_interrupted(err);
fail:
    tern_chat_talk_close(&talk);
    return status;
}

static tern_status check_message(const tern_options *o, const char *message, tern_error *err)
{
    if (o->prompt && o->args.n)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "several messages: one of TEXT and --prompt expected");
    if (message && !*message) return tern_fail(err, TERN_INVALID_ARGUMENT, "the message is empty: some text expected");
    return TERN_OK;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    const char *message = o->prompt ? o->prompt : o->args.n ? o->args.items[0] : NULL;
    tern_options options = *o;
    tern_chat_talk talk;
    tern_chat_input input = {0};
    tern_status status;
    if (o->n_tokens == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "-n 0: an answer of 1 token or more expected, or -1: no limit");
    TERN_TRY(check_message(o, message, err));
    if (message) return tern_chat_once(o, message, strlen(message), err);
    TERN_GOTO(tern_chat_talk_open(&talk, &options, err));
    if (o->restore) TERN_GOTO(tern_chat_talk_load(&talk, o->restore, err));
    if (o->restore) TERN_GOTO(set_file(&talk, o->restore, err));
    TERN_GOTO(tern_chat_input_open(&input, o->history, err));
    talk.style = tern_chat_style_of(input.terminal);
    input.prompt = tern_chat_style_prompt(&talk.style);
    if (input.terminal) greet(&talk);
    tern_chat_input_complete(name_at);
    TERN_GOTO(converse(&talk, &input, err));
fail:
    tern_chat_input_close(&input);
    tern_chat_talk_close(&talk);
    return status;
}

const tern_command tern_command_chat = {
    .name = "chat",
    .usage = "[-m MODEL] [--system TEXT] [TEXT | -p TEXT]",
    .summary = "Talk with a model",
    .detail = "Without -m with the bundled model. Each line is a message, also from a pipe or a file. A line that\n"
              "ends with \\ goes on in the next one, and three quotes begin and end a message of several lines. /help\n"
              "inside lists the commands. With TEXT it answers that message and leaves.",
    .groups = groups,
    .ranks = TERN_RANKED_FOLLOWED,
    .max_args = 1,
    .defaults = defaults,
    .run = run,
};
