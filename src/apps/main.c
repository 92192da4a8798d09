/* The command `tern`: finds the sub-command, parses its flags, reports its error. */
#include <langinfo.h>
#include <locale.h>
#include <string.h>

#include "apps/app.h"
#include "apps/ranks.h"
#include "backend/open.h"
#include "base/nearest.h"
#include "format/json.h"

enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 130 };

static const char *command_name_at(const void *context, size_t i)
{
    (void)context;
    return tern_commands[i] ? tern_commands[i]->name : NULL;
}

static const tern_command *find_command(const char *name)
{
    for (const tern_command *const *c = tern_commands; *c; c++)
        if (strcmp((*c)->name, name) == 0) return *c;
    return NULL;
}

static void print_overview(FILE *out)
{
    fputs("Tern runs and fine-tunes ternary (1.58-bit) language models.\n\nUsage: tern COMMAND [FLAGS]\n\nCommands:\n",
          out);
    for (const tern_command *const *c = tern_commands; *c; c++) fprintf(out, "  %-12s%s\n", (*c)->name, (*c)->summary);
    fputs("  help        Show this list, or the usual flags of a command\n\n"
          "`tern run` alone lets the bundled model write a story, `tern chat` talks.\n"
          "`tern COMMAND --help` lists the usual flags, `--help-all` explains all.\n",
          out);
}

static int fail_unknown_command(const char *name)
{
    const char *nearest = *name == '-' ? NULL : tern_nearest(name, command_name_at, NULL);
    if (*name == '-') tern_app_say("tern: %s: a command expected before its flags (tern help lists them)\n", name);
    else if (nearest) tern_app_say("tern: unknown command \"%s\": did you mean \"%s\"?\n", name, nearest);
    else tern_app_say("tern: unknown command \"%s\" (tern help lists them)\n", name);
    return EXIT_USAGE;
}

static int report(const tern_command *command, tern_status status, const tern_error *err)
{
    if (status == TERN_OK) return EXIT_OK;
    if (status == TERN_CANCELLED && tern_app_interrupted()) return EXIT_INTERRUPTED;
    fprintf(stderr, "tern %s: error: %s%s\n", command->name, tern_app_rank_words(), err->message);
    return status == TERN_INVALID_ARGUMENT ? EXIT_USAGE : EXIT_FAILED;
}

static void choose_backend(tern_options *o)
{
    tern_error why = {0};
    if (!o->backend || strcmp(o->backend, "auto") != 0) return;
    o->backend = tern_backend_auto();
    if (tern_backend_auto_misses(&why)) fprintf(stderr, "note: --backend auto uses %s: %s\n", o->backend, why.message);
}

static int run_command(const tern_command *command, int n, char **words)
{
    tern_options options = {0};
    tern_error err = {0};
    int code;
    if (command->defaults) command->defaults(&options);
    if (tern_args_parse(command, n, words, &options, &err) != TERN_OK) {
        fprintf(stderr, "tern %s: error: %s\n", command->name, err.message);
        code = EXIT_USAGE;
    } else if (options.help || options.help_all) {
        tern_args_help(command, options.help_all, stdout);
        code = report(command, tern_app_flush(&err), &err);
    } else {
        choose_backend(&options);
        tern_status status = tern_app_start(command, &options, n, words, &err);
        if (status == TERN_OK) status = tern_app_join(command, &err);
        if (status == TERN_OK) status = tern_app_run_ranked(command, &options, &err);
        tern_status flushed = status == TERN_OK ? tern_app_flush(&err) : status;
        code = report(command, flushed, &err);
    }
    tern_args_deinit(&options);
    tern_app_leave(code != EXIT_OK);
    return code;
}

/* Pages for man(1) into a folder, one for each command. */
static int write_man(const char *folder)
{
    for (const tern_command *const *c = tern_commands; *c; c++) {
        char path[4096];
        const int n = snprintf(path, sizeof path, "%s/tern-%s.1", folder, (*c)->name);
        FILE *out = n < (int)sizeof path ? fopen(path, "w") : NULL;
        if (out) tern_args_man(*c, out);
        if (!out || fclose(out) != 0) {
            tern_app_say("tern help --man: %s: cannot be written\n", folder);
            return EXIT_FAILED;
        }
    }
    return EXIT_OK;
}

static bool is_help(const char *word)
{
    return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int help(const char *name)
{
    tern_error err = {0};
    if (name && is_help(name)) name = NULL;
    const tern_command *command = name ? find_command(name) : NULL;
    if (name && !command) return fail_unknown_command(name);
    if (command) tern_args_help(command, false, stdout);
    else print_overview(stdout);
    if (tern_app_flush(&err) == TERN_OK) return EXIT_OK;
    fprintf(stderr, "tern help: error: %s\n", err.message);
    return EXIT_FAILED;
}

/* Text is UTF-8 everywhere: a locale without it, such as C in a container, makes libedit drop every other byte. */
static void set_locale(void)
{
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8");
}

int main(int argc, char **argv)
{
    set_locale();
    tern_app_catch_interrupts();
    tern_report_cut_files(NULL);
    tern_json_use_allocator();
    if (argc < 2) {
        print_overview(stderr);
        return EXIT_USAGE;
    }
    const char *word = argv[1];
    if (argc == 4 && strcmp(word, "help") == 0 && strcmp(argv[2], "--man") == 0) return write_man(argv[3]);
    if (is_help(word)) return help(argc > 2 ? argv[2] : NULL);
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) word = "version";
    const tern_command *command = find_command(word);
    return command ? run_command(command, argc - 2, argv + 2) : fail_unknown_command(word);
}
