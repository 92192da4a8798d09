/* GGUF files in parts: joined, and their heads as they come. Files on disk are tried by tests/model/test_parts.py. */
#include "format/gguf_cases.h"
#include "format/gguf_parts.h"
#include "support/gguf_cut.h"
#include "support/micro_model.h"

enum { N = 3 };

static tern_buf whole_bytes;
static tern_gguf *whole;
static tern_buf cuts[N];

static int setup(void **state)
{
    (void)state;
    tern_error err = {0};
    whole_bytes = micro_model(&(micro_change){.seed = 3});
    assert_ok(tern_gguf_parse(&whole, whole_bytes.data, whole_bytes.size, &err), err);
    gguf_cut_all(whole, N, cuts);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++) tern_buf_deinit(&cuts[i]);
    tern_gguf_close(whole);
    tern_buf_deinit(&whole_bytes);
    return 0;
}

/* All of the whole file's tensors with their bytes, at the place that the parts one behind another have them. */
static void check_joined(const tern_gguf *g, bool data)
{
    assert_int_equal(tern_gguf_n_parts(g), N);
    assert_int_equal(tern_gguf_bytes(g), cuts[0].size + cuts[1].size + cuts[2].size);
    assert_int_equal(tern_gguf_n_tensors(g), tern_gguf_n_tensors(whole));
    assert_int_equal(tern_gguf_n_kv(g), tern_gguf_n_kv(whole) + 3);
    for (size_t i = 0; i < tern_gguf_n_tensors(g); i++) {
        const tern_gguf_tensor *t = tern_gguf_tensor_at(g, i), *w = tern_gguf_tensor_at(whole, i);
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)t->name.size, (const char *)t->name.data);
        assert_ptr_equal(tern_gguf_find_tensor(g, name), t);
        assert_int_equal(t->bytes, w->bytes);
        uint64_t at = t->offset;
        size_t part = 0;
        while (at >= cuts[part].size) at -= cuts[part++].size;
        assert_memory_equal((const uint8_t *)cuts[part].data + at, w->data, w->bytes);
        if (data) assert_memory_equal(t->data, w->data, w->bytes);
    }
    assert_ok(tern_gguf_check_whole(g, NULL), (tern_error){0});
}

static void joined(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_gguf *parts[N];
    const int64_t live = tern_alloc_live();
    for (int i = 0; i < N; i++) assert_ok(tern_gguf_parse(&parts[i], cuts[i].data, cuts[i].size, &err), err);
    assert_int_equal(tern_gguf_check_whole(parts[1], &err), TERN_UNSUPPORTED);
    assert_string_equal(err.message, "only part 2 of 3 found, all parts expected");
    assert_ok(tern_gguf_join(parts, N, &err), err);
    for (int i = 1; i < N; i++) tern_gguf_close(parts[i]);
    check_joined(parts[0], true);
    tern_gguf_close(parts[0]);
    assert_int_equal(tern_alloc_live(), live);
}

/* A head of n bytes in a block that is gone afterwards. */
static tern_status give(tern_gguf_heads *heads, const tern_buf *part, size_t n, uint64_t *wanted, const tern_gguf **out,
                        tern_error *err)
{
    uint8_t *copy = malloc(n ? n : 1);
    if (n) memcpy(copy, part->data, n);
    const tern_status status = tern_gguf_heads_add(heads, copy, n, wanted, out, err);
    free(copy);
    return status;
}

static void heads_as_they_come(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_gguf_heads heads;
    const uint64_t sizes[N] = {cuts[0].size, cuts[1].size, cuts[2].size};
    const int64_t live = tern_alloc_live();
    for (size_t first = 0; first < 400; first += 37) {
        const tern_gguf *g = NULL;
        assert_ok(tern_gguf_heads_open(&heads, sizes, N, &err), err);
        for (int i = 0; i < N; i++) {
            uint64_t wanted = first;
            tern_status status;
            assert_null(g);
            while ((status = give(&heads, &cuts[i], (size_t)wanted, &wanted, &g, &err)) == TERN_PENDING)
                assert_true(wanted <= sizes[i]);
            assert_ok(status, err);
        }
        assert_non_null(g);
        check_joined(g, false);
        assert_int_equal(tern_gguf_heads_add(&heads, "", 0, NULL, &g, &err), TERN_INVALID_ARGUMENT);
        tern_gguf_heads_close(&heads);
    }
    assert_int_equal(tern_alloc_live(), live);
}

/* What is wrong, in the words that name the part. */
static void refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t parts[N], n; /* which parts are given as first, second, third */
        tern_status status;
        const char *message;
    } cases[] = {
        {{0, 1}, 2, TERN_INVALID_ARGUMENT, "2 of its parts found, all 3 expected"},
        {{0}, 1, TERN_INVALID_ARGUMENT, "1 of its parts found, all 3 expected"},
        {{1, 0, 2}, 3, TERN_MALFORMED, "part 1 of 3: split.no 1 found, 0 expected"},
        {{0, 2, 1}, 3, TERN_MALFORMED, "part 2 of 3: split.no 2 found, 1 expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_error err = {0};
        tern_gguf *parts[N] = {0};
        for (uint32_t k = 0; k < cases[i].n; k++) {
            const tern_buf *b = &cuts[cases[i].parts[k]];
            assert_ok(tern_gguf_parse(&parts[k], b->data, b->size, &err), err);
        }
        assert_int_equal(tern_gguf_join(parts, cases[i].n, &err), cases[i].status);
        assert_string_equal(err.message, cases[i].message);
        for (uint32_t k = 0; k < cases[i].n; k++) tern_gguf_close(parts[k]);
    }
}

/* The keys of a file that says it is a part, one of them wrong. */
static void refused_places(void **state)
{
    (void)state;
    static const struct {
        uint32_t no, count, tensors; /* 0xffff: no such key */
        tern_status status;
        const char *message;
    } cases[] = {
        {0, 0, 0xffff, TERN_OK, ""},
        {0xffff, 1, 5, TERN_OK, ""},
        {3, 3, 5, TERN_MALFORMED, "split.no 3 found, less than split.count 3 expected"},
        {0xffff, 3, 5, TERN_MALFORMED, "split.no: not found beside split.count"},
        {0, 3, 0xffff, TERN_MALFORMED, "split.tensors.count: not found beside split.count"},
        {0, 5000, 5, TERN_LIMIT, "split.count 5000, at most 4096 expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t values[] = {cases[i].no, cases[i].count, cases[i].tensors};
        const char *keys[] = {"split.no", "split.count", "split.tensors.count"};
        tern_error err = {0};
        tern_gguf *g;
        tern_gguf_place place;
        tern_buf b = {0};
        uint64_t n = 0;
        for (int k = 0; k < 3; k++) n += values[k] != 0xffff;
        put_header(&b, 3, 0, n);
        for (int k = 0; k < 3; k++)
            if (values[k] != 0xffff) put_key(&b, keys[k], TERN_GGUF_U32), put32(&b, values[k]);
        assert_ok(tern_gguf_parse(&g, b.data, b.size, &err), err);
        assert_int_equal(tern_gguf_place_of(g, &place, &err), cases[i].status);
        assert_string_equal(err.message, cases[i].message);
        assert_int_equal(place.count, 1);
        tern_gguf_close(g);
        tern_buf_deinit(&b);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(joined, setup, teardown),
    cmocka_unit_test_setup_teardown(heads_as_they_come, setup, teardown),
    cmocka_unit_test_setup_teardown(refused, setup, teardown),
    cmocka_unit_test(refused_places),
};

TEST_GROUP(gguf_parts, "web", tests);
