/* Completion for bash. */
#include "apps/completion/completion.h"

/* "NAME) words=... ;;": what follows a flag. */
static void print_flag(const tern_flag *f)
{
    const tern_completion_words values = tern_completion_values(f);
    if (f->kind == TERN_FLAG_BOOL) return;
    printf("        --%s%s%.*s) value=1", f->name, f->letter ? "|-" : "", f->letter ? 1 : 0, &f->letter);
    if (values.text[0]) printf(" words=\"%s\"", values.text);
    if (tern_completion_is_path(f)) fputs(" files=1", stdout);
    if (tern_completion_is_model(f)) fputs(" words=$(tern list --names 2>/dev/null)", stdout);
    puts(" ;;");
}

static void print_command(const tern_command *command)
{
    const tern_flag *f;
    const char *names = tern_completion_words_of(command);
    printf("    %s)\n        case $last in\n", command->name);
    for (size_t i = 0; (f = tern_args_flag_at(command, i)); i++) print_flag(f);
    fputs("        *) flags=\"", stdout);
    for (size_t i = 0; (f = tern_args_flag_at(command, i)); i++) printf("%s--%s", i ? " " : "", f->name);
    fputs("\"", stdout);
    if (names) printf(" words=$(%s)", names);
    if (tern_completion_takes_files(command)) fputs(" files=1", stdout);
    puts(" ;;\n        esac ;;");
}

/* The word is what stands before the cursor, for bash cuts it at "=" and ":" into several, of which it replaces the
 * last. */
static const char begin[] =
    "# bash completion for tern; made by `tern completion bash`.\n"
    "_tern()\n{\n"
    "    local line=${COMP_LINE:0:COMP_POINT} commands words='' flags='' files='' value='' word last\n"
    "    local -a typed\n"
    "    read -ra typed <<< \"$line\"\n"
    "    case $line in *[[:space:]]) typed+=('') ;; esac\n"
    "    word=${typed[-1]} last=${typed[-2]}\n"
    "    case $word in --*=*) last=${word%%=*} word=${word#*=} ;; esac\n";

static const char end[] =
    "    esac\n"
    "    if [ ${#typed[@]} -eq 2 ]; then words=$commands flags='' files=''; fi\n"
    "    if [ -z \"$value\" ] && { [ -z \"$words$files\" ] || [ \"${word#-}\" != \"$word\" ]; }; then words=$flags; "
    "fi\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\"; [ -z \"$files\" ] || compgen -f -- \"$word\")\n"
    "    case $word in *:*) COMPREPLY=(\"${COMPREPLY[@]#\"${word%\"${word##*:}\"}\"}\") ;; esac\n"
    "}\ncomplete -o filenames -F _tern tern";

void tern_completion_bash(void)
{
    fputs(begin, stdout);
    fputs("    commands=\"help", stdout);
    for (const tern_command *const *c = tern_commands; *c; c++) printf(" %s", (*c)->name);
    puts("\"\n    case ${typed[1]} in\n    help) words=$commands ;;");
    for (const tern_command *const *c = tern_commands; *c; c++) print_command(*c);
    puts(end);
}
