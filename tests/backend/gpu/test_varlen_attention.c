/* The GPU's attention over packed rows and its backward against the CPU's, as the device is and as lesser ones. */
#include "ops/operands.h"
#include "support/test.h"

#include <math.h>

#include "support/training_case.h"

static tern_rng rng;

/* Where a row sees itself alone the gradients of q and k are 0 but for rounding. */
static const test_tolerance near = {.of_row = 4e-6, .absolute = 1e-6}, far = {.of_row = 2e-5, .absolute = 3e-6};

/* Probabilities and their gradients are rounded, here and there now and then to the other neighbour of 2^-8. */
static const test_tolerance rounded = {.of_row = 8e-3, .absolute = 1e-3};

static void check_on(const test_varlen_attention *s, tern_backend *backend)
{
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = s->rows, .training = true});
    test_varlen_attention_add(&c, s);
    test_case_compare(&c, backend, s->rows, s->rows, s->bf16 ? rounded : s->rows > 300 ? far : near);
    test_case_close(&c);
}

static void check(const test_varlen_attention *s)
{
    for (int kind = 0; kind < test_gpu_kinds(); kind++) check_on(s, test_gpu_backend_of((test_gpu_kind)kind));
}

static void heads(void **state)
{
    (void)state;
    static const uint32_t dims[] = {4, 32, 36, 64, 80, 96, 128, 132, 256};
    test_gpu_backend();
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        if (!test_takes(i, 2, 1)) continue;
        if (getenv("TERN_TEST_SIMULATE") && dims[i] > 80) continue;
        check(&(test_varlen_attention){.rows = 70, .n_heads = 2, .n_kv_heads = 2, .head_dim = dims[i], .longest = 50});
        check(&(test_varlen_attention){.rows = 37, .n_heads = 4, .n_kv_heads = 1, .head_dim = dims[i]});
    }
}

static void lengths(void **state)
{
    (void)state;
    static const uint32_t rows[] = {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 130, 257};
    test_gpu_backend();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!test_takes(i, 3, 1)) continue;
        check(&(test_varlen_attention){.rows = rows[i], .n_heads = 4, .n_kv_heads = 2, .head_dim = 32});
        check(&(test_varlen_attention){
            .rows = rows[i], .n_heads = 2, .n_kv_heads = 1, .head_dim = 64, .longest = 1 + rows[i] / 3});
        check(&(test_varlen_attention){.rows = rows[i], .n_heads = 1, .n_kv_heads = 1, .head_dim = 16, .longest = 5});
    }
}

static void groups(void **state)
{
    (void)state;
    test_gpu_backend();
    check(&(test_varlen_attention){.rows = 100, .n_heads = 20, .n_kv_heads = 5, .head_dim = 8, .longest = 40});
    check(&(test_varlen_attention){.rows = 100, .n_heads = 9, .n_kv_heads = 3, .head_dim = 12});
    if (test_quick() || getenv("TERN_TEST_SIMULATE")) return;
    check(&(test_varlen_attention){.rows = 600, .n_heads = 20, .n_kv_heads = 5, .head_dim = 128, .longest = 300});
    /* enough workgroups without splitting the heads of a KV head */
    check(&(test_varlen_attention){.rows = 2048, .n_heads = 32, .n_kv_heads = 16, .head_dim = 16, .longest = 200});
}

/* Scores far apart, and one that hides all others. */
static void large_scores(void **state)
{
    (void)state;
    enum { ROWS = 90, DIM = 32 };
    test_gpu_backend();
    for (int kind = 0; kind < test_gpu_kinds(); kind++) {
        test_case c;
        const test_varlen_attention s = {.rows = ROWS, .n_heads = 2, .n_kv_heads = 1, .head_dim = DIM};
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = ROWS, .training = true});
        test_varlen_attention_add(&c, &s);
        tern_view q = c.graph.ops[0].in[TERN_VARLEN_ATTENTION_Q];
        const uint32_t cols = c.graph.values[q.value].cols;
        float *x = test_case_floats(&c, q);
        for (uint32_t i = 0; i < ROWS * cols; i++) x[i] *= 30;
        test_case_compare(&c, test_gpu_backend_of((test_gpu_kind)kind), ROWS, ROWS,
                          (test_tolerance){.of_row = 2e-4, .absolute = 1e-5});
        test_case_close(&c);
    }
}

/* A soft cap, a window and sinks, alone and together. */
static void parameters(void **state)
{
    (void)state;
    static const uint32_t windows[] = {1, 7, 32, 40, 64, 500}, dims[] = {32, 96, 132};
    test_gpu_backend();
    check(&(test_varlen_attention){.rows = 80, .n_heads = 3, .n_kv_heads = 3, .head_dim = 32, .softcap = 1.5f});
    check(&(test_varlen_attention){.rows = 80, .n_heads = 3, .n_kv_heads = 1, .head_dim = 32, .sinks = true});
    for (uint32_t i = 0; i < 6; i++) {
        if (!test_takes(i, 5, 3 * 2)) continue;
        check(&(test_varlen_attention){.rows = 130,
                                       .n_heads = 4,
                                       .n_kv_heads = 1 + i % 2,
                                       .head_dim = getenv("TERN_TEST_SIMULATE") ? 32 : dims[i % 3],
                                       .longest = i % 3 ? 90 : 0,
                                       .scale = i % 2 ? 0.3f : 0,
                                       .softcap = i % 2 ? 2.0f : 0,
                                       .window = windows[i],
                                       .sinks = i > 1,
                                       .dsinks = i > 2});
    }
}

