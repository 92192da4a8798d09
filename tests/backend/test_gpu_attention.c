/* Rotary embedding, cache writes and attention on a GPU against the CPU backend. */
#include <math.h>

#include "backend/gpu/gpu.h"
#include "backend/open.h"
#include "base/rng.h"
#include "support/op_case.h"
#include "support/test.h"

typedef struct shape {
    uint32_t n_heads, n_kv_heads, head_dim;
    bool f32, adjacent;
    uint32_t n_ctx, max_tokens, n_tokens, n_sequences;
    uint32_t first; /* position of each sequence's first token in the step */
} shape;

/* A case with its inputs: x is q, or q, k and v in a row. */
typedef struct attention_case {
    test_case c;
    tern_view x, k_cache, v_cache, table, out;
} attention_case;

enum { N_DEVICES = 5, N_DECODERS = 3 /* of them with kernels for single queries of their own */ };

/* The device as it is, and with less than it has. */
static tern_backend *devices[N_DEVICES];

static tern_backend *device(size_t i)
{
    static const tern_gpu_caps limits[N_DEVICES] = {
        [1] = {.workgroup_bytes = 16384, .workgroup_invocations = 128, .max_groups = 65535, .max_binding = 1 << 27},
        [2] = {.workgroup_bytes = 4096,
               .workgroup_invocations = 128,
               .max_groups = 65535,
               .max_binding = 1 << 27,
               .device_fences = true},
        [3] = {.subgroup_max = 128,
               .workgroup_bytes = 32768,
               .workgroup_invocations = 256,
               .max_groups = 65535,
               .max_binding = 1 << 27},
        [4] = {.workgroup_bytes = 49152, .workgroup_invocations = 256, .max_groups = 65535, .max_binding = 1 << 27}};
    if (i == 0) return test_gpu_backend();
    tern_error err = {0};
    tern_backend_options options = {.name = "vulkan",
                                    .n_threads = 1,
                                    .device = getenv("TERN_TEST_DEVICE"),
                                    .gpu_limits = &limits[i],
                                    .validation = getenv("TERN_TEST_VALIDATION") != NULL};
    test_gpu_backend();
    if (!devices[i]) assert_ok(tern_backend_open(&devices[i], &options, &err), err);
    return devices[i];
}

static int close_devices(void **state)
{
    for (size_t i = 1; i < N_DEVICES; i++)
        if (devices[i]) devices[i]->close(devices[i]);
    return test_backends_close(state);
}

/* Tokens of the step go round the sequences; pages lie in any order. */
static void place_tokens(test_case *c, const shape *s)
{
    uint32_t *positions = test_case_param(c, TERN_PARAM_POSITIONS),
             *sequences = test_case_param(c, TERN_PARAM_SEQUENCES);
    uint32_t *pages = test_case_param(c, TERN_PARAM_PAGES), n_pages = c->graph.max_pages * s->n_sequences;
    uint32_t share = (s->max_tokens + s->n_sequences - 1) / s->n_sequences;
    for (uint32_t t = 0; t < s->max_tokens; t++) {
        sequences[t] = t / share;
        positions[t] = s->first + t % share;
    }
    for (uint32_t i = 0; i < n_pages; i++) pages[i] = i;
    for (uint32_t i = n_pages; i > 1; i--) {
        uint32_t k = test_between(c->rng, 0, i - 1), page = pages[i - 1];
        pages[i - 1] = pages[k];
        pages[k] = page;
    }
}

/* Positions that nobody has written hold NaN. */
static void poison_unwritten(attention_case *a, const shape *s, uint32_t written)
{
    const uint32_t *pages = test_case_param(&a->c, TERN_PARAM_PAGES);
    size_t row = (size_t)s->head_dim * (s->f32 ? 4 : 2);
    for (uint32_t i = 0; i < s->n_sequences * a->c.graph.max_pages * TERN_PAGE_SIZE; i++) {
        uint32_t position = i % (a->c.graph.max_pages * TERN_PAGE_SIZE);
        if (position < written) continue;
        for (uint32_t h = 0; h < s->n_kv_heads; h++) {
            size_t at =
                (((size_t)pages[i / TERN_PAGE_SIZE] * s->n_kv_heads + h) * TERN_PAGE_SIZE + i % TERN_PAGE_SIZE) * row;
            memset(a->c.initial[a->k_cache.value] + at, 0xff, row);
            memset(a->c.initial[a->v_cache.value] + at, 0xff, row);
        }
    }
}

