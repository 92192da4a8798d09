/* Drafting against a search through all tokens. */
#include "support/kernels.h"
#include "support/test.h"

#include "base/alloc.h"
#include "infer/draft/draft.h"

enum { N = 300, CAPACITY = 1 << 14, PROPOSED = 6 };

/* The place after the latest earlier occurrence of the last n tokens; 0 when there is none. */
static uint32_t search(const int32_t *tokens, uint32_t n_tokens, uint32_t n)
{
    for (uint32_t end = n_tokens - 1; end >= n; end--)
        if (memcmp(tokens + end - n, tokens + n_tokens - n, n * sizeof *tokens) == 0) return end;
    return 0;
}

static uint32_t by_definition(const int32_t *tokens, uint32_t n_tokens, int32_t *out)
{
    int32_t all[N + PROPOSED];
    uint32_t next = 0;
    for (uint32_t n = TERN_DRAFT_LONGEST; n > 0 && !next; n--)
        if (n_tokens > n) next = search(tokens, n_tokens, n);
    memcpy(all, tokens, n_tokens * sizeof *all);
    for (uint32_t i = 0; next && i < PROPOSED; i++) out[i] = all[n_tokens + i] = all[next + i];
    return next ? PROPOSED : 0;
}

/* Two n-grams may share a place in a table, and the later one wins; with a table this large that is rare. */
static void matches_search(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_draft draft;
    tern_rng rng = {.state = 5};
    uint32_t n_other = 0, n_empty = 0;
    assert_ok(tern_draft_init(&draft, CAPACITY, &err), err);
    for (int round = 0; round < 5; round++) {
        tern_draft_reset(&draft, NULL, 0);
        int32_t tokens[N], got[PROPOSED], want[PROPOSED];
        for (uint32_t i = 0; i < N; i++) {
            tokens[i] = (int32_t)tern_rng_below(&rng, round ? 8 : 200);
            if (tern_rng_below(&rng, 3) && i > 60) tokens[i] = tokens[i - 60];
            tern_draft_add(&draft, tokens[i]);
            uint32_t n = tern_draft_propose(&draft, 1, got, PROPOSED), n_want = by_definition(tokens, i + 1, want);
            n_empty += n == 0;
            n_other += n != n_want || memcmp(got, want, n * sizeof *got) != 0;
        }
    }
    assert_in_range(n_other, 0, 15);
    assert_in_range(n_empty, 5, 5 * N / 2);
    tern_draft_deinit(&draft);
}

static void repetition(void **state)
{
    (void)state;
    static const int32_t tokens[] = {9, 4, 5, 6, 4, 5, 6}, want[] = {4, 5, 6, 4, 5, 6, 4};
    tern_error err = {0};
    tern_draft draft;
    int32_t got[7];
    assert_ok(tern_draft_init(&draft, 100, &err), err);
    tern_draft_reset(&draft, tokens, 7);
    uint64_t count = tern_alloc_count();
    assert_int_equal(tern_draft_propose(&draft, 1, got, 7), 7);
    assert_memory_equal(got, want, sizeof want);
    tern_draft_reset(&draft, tokens, 4);
    assert_int_equal(tern_draft_propose(&draft, 1, got, 7), 0);
    assert_int_equal(tern_alloc_count(), count);
    tern_draft_deinit(&draft);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(matches_search),
    cmocka_unit_test(repetition),
};

TEST_GROUP(draft, "web", tests);
