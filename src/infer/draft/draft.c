/* Prompt-lookup drafting. Source: Saxena, "Prompt lookup decoding", 2023. */
#include "infer/draft/draft.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "infer/draft/speculation.h"

enum { SPARSE = 4 }; /* places in a table for each token */

tern_status tern_draft_init(tern_draft *draft, uint32_t capacity, tern_error *err)
{
    *draft = (tern_draft){.capacity = capacity, .table_size = 16};
    while (draft->table_size / SPARSE < capacity && draft->table_size < 1u << 31) draft->table_size *= 2;
    draft->tokens = tern_calloc(capacity, sizeof *draft->tokens);
    draft->tables = tern_calloc(TERN_DRAFT_LONGEST * (size_t)draft->table_size, sizeof *draft->tables);
    if (draft->tokens && draft->tables) return TERN_OK;
    uint64_t bytes = TERN_DRAFT_LONGEST * (uint64_t)draft->table_size * sizeof *draft->tables;
    tern_draft_deinit(draft);
    return tern_fail_alloc(err, bytes);
}

void tern_draft_deinit(tern_draft *draft)
{
    tern_free(draft->tokens);
    tern_free(draft->tables);
    *draft = (tern_draft){0};
}

void tern_draft_reset(tern_draft *draft, const int32_t *tokens, uint32_t n)
{
    draft->n_tokens = draft->n_indexed = 0;
    memset(draft->tables, 0, TERN_DRAFT_LONGEST * (size_t)draft->table_size * sizeof *draft->tables);
    for (uint32_t i = 0; i < n; i++) tern_draft_add(draft, tokens[i]);
}

void tern_draft_add(tern_draft *draft, int32_t token)
{
    draft->tokens[draft->n_tokens++] = token;
}

/* The table's entry for the n-gram that ends at token `last`. */
static uint32_t *ngram_entry(const tern_draft *draft, uint32_t last, uint32_t n)
{
    uint64_t hash = n;
    for (uint32_t i = 0; i < n; i++) hash = (hash ^ (uint32_t)draft->tokens[last - i]) * 0x9e3779b97f4a7c15u;
    return &draft->tables[(n - 1) * (size_t)draft->table_size + ((hash >> 32) & (draft->table_size - 1))];
}

/* The last n-gram is not entered until another token follows it: it would only find itself. */
static void index_tokens(tern_draft *draft)
{
    for (; draft->n_indexed + 1 < draft->n_tokens; draft->n_indexed++)
        for (uint32_t n = 1; n <= TERN_DRAFT_LONGEST && n <= draft->n_indexed + 1; n++)
            *ngram_entry(draft, draft->n_indexed, n) = draft->n_indexed + 1;
}

static bool same_tokens(const int32_t *a, const int32_t *b, uint32_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

/* The place after the latest earlier occurrence of the last n tokens; 0 when there is none. */
static uint32_t find_ngram(const tern_draft *draft, uint32_t n)
{
    if (draft->n_tokens <= n) return 0;
    uint32_t next = *ngram_entry(draft, draft->n_tokens - 1, n); /* entries that share a hash overwrite each other */
    if (next < n || !same_tokens(draft->tokens + next - n, draft->tokens + draft->n_tokens - n, n)) return 0;
    return next;
}

/* The guess after the longest n-gram that is found. */
static uint32_t find_longest_ngram(tern_draft *draft, uint32_t shortest)
{
    uint32_t next = 0;
    index_tokens(draft);
    for (uint32_t length = TERN_DRAFT_LONGEST; length >= shortest && next == 0; length--)
        next = find_ngram(draft, length);
    return next;
}

uint32_t tern_draft_match(tern_draft *draft, uint32_t shortest, int32_t *next)
{
    const uint32_t at = find_longest_ngram(draft, shortest), end = draft->n_tokens;
    uint32_t n = 0;
    if (at == 0) return 0;
    *next = draft->tokens[at];
    while (n < TERN_DRAFT_LONGEST_MATCH && n < at && draft->tokens[at - 1 - n] == draft->tokens[end - 1 - n]) n++;
    return n;
}

uint32_t tern_draft_propose(tern_draft *draft, uint32_t shortest, int32_t *out, uint32_t n)
{
    const uint32_t next = find_longest_ngram(draft, shortest);
    if (next == 0) return 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = next + i;
        out[i] = at < draft->n_tokens ? draft->tokens[at] : out[at - draft->n_tokens];
    }
    return n;
}
