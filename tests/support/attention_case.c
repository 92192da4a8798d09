/* Graphs of attention made by hand. */
#include "support/attention_case.h"
#include "support/test.h"

static tern_param page_table(const test_attention_shape *s)
{
    return s->window ? TERN_PARAM_RING_PAGES : TERN_PARAM_PAGES;
}

/* Tokens of the step go round the sequences; pages lie in any order. */
static void place_tokens(test_case *c, const test_attention_shape *s)
{
    uint32_t *positions = test_case_param(c, TERN_PARAM_POSITIONS),
             *sequences = test_case_param(c, TERN_PARAM_SEQUENCES);
    uint32_t *pages = test_case_param(c, page_table(s)), n_pages = c->graph.max_pages * s->n_sequences;
    uint32_t share = (s->max_tokens + s->n_sequences - 1) / s->n_sequences;
    for (uint32_t t = 0; t < s->max_tokens; t++) {
        sequences[t] = t / share;
        positions[t] = s->first + t % share;
    }
    for (uint32_t i = 0; s->window && i < n_pages; i++) test_case_param(c, TERN_PARAM_PAGES)[i] = 1u << 20;
    for (uint32_t i = 0; i < n_pages; i++) pages[i] = i;
    for (uint32_t i = n_pages; i > 1; i--) {
        uint32_t k = test_between(c->rng, 0, i - 1), page = pages[i - 1];
        pages[i - 1] = pages[k];
        pages[k] = page;
    }
}

/* The first position that the step sees. */
static uint32_t first_seen(const test_attention_shape *s)
{
    return tern_op_first_seen(&(tern_op){.window = s->window}, s->first);
}

/* Entries of the page table past the last position in use, and before all that is seen, lead nowhere. */
static void cut_table(test_case *c, const test_attention_shape *s)
{
    uint32_t *pages = test_case_param(c, page_table(s)), start = first_seen(s) / TERN_PAGE_SIZE;
    uint32_t used = (s->first + (s->max_tokens + s->n_sequences - 1) / s->n_sequences - 1) / TERN_PAGE_SIZE + 1;
    for (uint32_t i = 0; i < s->n_sequences * c->graph.max_pages; i++)
        if (i % c->graph.max_pages >= used || i % c->graph.max_pages < start) pages[i] = 1u << 20;
}

static bool in_blocks(const test_attention_shape *s)
{
    return s->blocks.k != TERN_DTYPE_F32;
}

static tern_cache_types types_of(const test_attention_shape *s)
{
    const tern_dtype dtype = s->f32 ? TERN_DTYPE_F32 : TERN_DTYPE_F16;
    return in_blocks(s) ? s->blocks : (tern_cache_types){dtype, dtype};
}

static void poison_row(test_attention *a, tern_view cache, size_t row)
{
    const size_t bytes = tern_cache_bytes(a->c.graph.values[cache.value].dtype, a->shape.head_dim);
    memset(a->c.initial[cache.value] + row * bytes, 0xff, bytes);
}

void test_attention_poison(test_attention *a, uint32_t written)
{
    const test_attention_shape *s = &a->shape;
    const uint32_t *pages = test_case_param(&a->c, page_table(s));
    const uint32_t n_pages = s->n_sequences * a->c.graph.max_pages;
    for (uint32_t i = 0; i < n_pages * TERN_PAGE_SIZE; i++) {
        uint32_t position = i % (a->c.graph.max_pages * TERN_PAGE_SIZE);
        if ((position < written && position >= first_seen(s)) || pages[i / TERN_PAGE_SIZE] >= n_pages) continue;
        for (uint32_t h = 0; h < s->n_kv_heads; h++) {
            const size_t row =
                ((size_t)pages[i / TERN_PAGE_SIZE] * s->n_kv_heads + h) * TERN_PAGE_SIZE + i % TERN_PAGE_SIZE;
            poison_row(a, a->k_cache, row);
            poison_row(a, a->v_cache, row);
        }
    }
}

void test_attention_hide(test_attention *a)
{
    const test_attention_shape *s = &a->shape;
    test_attention_poison(a, s->first + (s->max_tokens + s->n_sequences - 1) / s->n_sequences);
    cut_table(&a->c, s);
}

