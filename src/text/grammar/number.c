/* Whole numbers of a range as nodes of a grammar's tree: digits, from both bounds. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text/grammar/json.h"

static tern_status digit(tern_grammar_tree *t, char first, char last, uint32_t *node, tern_error *err)
{
    const tern_grammar_range range = {(uint8_t)first, (uint8_t)last};
    return tern_grammar_tree__class(t, &range, 1, false, node, err);
}

/* A digit of first to last, then n of any value. */
static tern_status digits(tern_grammar_tree *t, char first, char last, uint32_t n, uint32_t *node, tern_error *err)
{
    uint32_t items[2];
    TERN_TRY(digit(t, first, last, &items[0], err));
    TERN_TRY(digit(t, '0', '9', &items[1], err));
    TERN_TRY(tern_grammar_tree__repeat(t, items[1], n, n, &items[1], err));
    return tern_grammar_tree__join_n(t, TERN_GRAMMAR_ALL, items, 2, node, err);
}

static tern_status after(tern_grammar_tree *t, char first, uint32_t rest, uint32_t *node, tern_error *err)
{
    uint32_t items[2] = {0, rest};
    TERN_TRY(tern_grammar_tree__bytes(t, &first, 1, &items[0], err));
    return tern_grammar_tree__join_n(t, TERN_GRAMMAR_ALL, items, 2, node, err);
}

/* n digits from those of low on. */
static tern_status at_least(tern_grammar_tree *t, const char *low, uint32_t n, uint32_t *node, tern_error *err)
{
    uint32_t items[2], k = 0;
    if (n == 0) return tern_grammar_tree__bytes(t, "", 0, node, err);
    TERN_TRY(at_least(t, low + 1, n - 1, &items[0], err));
    TERN_TRY(after(t, low[0], items[0], &items[k++], err));
    if (low[0] < '9') TERN_TRY(digits(t, (char)(low[0] + 1), '9', n - 1, &items[k++], err));
    return tern_grammar_tree__join_n(t, TERN_GRAMMAR_ANY, items, k, node, err);
}

/* n digits up to those of high. */
static tern_status at_most(tern_grammar_tree *t, const char *high, uint32_t n, uint32_t *node, tern_error *err)
{
    uint32_t items[2], k = 0;
    if (n == 0) return tern_grammar_tree__bytes(t, "", 0, node, err);
    TERN_TRY(at_most(t, high + 1, n - 1, &items[0], err));
    TERN_TRY(after(t, high[0], items[0], &items[k++], err));
    if (high[0] > '0') TERN_TRY(digits(t, '0', (char)(high[0] - 1), n - 1, &items[k++], err));
    return tern_grammar_tree__join_n(t, TERN_GRAMMAR_ANY, items, k, node, err);
}

/* n digits from those of low to those of high. */
static tern_status between(tern_grammar_tree *t, const char *low, const char *high, uint32_t n, uint32_t *node,
                           tern_error *err)
{
    uint32_t items[3], k = 0;
    if (n == 0) return tern_grammar_tree__bytes(t, "", 0, node, err);
    if (low[0] == high[0]) {
        TERN_TRY(between(t, low + 1, high + 1, n - 1, &items[0], err));
        return after(t, low[0], items[0], node, err);
    }
    TERN_TRY(at_least(t, low + 1, n - 1, &items[0], err));
    TERN_TRY(after(t, low[0], items[0], &items[k++], err));
    if (high[0] - low[0] > 1) TERN_TRY(digits(t, (char)(low[0] + 1), (char)(high[0] - 1), n - 1, &items[k++], err));
    TERN_TRY(at_most(t, high + 1, n - 1, &items[k], err));
    TERN_TRY(after(t, high[0], items[k], &items[k], err));
    return tern_grammar_tree__join_n(t, TERN_GRAMMAR_ANY, items, k + 1, node, err);
}

/* Numbers without a sign, by their count of digits. */
static tern_status positive(tern_grammar_tree *t, uint64_t least, uint64_t most, uint32_t *node, tern_error *err)
{
    char low[24], high[24];
    uint32_t items[24], k = 0;
    while (least <= most) {
        const uint32_t n = (uint32_t)snprintf(low, sizeof low, "%" PRIu64, least);
        uint64_t end = 9;
        for (uint32_t i = 1; i < n; i++) end = end * 10 + 9;
        if (end > most) end = most;
        snprintf(high, sizeof high, "%" PRIu64, end);
        TERN_TRY(between(t, low, high, n, &items[k++], err));
        least = end + 1;
    }
    return tern_grammar_tree__join_n(t, TERN_GRAMMAR_ANY, items, k, node, err);
}

/* The size of a number; that of INT64_MIN is not an int64_t. */
static uint64_t size_of(int64_t n)
{
    return n < 0 ? ~(uint64_t)n + 1 : (uint64_t)n;
}

tern_status tern_grammar_json__integer(tern_grammar_tree *tree, int64_t least, int64_t most, uint32_t *node,
                                       tern_error *err)
{
    uint32_t items[2], k = 0;
    if (least < 0) {
        TERN_TRY(positive(tree, most < 0 ? size_of(most) : 1, size_of(least), &items[k], err));
        TERN_TRY(after(tree, '-', items[k], &items[k], err));
        k++;
    }
    if (most >= 0) TERN_TRY(positive(tree, least > 0 ? (uint64_t)least : 0, (uint64_t)most, &items[k++], err));
    return tern_grammar_tree__join_n(tree, TERN_GRAMMAR_ANY, items, k, node, err);
}
