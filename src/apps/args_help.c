/* Help pages, and the nearest word to one that is unknown. */
#include <string.h>

#include "apps/args.h"

enum { HELP_COLUMN = 30, MAX_WORD = 40 };

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

/* Edit distance (Levenshtein, with a swap of neighbours as one step) of words of at most MAX_WORD bytes. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][MAX_WORD + 1], n = strlen(a), m = strlen(b);
    if (n > MAX_WORD || m > MAX_WORD) return MAX_WORD;
    for (size_t j = 0; j <= m; j++) rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best) best = above[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && above2[j - 2] + 1 < best)
                best = above2[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[n % 3][m];
}

size_t tern_args_nearest_at(const char *word, const char *(*next)(const void *context, size_t i), const void *context)
{
    size_t nearest = SIZE_MAX, best = strlen(word) / 3 + 2;
    for (size_t i = 0;; i++) {
        const char *candidate = next(context, i);
        if (!candidate) return nearest;
        size_t d = distance(word, candidate);
        if (d < best) {
            best = d;
            nearest = i;
        }
    }
}

const char *tern_args_nearest(const char *word, const char *(*next)(const void *context, size_t i), const void *context)
{
    size_t nearest = tern_args_nearest_at(word, next, context);
    return nearest == SIZE_MAX ? NULL : next(context, nearest);
}
