/* Completion for bash. */
#include "apps/completion.h"

/* "NAME) words=... ;;": what follows a flag, then the flags themselves. */
static void print_command(const tern_command *command)
{
    const tern_flag *f;
    printf("    %s)\n        case $last in\n", command->name);
    for (size_t i = 0; (f = tern_args_flag_at(command, i)); i++) {
        const tern_completion_words values = tern_completion_values(f);
        if (f->kind == TERN_FLAG_BOOL) continue;
        printf("        --%s%s%.*s) %s%s%s%s ;;\n", f->name, f->letter ? "|-" : "", f->letter ? 1 : 0, &f->letter,
               values.text[0] ? "words=\"" : "files=1", values.text, values.text[0] ? "\"" : "",
               tern_completion_is_model(f) ? " models=$(tern list --names 2>/dev/null)" : "");
    }
    const char *names = tern_completion_words_of(command);
    fputs("        *) words=\"", stdout);
    if (names) printf("$(%s) ", names);
    for (size_t i = 0; (f = tern_args_flag_at(command, i)); i++) printf("%s--%s", i ? " " : "", f->name);
    puts("\" ;;\n        esac ;;");
}

void tern_completion_bash(void)
{
    puts("# bash completion for tern; made by `tern completion bash`.\n"
         "_tern()\n{\n    local words='' files='' models=''\n"
         "    local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]}\n"
         "    case ${COMP_WORDS[1]} in");
    for (const tern_command *const *c = tern_commands; *c; c++) print_command(*c);
    fputs("    esac\n    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words=\"help", stdout);
    for (const tern_command *const *c = tern_commands; *c; c++) printf(" %s", (*c)->name);
    puts("\"\n    elif [ -n \"$files\" ] || { [ \"${word#-}\" = \"$word\" ] && [ \"${words#--}\" != \"$words\" ]; }; "
         "then\n"
         "        mapfile -t COMPREPLY < <(compgen -f -- \"$word\"; compgen -W \"$models\" -- \"$word\")\n"
         "        return\n    fi\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n}\ncomplete -o filenames -F _tern tern");
}
