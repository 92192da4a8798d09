/* Graphs of rotary embedding, cache writes and attention, made by hand (support/op_case.h) for one shape. */
#ifndef TERN_TESTS_SUPPORT_ATTENTION_CASE_H
#define TERN_TESTS_SUPPORT_ATTENTION_CASE_H

#include "support/op_case.h"

typedef struct test_attention_shape {
    uint32_t n_heads, n_kv_heads, head_dim;
    bool f32, adjacent;      /* the caches; the pairs that are rotated */
    tern_cache_types blocks; /* types with blocks, of caches that are neither f16 nor f32 */
    uint32_t n_ctx, max_tokens, n_tokens;
    uint32_t n_sequences; /* the step's tokens are dealt out to them, in runs */
    uint32_t first;       /* position of each sequence's first token in the step */
    float scale, softcap; /* of the op */
    uint32_t window;
    bool sinks; /* random ones */
} test_attention_shape;

/* x is q, or q, k and v in one row; pages lie in any order. With a window the op takes them from RING_PAGES, and the
 * entries of PAGES lead nowhere. */
typedef struct test_attention {
    test_case c;
    test_attention_shape shape;
    tern_view x, k_cache, v_cache, table, sinks, out;
} test_attention;

void test_attention_open(test_attention *a, tern_rng *rng, const test_attention_shape *shape, bool whole_row);
/* Puts NaN in all positions of the caches from `written` on, and in those before every window. */
void test_attention_poison(test_attention *a, uint32_t written);
/* NaN in all that ATTENTION may not read of the caches, and pages that lead nowhere. */
void test_attention_hide(test_attention *a);
/* ATTENTION, ROPE_KV or ROPE_ATTENTION of the case's values; not added yet. */
tern_op test_attention_op(const test_attention *a, tern_op_kind kind);

/* ATTENTION on the backend against the CPU's, twice in one graph, with NaN in what nobody may read. */
void test_attention_check(tern_rng *rng, const test_attention_shape *shape, tern_backend *backend);
/* Whether it has ROPE_ATTENTION of this shape at all: CUDA of one token, and of what a walk can take. */
bool test_attention_takes_fused(const tern_rng *rng, const test_attention_shape *shape, tern_backend *backend);
/* ROPE_ATTENTION on the backend against the CPU's ROPE_KV and ATTENTION, caches as well; the row of q, k and v stays as
 * it was. */
void test_attention_check_fused(tern_rng *rng, const test_attention_shape *shape, tern_backend *backend);

#endif