static void open_case(attention_case *a, tern_rng *rng, const shape *s, bool whole_row)
{
    uint32_t q_cols = s->n_heads * s->head_dim, kv_cols = s->n_kv_heads * s->head_dim;
    tern_dtype dtype = s->f32 ? TERN_DTYPE_F32 : TERN_DTYPE_F16;
    test_case_open(&a->c, rng,
                   &(test_case_shape){.max_tokens = s->max_tokens, .n_ctx = s->n_ctx, .n_sequences = s->n_sequences});
    a->x = test_case_rows(&a->c, "x", TERN_ROWS_TOKENS, q_cols + (whole_row ? 2 * kv_cols : 0), TEST_ORDINARY);
    a->k_cache =
        test_case_cache(&a->c, "k_cache", dtype, a->c.graph.max_pages * s->n_sequences, s->n_kv_heads, s->head_dim);
    a->v_cache =
        test_case_cache(&a->c, "v_cache", dtype, a->c.graph.max_pages * s->n_sequences, s->n_kv_heads, s->head_dim);
    a->table = test_case_rope_table(&a->c, s->head_dim);
    a->out = test_case_output(&a->c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, q_cols);
    place_tokens(&a->c, s);
}

static tern_op op_of(attention_case *a, const shape *s, tern_op_kind kind)
{
    tern_view positions = test_case_param_view(&a->c, TERN_PARAM_POSITIONS),
              sequences = test_case_param_view(&a->c, TERN_PARAM_SEQUENCES);
    tern_view pages = test_case_param_view(&a->c, TERN_PARAM_PAGES);
    tern_op op = {.kind = kind,
                  .n_heads = s->n_heads,
                  .n_kv_heads = s->n_kv_heads,
                  .head_dim = s->head_dim,
                  .rope_adjacent = s->adjacent,
                  .out = {.value = TERN_NO_VALUE}};
    if (kind == TERN_OP_ATTENTION) {
        tern_view in[] = {
            test_case_columns(a->x, 0, s->n_heads * s->head_dim), a->k_cache, a->v_cache, positions, sequences, pages};
        memcpy(op.in, in, sizeof in);
        op.n_in = 6;
    } else {
        tern_view in[] = {a->x, positions, a->table, a->k_cache, a->v_cache, sequences, pages};
        memcpy(op.in, in, sizeof in);
        op.n_in = 7;
    }
    if (kind != TERN_OP_ROPE_KV) op.out = a->out;
    return op;
}

static void describe(const shape *s, size_t on)
{
    print_message("device %zu: %u heads, %u KV heads of %u%s%s, context %u, %u of %u tokens in %u sequences from %u\n",
                  on, s->n_heads, s->n_kv_heads, s->head_dim, s->f32 ? ", f32" : "", s->adjacent ? ", adjacent" : "",
                  s->n_ctx, s->n_tokens, s->max_tokens, s->n_sequences, s->first);
}

static void check_attention(tern_rng *rng, const shape *s, size_t on)
{
    attention_case a;
    describe(s, on);
    open_case(&a, rng, s, false);
    poison_unwritten(&a, s, s->first + (s->max_tokens + s->n_sequences - 1) / s->n_sequences);
    tern_op op = op_of(&a, s, TERN_OP_ATTENTION);
    test_case_add(&a.c, op);
    /* again, for what the first one leaves behind */
    op.out = test_case_output(&a.c, "again", TERN_ROWS_TOKENS, TERN_DTYPE_F32, op.out.cols);
    test_case_add(&a.c, op);
    test_case_compare(&a.c, device(on), s->n_tokens, 1, (test_tolerance){.of_row = 2e-5});
    test_case_close(&a.c);
}

