/* tern completion: a script that lets a shell complete commands and flags. */
#include <string.h>

#include "apps/app.h"

static void print_flags(const tern_command *command)
{
    printf("    %s) words=\"", command->name);
    for (size_t i = 0; tern_args_flag_at(command, i); i++)
        printf("%s--%s", i ? " " : "", tern_args_flag_at(command, i)->name);
    puts("\" ;;");
}

static tern_status run(const tern_options *o, tern_error *err)
{
    if (strcmp(o->args.items[0], "bash") != 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "completion for \"%s\": bash expected", o->args.items[0]);
    puts("# bash completion for tern; made by `tern completion bash`.\n"
         "_tern()\n{\n    local words word=${COMP_WORDS[COMP_CWORD]}\n    case ${COMP_WORDS[1]} in");
    for (const tern_command *const *c = tern_commands; *c; c++) print_flags(*c);
    puts("    esac\n    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words=\"help");
    for (const tern_command *const *c = tern_commands; *c; c++) printf(" %s", (*c)->name);
    puts("\"\n    elif [ \"${word#-}\" = \"$word\" ]; then\n        mapfile -t COMPREPLY < <(compgen -f -- "
         "\"$word\")\n        return\n    fi\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n}\ncomplete -o filenames -F _tern tern");
    return TERN_OK;
}

const tern_command tern_command_completion = {
    .name = "completion",
    .usage = "bash",
    .summary = "Print a script that completes flags in a shell",
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