void test_attention_open(test_attention *a, tern_rng *rng, const test_attention_shape *s, bool whole_row)
{
    a->shape = *s;
    uint32_t q_cols = s->n_heads * s->head_dim, kv_cols = s->n_kv_heads * s->head_dim;
    const tern_cache_types types = types_of(s);
    test_case_open(&a->c, rng,
                   &(test_case_shape){.max_tokens = s->max_tokens, .n_ctx = s->n_ctx, .n_sequences = s->n_sequences});
    a->x = test_case_rows(&a->c, "x", TERN_ROWS_TOKENS, q_cols + (whole_row ? 2 * kv_cols : 0), TEST_ORDINARY);
    a->k_cache =
        test_case_cache(&a->c, "k_cache", types.k, a->c.graph.max_pages * s->n_sequences, s->n_kv_heads, s->head_dim);
    a->v_cache =
        test_case_cache(&a->c, "v_cache", types.v, a->c.graph.max_pages * s->n_sequences, s->n_kv_heads, s->head_dim);
    a->table = test_case_rope_table(&a->c, s->head_dim);
    a->out = test_case_output(&a->c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, q_cols);
    place_tokens(&a->c, s);
    a->sinks = s->sinks ? test_case_norm_weight(&a->c, s->n_heads) : (tern_view){.value = TERN_NO_VALUE};
}

tern_op test_attention_op(const test_attention *a, tern_op_kind kind)
{
    const test_attention_shape *s = &a->shape;
    tern_view positions = test_case_param_view(&a->c, TERN_PARAM_POSITIONS),
              sequences = test_case_param_view(&a->c, TERN_PARAM_SEQUENCES);
    tern_view pages = test_case_param_view(&a->c, page_table(s));
    tern_op op = {.kind = kind,
                  .n_heads = s->n_heads,
                  .n_kv_heads = s->n_kv_heads,
                  .head_dim = s->head_dim,
                  .rope_adjacent = s->adjacent,
                  .scale = s->scale,
                  .softcap = s->softcap,
                  .window = s->window,
                  .sinks = a->sinks,
                  .out = {.value = TERN_NO_VALUE}};
    if (kind == TERN_OP_ATTENTION) {
        op.in[TERN_ATTENTION_Q] = test_case_columns(a->x, 0, s->n_heads * s->head_dim);
        op.in[TERN_ATTENTION_K_CACHE] = a->k_cache;
        op.in[TERN_ATTENTION_V_CACHE] = a->v_cache;
        op.in[TERN_ATTENTION_POSITIONS] = positions;
        op.in[TERN_ATTENTION_SEQUENCES] = sequences;
        op.in[TERN_ATTENTION_PAGES] = pages;
        op.n_in = TERN_ATTENTION_INPUTS;
    } else {
        op.in[TERN_ROPE_KV_QKV] = a->x;
        op.in[TERN_ROPE_KV_POSITIONS] = positions;
        op.in[TERN_ROPE_KV_TABLE] = a->table;
        op.in[TERN_ROPE_KV_K_CACHE] = a->k_cache;
        op.in[TERN_ROPE_KV_V_CACHE] = a->v_cache;
        op.in[TERN_ROPE_KV_SEQUENCES] = sequences;
        op.in[TERN_ROPE_KV_PAGES] = pages;
        op.n_in = TERN_ROPE_KV_INPUTS;
    }
    if (kind != TERN_OP_ROPE_KV) op.out = a->out;
    else op.sinks = (tern_view){.value = TERN_NO_VALUE};
    return op;
}

static void describe(const test_attention_shape *s, const char *op)
{
    print_message("%s: %u heads, %u KV heads of %u%s%s, context %u, %u of %u tokens in %u sequences from %u, scale %g, "
                  "cap %g, window %u%s\n",
                  op, s->n_heads, s->n_kv_heads, s->head_dim,
                  in_blocks(s) ? ", blocks"
                  : s->f32     ? ", f32"
                               : "",
                  s->adjacent ? ", adjacent" : "", s->n_ctx, s->n_tokens, s->max_tokens, s->n_sequences, s->first,
                  (double)s->scale, (double)s->softcap, s->window, s->sinks ? ", sinks" : "");
}

