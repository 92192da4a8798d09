/* Completion for fish: one `complete` for each command and each flag. */
#include "apps/completion/completion.h"

static void print_flag(const tern_command *command, const tern_flag *f)
{
    const tern_completion_words values = tern_completion_values(f);
    printf("complete -c tern -n '__fish_seen_subcommand_from %s' -l %s", command->name, f->name);
    if (f->letter) printf(" -s %c", f->letter);
    if (f->kind != TERN_FLAG_BOOL) fputs(tern_completion_is_path(f) ? " -rF" : " -x", stdout);
    if (tern_completion_is_model(f)) fputs(" -a '(tern list --names 2>/dev/null)'", stdout);
    else if (values.text[0]) printf(" -a '%s'", values.text);
    fputs(" -d '", stdout);
    tern_completion_quoted(f->help, "\\", "\\'");
    puts("'");
}

/* The words that are not flags. */
static void print_words(const tern_command *command)
{
    const char *names = tern_completion_words_of(command);
    printf("complete -c tern -n '__fish_seen_subcommand_from %s' %s", command->name,
           tern_completion_takes_files(command) ? "-F" : "-f");
    if (names) {
        fputs(" -a '(", stdout);
        tern_completion_quoted(names, "", "\\'");
        fputs(")'", stdout);
    }
    putchar('\n');
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
        printf("complete -c tern -f -n '__fish_seen_subcommand_from help' -a %s\n", (*c)->name);
        print_words(*c);
        for (size_t i = 0; (f = tern_args_flag_at(*c, i)); i++) print_flag(*c, f);
    }
}
