/* Completion for zsh: _arguments with a line for each flag. */
#include "apps/completion/completion.h"

static void print_flag(const tern_flag *f)
{
    const tern_completion_words values = tern_completion_values(f);
    const char *repeat = f->kind == TERN_FLAG_TEXTS ? "*" : "";
    if (f->letter) printf(" \\\n            '%s'{-%c,--%s}'[", repeat, f->letter, f->name);
    else printf(" \\\n            '%s--%s[", repeat, f->name);
    tern_completion_quoted(f->help, "[]:\\", "'\\''");
    putchar(']');
    if (f->kind != TERN_FLAG_BOOL) {
        printf(":%s:", f->name);
        if (tern_completion_is_model(f)) fputs("_tern_models", stdout);
        else if (values.text[0] && tern_completion_is_path(f)) printf("{ compadd -- %s; _files }", values.text);
        else if (values.text[0]) printf("(%s)", values.text);
        else if (tern_completion_is_path(f)) fputs("_files", stdout);
    }
    putchar('\'');
}

/* The words that are not flags. */
static void print_words(const tern_command *command)
{
    const char *names = tern_completion_words_of(command);
    const bool files = tern_completion_takes_files(command);
    if (names || files) fputs(" \\\n            '*:word:{ ", stdout);
    if (names) {
        fputs("compadd -- ${(f)\"$(", stdout);
        tern_completion_quoted(names, "", "'\\''");
        fputs(")\"}; ", stdout);
    }
    if (files) fputs("_files ", stdout);
    puts(names || files ? "}' ;;" : " ;;");
}

void tern_completion_zsh(void)
{
    const tern_flag *f;
    puts("#compdef tern\n# zsh completion for tern; made by `tern completion zsh`.\n"
         "_tern_models() {\n    _files\n    compadd -- ${(f)\"$(tern list --names 2>/dev/null)\"}\n}\n"
         "_tern() {\n    local -a commands\n"
         "    commands=(\n        'help:Show the commands, or the flags of one'");
    for (const tern_command *const *c = tern_commands; *c; c++) {
        printf("        '%s:", (*c)->name);
        tern_completion_quoted((*c)->summary, ":\\", "'\\''");
        puts("'");
    }
    puts("    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n        return\n    fi\n"
         "    local name=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $name in\n"
         "        help) _describe command commands ;;");
    for (const tern_command *const *c = tern_commands; *c; c++) {
        printf("        %s) _arguments -s", (*c)->name);
        for (size_t i = 0; (f = tern_args_flag_at(*c, i)); i++) print_flag(f);
        print_words(*c);
    }
    puts("    esac\n}\n_tern \"$@\"");
}