/* Factors in bf16, with all that attention has. */
static void bf16(void **state)
{
    (void)state;
    static const uint32_t dims[] = {4, 32, 36, 64, 80, 96, 128}, rows[] = {1, 33, 64, 65, 130, 257, 600};
    if (strcmp(test_gpu_name(), "cuda") != 0) test_skip("the kernels are those of CUDA");
    for (uint32_t i = 0; i < 7; i++) {
        check(&(test_varlen_attention){.rows = rows[i], .n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .bf16 = true});
        check(&(test_varlen_attention){.rows = 70 + 50 * (i % 3),
                                       .n_heads = 4,
                                       .n_kv_heads = i % 2 ? 4 : 1,
                                       .head_dim = dims[i],
                                       .longest = i % 3 ? 60 : 0,
                                       .softcap = i % 3 == 2 ? 2.0f : 0,
                                       .window = i % 2 ? 40 : 0,
                                       .sinks = i > 3,
                                       .dsinks = i > 4,
                                       .bf16 = true});
    }
    check(&(test_varlen_attention){
        .rows = 600, .n_heads = 20, .n_kv_heads = 5, .head_dim = 128, .longest = 300, .bf16 = true});
}

enum { SEEN = 64, UNSEEN = 256, PAST = 192 };

/* NaN in what rows SEEN to PAST - 1 of a window do not see: early keys and values, late queries and their gradients. */
static void poison(test_case *c)
{
    const tern_op *op = &c->graph.ops[1];
    const int early[] = {TERN_VARLEN_ATTENTION_K, TERN_VARLEN_ATTENTION_V},
              late[] = {TERN_VARLEN_ATTENTION_Q, TERN_VARLEN_ATTENTION_DOUT};
    for (int i = 0; i < 2; i++) {
        const tern_view first = op->in[early[i]], last = op->in[late[i]];
        const uint32_t n = c->graph.values[first.value].cols, m = c->graph.values[last.value].cols;
        memset(test_case_floats(c, first), 0xff, sizeof(float) * 40 * n);
        memset(test_case_floats(c, last) + (size_t)UNSEEN * m, 0xff,
               sizeof(float) * (c->graph.max_tokens - UNSEEN) * m);
    }
}

/* With a window, keys before it and rows after those that see a key are not read, not even as 0 * NaN: more than a
 * block of rows away. */
static void windows_read_no_more(void **state)
{
    (void)state;
    const test_varlen_attention s = {.rows = 300, .n_heads = 2, .n_kv_heads = 1, .head_dim = 16, .window = 20};
    test_gpu_backend();
    for (int kind = 0; kind < test_gpu_kinds(); kind++) {
        test_case c[2];
        test_results got[2] = {0};
        for (int i = 0; i < 2; i++) {
            tern_rng same = rng;
            test_case_open(&c[i], &same, &(test_case_shape){.max_tokens = s.rows, .training = true});
            test_varlen_attention_add(&c[i], &s);
            if (i == 1) poison(&c[i]);
            test_case_run(&c[i], test_gpu_backend_of((test_gpu_kind)kind), s.rows, s.rows, 1, &got[i]);
        }
        const tern_op *forward = &c->graph.ops[0], *back = &c->graph.ops[1];
        const tern_view views[] = {forward->out, back->out, back->in[TERN_VARLEN_ATTENTION_DK],
                                   back->in[TERN_VARLEN_ATTENTION_DV]};
        for (size_t v = 0; v < 4; v++)
            for (uint32_t t = SEEN; t < PAST; t++)
                assert_memory_equal(test_results_row(&c[0], &got[0], views[v], t),
                                    test_results_row(&c[1], &got[1], views[v], t), views[v].cols * sizeof(float));
        for (int i = 0; i < 2; i++) {
            test_results_free(&got[i]);
            test_case_close(&c[i]);
        }
    }
}

static void refusals(void **state)
{
    (void)state;
    static const uint32_t dims[] = {30, 260, 512};
    const bool takes_any = strcmp(test_gpu_name(), "cuda") == 0; /* of at most 256 */
    for (size_t i = takes_any; i < sizeof dims / sizeof *dims; i++) {
        test_case c;
        tern_error err = {0};
        tern_backend *gpu = test_gpu_backend();
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 4, .training = true});
        test_varlen_attention_add(
            &c, &(test_varlen_attention){.rows = 4, .n_heads = 2, .n_kv_heads = 1, .head_dim = dims[i]});
        for (int op = 0; op < 2; op++) {
            assert_int_equal(gpu->supports(gpu, &c.graph, &c.graph.ops[op], &err), TERN_UNSUPPORTED);
            assert_non_null(strstr(err.message, "head dimension"));
        }
        test_case_close(&c);
    }
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(heads),      cmocka_unit_test(lengths),
                                          cmocka_unit_test(groups),     cmocka_unit_test(large_scores),
                                          cmocka_unit_test(parameters), cmocka_unit_test(windows_read_no_more),
                                          cmocka_unit_test(refusals),   cmocka_unit_test(bf16)};

TEST_GROUP(varlen_attention, "gpu kernels web", tests, .setup = seed, .teardown = test_backends_close);
