/* The nearest word, by edit distance. */
#include "base/nearest.h"

#include <stdint.h>
#include <string.h>

enum { MAX_WORD = 40 };

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

size_t tern_nearest_at(const char *word, const char *(*next)(const void *context, size_t i), const void *context)
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

const char *tern_nearest(const char *word, const char *(*next)(const void *context, size_t i), const void *context)
{
    size_t nearest = tern_nearest_at(word, next, context);
    return nearest == SIZE_MAX ? NULL : next(context, nearest);
}