/* ROPE_ATTENTION against ROPE_KV and ATTENTION; the row of q, k and v stays as it was. */
static void check_fused(const tern_rng *rng, const shape *s, size_t on)
{
    attention_case cpu, gpu;
    test_results want = {0}, got = {0};
    tern_rng same[2] = {*rng, *rng};
    describe(s, on);
    open_case(&cpu, &same[0], s, true);
    open_case(&gpu, &same[1], s, true);
    poison_unwritten(&cpu, s, s->first);
    poison_unwritten(&gpu, s, s->first);
    test_case_add(&cpu.c, op_of(&cpu, s, TERN_OP_ROPE_KV));
    test_case_add(&cpu.c, op_of(&cpu, s, TERN_OP_ATTENTION));
    test_case_add(&gpu.c, op_of(&gpu, s, TERN_OP_ROPE_ATTENTION));
    test_case_run(&cpu.c, test_backend("cpu"), s->n_tokens, 1, 1, &want);
    test_case_run(&gpu.c, device(on), s->n_tokens, 1, 1, &got);
    memcpy(want.bytes[cpu.x.value], cpu.c.initial[cpu.x.value], cpu.c.graph.values[cpu.x.value].bytes);
    const char *what =
        test_case_difference_of_rows(&gpu.c, gpu.out.value, s->n_tokens, &got, &want, (test_tolerance){.of_row = 4e-5});
    if (!what) {
        test_tolerance cache = {.of_value = s->f32 ? 1e-6 : 1.0 / 1024, .of_row = 1e-6};
        memcpy(want.bytes[cpu.out.value], got.bytes[gpu.out.value], gpu.c.graph.values[gpu.out.value].bytes);
        what = test_case_difference(&gpu.c, (const uint32_t[]){s->n_tokens, 1}, &got, &want, cache);
    }
    if (what) fail_msg("%s", what);
    test_results_free(&want);
    test_results_free(&got);
    test_case_close(&cpu.c);
    test_case_close(&gpu.c);
}

static const struct {
    uint32_t n_heads, n_kv_heads, head_dim;
} heads[] = {{4, 1, 32},  {6, 2, 64},  {3, 3, 80},  {5, 5, 96}, {20, 5, 128},
             {8, 1, 256}, {2, 1, 320}, {4, 4, 512}, {9, 3, 40}, {1, 1, 8}};

enum { N_HEADS = sizeof heads / sizeof *heads };

/* One token of each sequence, at positions around pages, spans and the limit of the context. */
static void test_decode(void **state)
{
    (void)state;
    static const uint32_t positions[] = {0, 1, 31, 32, 63, 64, 127, 128, 300, 511, 700, 1023};
    tern_rng rng;
    test_seed(&rng);
    for (size_t on = 0; on < N_DECODERS; on++)
        for (uint32_t i = 0; i < (on ? 1 : 3) * N_HEADS; i++) {
            shape s = {.n_heads = heads[i % N_HEADS].n_heads,
                       .n_kv_heads = heads[i % N_HEADS].n_kv_heads,
                       .head_dim = heads[i % N_HEADS].head_dim,
                       .f32 = i % 3 == 0,
                       .n_ctx = 1024,
                       .n_sequences = test_between(&rng, 1, 3),
                       .first = positions[(i * 5 + on) % 12]};
            s.max_tokens = s.n_sequences + (i % 4 == 1);
            s.n_tokens = s.n_sequences;
            check_attention(&rng, &s, on);
        }
}

static void test_fused(void **state)
{
    (void)state;
    static const uint32_t positions[] = {0, 1, 15, 31, 32, 64, 100, 127, 128, 129, 640, 1023};
    tern_rng rng;
    test_seed(&rng);
    for (size_t on = 0; on < N_DECODERS; on++)
        for (uint32_t i = 0; i < (on ? 1 : 3) * N_HEADS; i++) {
            shape s = {.n_heads = heads[i % N_HEADS].n_heads,
                       .n_kv_heads = heads[i % N_HEADS].n_kv_heads,
                       .head_dim = heads[i % N_HEADS].head_dim,
                       .f32 = i % 3 == 1,
                       .adjacent = i % 2,
                       .n_ctx = 1024,
                       .max_tokens = 1,
                       .n_tokens = 1,
                       .n_sequences = 1,
                       .first = positions[(i * 5 + on) % 12]};
            check_fused(&rng, &s, on);
            tern_rng_u64(&rng);
        }
}

