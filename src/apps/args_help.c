/* Help pages. */
#include <string.h>

#include "apps/args.h"

enum { HELP_COLUMN = 30 };

static void print_default(const tern_flag *f, const tern_options *defaults, FILE *out)
{
    const void *field = (const char *)defaults + f->field;
    if (f->kind == TERN_FLAG_U32 && *(const uint32_t *)field) fprintf(out, " (default %u)", *(const uint32_t *)field);
    if (f->kind == TERN_FLAG_U64 && *(const uint64_t *)field)
        fprintf(out, " (default %llu)", (unsigned long long)*(const uint64_t *)field);
    if (f->kind == TERN_FLAG_F32 && *(const float *)field != 0)
        fprintf(out, " (default %g)", (double)*(const float *)field);
    if (f->kind == TERN_FLAG_F64 && *(const double *)field > 0) fprintf(out, " (default %g)", *(const double *)field);
    if ((f->kind == TERN_FLAG_TEXT || f->kind == TERN_FLAG_CHOICE) && *(const char *const *)field)
        fprintf(out, " (default %s)", *(const char *const *)field);
}

static void print_flag(const tern_flag *f, const tern_options *defaults, FILE *out)
{
    char left[96];
    const char letter[] = {'-', f->letter, ',', ' ', 0};
    int n = snprintf(left, sizeof left, "  %s--%s%s%s", f->letter ? letter : "    ", f->name, f->metavar ? " " : "",
                     f->metavar ? f->metavar : "");
    fputs(left, out);
    if (n > HELP_COLUMN - 2) fprintf(out, "\n%*s", HELP_COLUMN, "");
    else fprintf(out, "%*s", HELP_COLUMN - n, "");
    fputs(f->help, out);
    print_default(f, defaults, out);
    fputc('\n', out);
    tern_flag_value value;
    for (uint32_t i = 0; f->value_at && f->value_at(i, &value); i++)
        fprintf(out, "%*s  %-16s %s\n", HELP_COLUMN, "", value.name, value.what);
}

void tern_args_help(const tern_command *command, FILE *out)
{
    tern_options defaults = {0};
    if (command->defaults) command->defaults(&defaults);
    fprintf(out, "%s\n\nUsage: tern %s %s\n", command->summary, command->name, command->usage);
    if (command->detail) fprintf(out, "\n%s\n", command->detail);
    for (const tern_flag_group *g = command->groups; g && g->flags; g++) {
        fprintf(out, "\n%s:\n", g->title);
        for (const tern_flag *f = g->flags; f->name; f++) print_flag(f, &defaults, out);
    }
}
