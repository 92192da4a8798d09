/* Completion for fish: one `complete` for each command and each flag. */
#include "apps/completion.h"

static void print_flag(const tern_command *command, const tern_flag *f)
{
    const tern_completion_words values = tern_completion_values(f);
    printf("complete -c tern -n '__fish_seen_subcommand_from %s' -l %s", command->name, f->name);
    if (f->letter) printf(" -s %c", f->letter);
    if (values.text[0]) printf(" -xa '%s'", values.text);
    else if (tern_completion_is_model(f)) fputs(" -rFa '(tern list --names 2>/dev/null)'", stdout);
    else if (f->kind != TERN_FLAG_BOOL) fputs(tern_completion_is_path(f) ? " -rF" : " -x", stdout);
    fputs(" -d '", stdout);
    tern_completion_quoted(f->help, "\\", "\\'");
    puts("'");
}

void tern_completion_fish(void)
{
    const tern_flag *f;
    puts("# fish completion for tern; made by `tern completion fish`.\n"
         "complete -c tern -f -n __fish_use_subcommand -a help -d 'Show the commands, or the flags of one'");
    for (const tern_command *const *c = tern_commands; *c; c++) {
        printf("complete -c tern -f -n __fish_use_subcommand -a %s -d '", (*c)->name);
        tern_completion_quoted((*c)->summary, "\\", "\\'");
        puts("'");
        const char *names = tern_completion_words_of(*c);
        if (names) printf("complete -c tern -n '__fish_seen_subcommand_from %s' -fa '(%s)'\n", (*c)->name, names);
        for (size_t i = 0; (f = tern_args_flag_at(*c, i)); i++) print_flag(*c, f);
    }
}