/* Many tokens: a step that starts a sequence or continues it. */
static void test_prefill(void **state)
{
    (void)state;
    static const uint32_t tokens[] = {9, 16, 33, 64, 100}, firsts[] = {0, 1, 40, 95, 130};
    tern_rng rng;
    test_seed(&rng);
    for (size_t on = 0; on < N_DEVICES; on++)
        for (uint32_t i = 0; i < (on ? 1 : 2) * N_HEADS; i++) {
            shape s = {.n_heads = heads[i % N_HEADS].n_heads,
                       .n_kv_heads = heads[i % N_HEADS].n_kv_heads,
                       .head_dim = heads[i % N_HEADS].head_dim,
                       .f32 = i % 3 == 0,
                       .n_ctx = 256,
                       .max_tokens = tokens[i % 5],
                       .n_sequences = 1 + i % 4,
                       .first = firsts[(i + i / 5) % 5]};
            s.n_tokens = s.max_tokens - test_between(&rng, 0, 7);
            check_attention(&rng, &s, on);
        }
}

/* Shapes for which larger devices have kernels of their own: long contexts, and steps large enough for large tiles. */
static void test_large(void **state)
{
    (void)state;
    static const shape shapes[] = {{.n_heads = 8,
                                    .n_kv_heads = 2,
                                    .head_dim = 128,
                                    .n_ctx = 8192,
                                    .max_tokens = 1,
                                    .n_tokens = 1,
                                    .n_sequences = 1,
                                    .first = 8191},
                                   {.n_heads = 6,
                                    .n_kv_heads = 2,
                                    .head_dim = 96,
                                    .n_ctx = 8192,
                                    .max_tokens = 1,
                                    .n_tokens = 1,
                                    .n_sequences = 1,
                                    .first = 4095},
                                   {.n_heads = 20,
                                    .n_kv_heads = 5,
                                    .head_dim = 128,
                                    .n_ctx = 2048,
                                    .max_tokens = 1700,
                                    .n_tokens = 77,
                                    .n_sequences = 1,
                                    .first = 50},
                                   {.n_heads = 11,
                                    .n_kv_heads = 1,
                                    .head_dim = 96,
                                    .n_ctx = 3100,
                                    .max_tokens = 3000,
                                    .n_tokens = 40,
                                    .n_sequences = 1,
                                    .first = 70}};
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_attention(&rng, &shapes[i], 0);
        if (shapes[i].max_tokens == 1) check_fused(&rng, &shapes[i], 0);
    }
}

static void test_rope_kv(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    for (uint32_t i = 0; i < 2 * N_HEADS; i++) {
        attention_case a;
        shape s = {.n_heads = heads[i % N_HEADS].n_heads,
                   .n_kv_heads = heads[i % N_HEADS].n_kv_heads,
                   .head_dim = heads[i % N_HEADS].head_dim,
                   .f32 = i % 3 == 0,
                   .adjacent = i % 2,
                   .n_ctx = 128,
                   .max_tokens = test_between(&rng, 1, 12),
                   .n_sequences = 1 + i % 2,
                   .first = test_between(&rng, 0, 100)};
        s.n_tokens = test_between(&rng, 1, s.max_tokens);
        describe(&s, 0);
        open_case(&a, &rng, &s, true);
        test_case_add(&a.c, op_of(&a, &s, TERN_OP_ROPE_KV));
        test_case_compare(&a.c, device(0), s.n_tokens, 0,
                          (test_tolerance){.of_value = s.f32 ? 1e-6 : 1.0 / 1024, .of_row = 1e-6});
        test_case_close(&a.c);
    }
}

