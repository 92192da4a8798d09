/* Help pages. */
#include "apps/args/args.h"

#include <stdlib.h>
#include <string.h>

enum { HELP_COLUMN = 30, USAGE_COLUMN = 11, WIDTH = 80 };

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

static void print_flag(const tern_flag *f, const tern_options *defaults, FILE *out)
{
    char left[96], *text = NULL;
    size_t size = 0;
    const char letter[] = {'-', f->letter, ',', ' ', 0};
    const int n = snprintf(left, sizeof left, "  %s--%s%s%s", f->letter ? letter : "    ", f->name,
                           f->metavar ? " " : "", f->metavar ? f->metavar : "");
    fputs(left, out);
    if (n > HELP_COLUMN - 2) fprintf(out, "\n%*s", HELP_COLUMN, "");
    else fprintf(out, "%*s", HELP_COLUMN - n, "");
    FILE *help = open_memstream(&text, &size);
    if (!help) return;
    fputs(f->help, help);
    tern_args_print_default(f, defaults, help);
    fclose(help);
    print_wrapped(text, HELP_COLUMN, HELP_COLUMN, out);
    free(text);
    tern_flag_value value;
    for (uint32_t i = 0; f->value_at && f->value_at(i, &value); i++) {
        fprintf(out, "%*s  %-16s ", HELP_COLUMN, "", value.name);
        print_wrapped(value.what, HELP_COLUMN + 19, HELP_COLUMN + 19, out);
    }
}

static bool is_shown(const tern_flag_group *g, const tern_flag *f, bool all)
{
    return all || (!g->more && !f->more);
}

/* How many flags of a group --help shows; *all: with --help-all. */
static uint32_t count_shown(const tern_flag_group *g, uint32_t *all)
{
    uint32_t shown = 0;
    *all = 0;
    for (const tern_flag *f = g->flags; f->name; f++, ++*all) shown += is_shown(g, f, false);
    return shown;
}

/* The groups of which something was left out, by name. */
static void print_more(const tern_command *command, FILE *out)
{
    char text[512];
    int n = snprintf(text, sizeof text, "`tern %s --help-all` shows more: ", command->name);
    const int begin = n;
    uint32_t in_all;
    for (const tern_flag_group *g = command->groups; g && g->flags; g++)
        if (count_shown(g, &in_all) < in_all && n < (int)sizeof text)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s%s", n > begin ? ", " : "", g->title);
    if (n == begin) return;
    fputc('\n', out);
    print_wrapped(text, 0, 0, out);
}

void tern_args_help(const tern_command *command, bool all, FILE *out)
{
    tern_options defaults = {0};
    if (command->defaults) command->defaults(&defaults);
    const int at = fprintf(out, "%s\n\nUsage: tern %s ", command->summary, command->name);
    print_wrapped(command->usage, at - (int)strlen(command->summary) - 2, USAGE_COLUMN, out);
    if (command->detail) {
        fputc('\n', out);
        print_wrapped(command->detail, 0, 0, out);
    }
    for (const tern_flag_group *g = command->groups; g && g->flags; g++) {
        uint32_t in_all;
        if (!all && count_shown(g, &in_all) == 0) continue;
        fprintf(out, "\n%s:\n", g->title);
        for (const tern_flag *f = g->flags; f->name; f++)
            if (is_shown(g, f, all)) print_flag(f, &defaults, out);
    }
    if (!all) print_more(command, out);
}
