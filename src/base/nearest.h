/* The word of a list that is nearest to one that is not in it. */
#ifndef TERN_BASE_NEAREST_H
#define TERN_BASE_NEAREST_H

#include <stddef.h>

/* The candidate nearest to `word` by edit distance (Levenshtein, a swap of neighbours is one step), NULL when none is
 * near. `next` yields the i-th candidate, NULL at the end. */
const char *tern_nearest(const char *word, const char *(*next)(const void *context, size_t i), const void *context);
/* As above, as an index; SIZE_MAX when none is near. A candidate need not outlive the next call of `next`. */
size_t tern_nearest_at(const char *word, const char *(*next)(const void *context, size_t i), const void *context);

#endif