/* The parts that ROPE_KV is made of, on views of one row. */
static void test_rope_and_kv_write(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    for (uint32_t i = 0; i < 2 * N_HEADS; i++) {
        attention_case a;
        shape s = {.n_heads = heads[i % N_HEADS].n_heads,
                   .n_kv_heads = heads[i % N_HEADS].n_kv_heads,
                   .head_dim = heads[i % N_HEADS].head_dim,
                   .f32 = i % 3 == 1,
                   .adjacent = i % 2,
                   .n_ctx = 96,
                   .max_tokens = 6,
                   .n_tokens = 5,
                   .n_sequences = 2,
                   .first = 40};
        uint32_t q_cols = s.n_heads * s.head_dim, kv_cols = s.n_kv_heads * s.head_dim;
        describe(&s, 0);
        open_case(&a, &rng, &s, true);
        tern_op rope = op_of(&a, &s, TERN_OP_ROPE_KV), write = rope;
        tern_view k = test_case_columns(a.x, q_cols, kv_cols), v = test_case_columns(a.x, q_cols + kv_cols, kv_cols);
        rope.kind = TERN_OP_ROPE;
        rope.n_heads = s.n_kv_heads;
        rope.in[0] = rope.out = k;
        rope.in[0].cols = rope.out.cols = kv_cols;
        rope.n_in = 3;
        write.kind = TERN_OP_KV_WRITE;
        memcpy(write.in, (tern_view[]){k, v, a.k_cache, a.v_cache, rope.in[1], write.in[5], write.in[6]}, 7 * sizeof k);
        test_case_add(&a.c, rope);
        test_case_add(&a.c, write);
        test_case_compare(&a.c, device(0), s.n_tokens, 0,
                          (test_tolerance){.of_value = s.f32 ? 1e-6 : 1.0 / 1024, .of_row = 1e-6});
        test_case_close(&a.c);
    }
}

/* A NaN in one token's v is no business of the tokens before it, nor of other heads. */
static void test_nan_stays_where_it_is(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    for (size_t on = 0; on < N_DEVICES; on++)
        for (uint32_t max_tokens = 5; max_tokens <= 40; max_tokens += 35) {
            attention_case a;
            shape s = {.n_heads = 4,
                       .n_kv_heads = 2,
                       .head_dim = 64,
                       .f32 = true,
                       .n_ctx = 64,
                       .max_tokens = max_tokens,
                       .n_tokens = max_tokens,
                       .n_sequences = 1};
            describe(&s, on);
            open_case(&a, &rng, &s, false);
            size_t page = test_case_param(&a.c, TERN_PARAM_PAGES)[0];
            float *v = test_case_floats(&a.c, a.v_cache), *k = test_case_floats(&a.c, a.k_cache);
            v[(page * 2 * 32 + 3) * 64 + 7] = NAN;
            k[((page * 2 + 1) * 32 + 4) * 64 + 1] = NAN;
            test_case_add(&a.c, op_of(&a, &s, TERN_OP_ATTENTION));
            test_case_compare(&a.c, device(on), s.n_tokens, 1, (test_tolerance){.of_row = 2e-5});
            test_case_close(&a.c);
        }
}

/* A step after the end of the text has no tokens: nothing is written. */
static void test_no_tokens(void **state)
{
    (void)state;
    static const tern_op_kind kinds[] = {TERN_OP_ROPE_ATTENTION, TERN_OP_ATTENTION, TERN_OP_ROPE_KV};
    const shape s = {.n_heads = 4,
                     .n_kv_heads = 2,
                     .head_dim = 64,
                     .f32 = true,
                     .n_ctx = 1024,
                     .max_tokens = 1,
                     .n_sequences = 1,
                     .first = 700};
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < 3; i++) {
        attention_case a;
        test_results after = {0};
        open_case(&a, &rng, &s, true);
        test_case_add(&a.c, op_of(&a, &s, kinds[i]));
        test_case_run(&a.c, device(0), 0, 0, 1, &after);
        for (size_t v = 0; v < a.c.graph.n_values; v++)
            if (after.bytes[v] && a.c.initial[v])
                assert_memory_equal(a.c.initial[v], after.bytes[v], a.c.graph.values[v].bytes);
        const char *what = test_case_touched(&a.c, a.out.value, 0, &after);
        if (what) fail_msg("%s", what);
        test_results_free(&after);
        test_case_close(&a.c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_decode),
                                       cmocka_unit_test(test_fused),
                                       cmocka_unit_test(test_prefill),
                                       cmocka_unit_test(test_large),
                                       cmocka_unit_test(test_rope_kv),
                                       cmocka_unit_test(test_rope_and_kv_write),
                                       cmocka_unit_test(test_nan_stays_where_it_is),
                                       cmocka_unit_test(test_no_tokens)};
    return cmocka_run_group_tests(tests, NULL, close_devices);
}