void test_attention_check(tern_rng *rng, const test_attention_shape *s, tern_backend *backend)
{
    test_attention a;
    describe(s, "attention");
    test_attention_open(&a, rng, s, false);
    test_attention_hide(&a);
    tern_op op = test_attention_op(&a, TERN_OP_ATTENTION);
    test_case_add(&a.c, op);
    /* again, for what the first one leaves behind */
    op.out = test_case_output(&a.c, "again", TERN_ROWS_TOKENS, TERN_DTYPE_F32, op.out.cols);
    test_case_add(&a.c, op);
    test_case_compare(&a.c, backend, s->n_tokens, 1, (test_tolerance){.of_row = 2e-5});
    test_case_close(&a.c);
}

/* CUDA has it of one token alone, and of what a walk can take. */
bool test_attention_takes_fused(const tern_rng *rng, const test_attention_shape *s, tern_backend *backend)
{
    test_attention a;
    tern_error err = {0};
    tern_rng same = *rng;
    if (strcmp(backend->info.name, "cuda") != 0) return true;
    test_attention_open(&a, &same, s, true);
    test_case_add(&a.c, test_attention_op(&a, TERN_OP_ROPE_ATTENTION));
    const tern_status status = backend->supports(backend, &a.c.graph, &a.c.graph.ops[0], &err);
    if (status != TERN_OK) assert_non_null(strstr(err.message, "op rope_attention with what it is fused with"));
    test_case_close(&a.c);
    return status == TERN_OK;
}

/* Heads whose halves do not begin at a multiple of 4, and caches in blocks, stay apart from their rotation. */
static void check_refused(tern_rng *rng, const test_attention_shape *s, tern_backend *backend)
{
    test_attention a;
    tern_error err = {0};
    test_attention_open(&a, rng, s, true);
    test_case_add(&a.c, test_attention_op(&a, TERN_OP_ROPE_ATTENTION));
    assert_int_equal(backend->supports(backend, &a.c.graph, &a.c.graph.ops[0], &err), TERN_UNSUPPORTED);
    if (!strstr(err.message, in_blocks(s) ? "only with caches in f16 or f32" : "only of heads that are multiples of 8"))
        fail_msg("%s", err.message);
    test_case_close(&a.c);
}

void test_attention_check_fused(tern_rng *rng, const test_attention_shape *s, tern_backend *backend)
{
    if (!test_attention_takes_fused(rng, s, backend)) return;
    if (s->head_dim % 8 || in_blocks(s)) {
        check_refused(rng, s, backend);
        return;
    }
    test_attention cpu, gpu;
    test_results want = {0}, got = {0};
    tern_rng same[2] = {*rng, *rng};
    describe(s, "rope_attention");
    test_attention_open(&cpu, &same[0], s, true);
    test_attention_open(&gpu, &same[1], s, true);
    test_attention_poison(&cpu, s->first);
    test_attention_poison(&gpu, s->first);
    cut_table(&cpu.c, s);
    cut_table(&gpu.c, s);
    test_case_add(&cpu.c, test_attention_op(&cpu, TERN_OP_ROPE_KV));
    test_case_add(&cpu.c, test_attention_op(&cpu, TERN_OP_ATTENTION));
    test_case_add(&gpu.c, test_attention_op(&gpu, TERN_OP_ROPE_ATTENTION));
    test_case_run(&cpu.c, test_backend("cpu"), s->n_tokens, 1, 1, &want);
    test_case_run(&gpu.c, backend, s->n_tokens, 1, 1, &got);
    memcpy(want.bytes[cpu.x.value], cpu.c.initial[cpu.x.value], cpu.c.graph.values[cpu.x.value].bytes);
    const char *what =
        test_case_difference_of_rows(&gpu.c, gpu.out.value, s->n_tokens, &got, &want, (test_tolerance){.of_row = 4e-5});
    if (!what) {
        test_tolerance cache = {.of_value = s->f32 ? 1e-6 : 1.0 / 1024, .of_row = 1e-6};
        memcpy(want.bytes[cpu.out.value], got.bytes[gpu.out.value], gpu.c.graph.values[gpu.out.value].bytes);
        what = test_case_difference(&gpu.c, (const uint32_t[]){s->n_tokens, 1}, &got, &want, cache);
    }
    if (what) fail_msg("%s: %s", backend->info.name, what);
    *rng = same[0];
    test_results_free(&want);
    test_results_free(&got);
    test_case_close(&cpu.c);
    test_case_close(&gpu.c);
}
