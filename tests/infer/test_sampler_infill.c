/* The sampler's step for the text of a gap, against its definition by hand. */
#include "infer/sample/infill.h"
#include "infer/sampler_cases.h"
#include "text/tokenizer/tokenizer.h"

enum { A, AB, ABC, X, Y, END, N };

static const char vocabulary[] =
    "{\"added_tokens\":[{\"id\":5,\"content\":\"<|im_end|>\",\"special\":true}],\"pre_tokenizer\":{\"type\":"
    "\"ByteLevel\","
    "\"add_prefix_space\":false},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"ab\":1,\"abc\":2,\"x\":3,\"y\":4},"
    "\"merges\":[]}}";

typedef struct kept {
    int32_t ids[N];
    uint32_t n;
} kept;

/* The ids that are left of those with a probability. */
static kept apply(const double p[N])
{
    tern_error err = {0};
    tern_tokenizer *t = NULL;
    kept k = {.n = 0};
    float x[N], weights[N];
    assert_ok(tern_tokenizer_parse_json(&t, vocabulary, sizeof vocabulary - 1, &err), err);
    tern_candidates c = {.ids = k.ids, .x = x, .weights = weights, .n_vocab = N};
    for (int i = 0; i < N; i++) {
        if (!(p[i] > 0)) continue;
        k.ids[c.n] = i;
        x[c.n] = (float)log(p[i]);
        weights[c.n++] = (float)p[i];
    }
    tern_infill_apply(&c, t);
    k.n = c.n;
    tern_tokenizer_close(t);
    return k;
}

static void check(const double p[N], const int32_t *expected, uint32_t n)
{
    const kept k = apply(p);
    assert_int_equal(k.n, n);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(k.ids[i], expected[i]);
}

#define CHECK(p, ...) check(p, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

/* 3 n p(end) > p(others): with three candidates from 1/10 on. */
static void test_likely_end(void **state)
{
    (void)state;
    CHECK(((const double[N]){[X] = 0.5, [Y] = 0.38, [END] = 0.12}), END);
    CHECK(((const double[N]){[X] = 0.6, [Y] = 0.37, [END] = 0.03}), X, Y, END);
}

/* a takes ab and abc over, 0.45 in all, where it is the likeliest of them; else they come together in the likeliest. */
static void test_common_beginnings(void **state)
{
    (void)state;
    CHECK(((const double[N]){[A] = 0.2, [AB] = 0.13, [ABC] = 0.12, [X] = 0.55}), A, X);
    CHECK(((const double[N]){[A] = 0.1, [AB] = 0.3, [ABC] = 0.05, [X] = 0.55}), AB, X);
}

/* Those below 0.2 go first; of m others those of a share below 1 / (m + 1) go. */
static void test_unlikely(void **state)
{
    (void)state;
    CHECK(((const double[N]){[A] = 0.15, [X] = 0.55, [Y] = 0.3}), X, Y);
    CHECK(((const double[N]){[A] = 0.01, [X] = 0.77, [Y] = 0.22}), X);
}

/* Nothing is likely: the text ends, though no end is among the candidates. */
static void test_unsure(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_tokenizer *t = NULL;
    const char letters[] =
        "{\"added_tokens\":[{\"id\":6,\"content\":\"<|im_end|>\",\"special\":true}],\"pre_tokenizer\":{\"type\":"
        "\"ByteLevel\",\"add_prefix_space\":false},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,"
        "\"d\":3,\"e\":4,\"f\":5},\"merges\":[]}}";
    int32_t ids[] = {0, 1, 2, 3, 4, 5};
    float x[6] = {0}, weights[] = {1, 1, 1, 1, 1, 1};
    assert_ok(tern_tokenizer_parse_json(&t, letters, sizeof letters - 1, &err), err);
    tern_candidates c = {.ids = ids, .x = x, .weights = weights, .n = 6, .n_vocab = 7};
    tern_infill_apply(&c, t); /* sixths are below 0.2 */
    assert_int_equal(c.n, 1);
    assert_int_equal(c.ids[0], 6);
    tern_tokenizer_close(t);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_likely_end),
    cmocka_unit_test(test_common_beginnings),
    cmocka_unit_test(test_unlikely),
    cmocka_unit_test(test_unsure),
};

TEST_GROUP(sampler_infill, "web", tests);
