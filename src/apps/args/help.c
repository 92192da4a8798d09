/* Help pages. */
#include "apps/args/args.h"

#include <stdlib.h>
#include <string.h>

enum { HELP_COLUMN = 30, USAGE_COLUMN = 11, WIDTH = 80, SCREEN_LINES = 40 };

void tern_args_print_default(const tern_flag *f, const tern_options *defaults, FILE *out)
{
    const void *field = (const char *)defaults + f->field;
    const uint32_t u32 = f->kind == TERN_FLAG_U32 ? *(const uint32_t *)field : 0;
    if (u32 == UINT32_MAX) fputs(" (default -1)", out);
    else if (u32) fprintf(out, " (default %u)", u32);
    if (f->kind == TERN_FLAG_U64 && *(const uint64_t *)field)
        fprintf(out, " (default %llu)", (unsigned long long)*(const uint64_t *)field);
    if (f->kind == TERN_FLAG_F32 && *(const float *)field != 0)
        fprintf(out, " (default %g)", (double)*(const float *)field);
    if (f->kind == TERN_FLAG_F64 && *(const double *)field > 0) fprintf(out, " (default %g)", *(const double *)field);
    if ((f->kind == TERN_FLAG_TEXT || f->kind == TERN_FLAG_CHOICE) && *(const char *const *)field)
        fprintf(out, " (default %s)", *(const char *const *)field);
}

/* Words from column `at` on, in lines that begin at column `indent`; ends with a line break. */
static void print_wrapped(const char *text, int at, int indent, FILE *out)
{
    bool blank = false; /* a word stands before on the line */
    while (*text) {
        const int n = (int)strcspn(text, " \n");
        if (at + blank + n > WIDTH && at > indent) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
        } else if (blank) {
            fputc(' ', out);
            at++;
        }
        fwrite(text, 1, (size_t)n, out);
        at += n;
        blank = true;
        text += n + (text[n] != 0);
    }
    fputc('\n', out);
}

/* The flag and, from column HELP_COLUMN on, the first n bytes of its help with its default. */
static void print_words(const tern_flag *f, size_t n, const tern_options *defaults, FILE *out)
{
    char left[96], *text = NULL;
    size_t size = 0;
    const char letter[] = {'-', f->letter, ',', ' ', 0};
    const int at = snprintf(left, sizeof left, "  %s--%s%s%s", f->letter ? letter : "    ", f->name,
                            f->metavar ? " " : "", f->metavar ? f->metavar : "");
    fputs(left, out);
    if (at > HELP_COLUMN - 2) fprintf(out, "\n%*s", HELP_COLUMN, "");
    else fprintf(out, "%*s", HELP_COLUMN - at, "");
    FILE *help = open_memstream(&text, &size);
    if (!help) return;
    fwrite(f->help, 1, n, help);
    tern_args_print_default(f, defaults, help);
    fclose(help);
    print_wrapped(text, HELP_COLUMN, HELP_COLUMN, out);
    free(text);
}

static void print_flag(const tern_flag *f, const tern_options *defaults, FILE *out)
{
    tern_flag_value value;
    print_words(f, strlen(f->help), defaults, out);
    for (uint32_t i = 0; f->value_at && f->value_at(i, &value); i++) {
        fprintf(out, "%*s  %-16s ", HELP_COLUMN, "", value.name);
        print_wrapped(value.what, HELP_COLUMN + 19, HELP_COLUMN + 19, out);
    }
}

static void print_head(const tern_command *command, FILE *out)
{
    const int at = fprintf(out, "%s\n\nUsage: tern %s ", command->summary, command->name);
    print_wrapped(command->usage, at - (int)strlen(command->summary) - 2, USAGE_COLUMN, out);
    if (!command->detail) return;
    fputc('\n', out);
    print_wrapped(command->detail, 0, 0, out);
}

/* Every flag, in groups, with its whole help. */
static void print_all(const tern_command *command, const tern_options *defaults, FILE *out)
{
    print_head(command, out);
    for (const tern_flag_group *g = command->groups; g && g->flags; g++) {
        fprintf(out, "\n%s:\n", g->title);
        for (const tern_flag *f = g->flags; f->name; f++) print_flag(f, defaults, out);
    }
}

/* The usual flags in one list, each with the part of its help before a semicolon. */
static void print_usual(const tern_command *command, const tern_options *defaults, FILE *out)
{
    size_t n_flags = 0;
    print_head(command, out);
    fputs("\nUsual flags:\n", out);
    for (const tern_flag_group *g = command->groups; g && g->flags; g++)
        for (const tern_flag *f = g->flags; f->name; f++, n_flags++)
            if (!g->more && !f->more) print_words(f, strcspn(f->help, ";"), defaults, out);
    fprintf(out, "\n`tern %s --help-all` explains all %zu flags.\n", command->name, n_flags);
}

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; (text = strchr(text, '\n')); text++) n++;
    return n;
}

void tern_args_help(const tern_command *command, bool all, FILE *out)
{
    tern_options defaults = {0};
    char *text = NULL;
    size_t size;
    if (command->defaults) command->defaults(&defaults);
    FILE *page = open_memstream(&text, &size);
    if (!page) return;
    print_all(command, &defaults, page);
    fclose(page);
    if (all || count_lines(text) <= SCREEN_LINES) fputs(text, out);
    else print_usual(command, &defaults, out);
    free(text);
}
