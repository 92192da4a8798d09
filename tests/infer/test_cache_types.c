/* Sessions and batches whose keys and values are stored in fewer bits: the same bits whatever comes together, what is
 * lost, files, and what is refused. */
#include "infer/batch_cases.h"

#include <math.h>

#include "infer/engine/kv_types.h"
#include "support/logits.h"

enum { N_CTX = 256, N_IDS = 150, N_CASES = 12 };

static tern_engine *engine;
static int32_t ids[N_IDS];

static const tern_kv_types pairs[] = {{TERN_KV_Q8_0, TERN_KV_Q8_0},
                                      {TERN_KV_Q4_0, TERN_KV_Q4_0},
                                      {TERN_KV_Q8_0, TERN_KV_Q4_0},
                                      {TERN_KV_F16, TERN_KV_Q8_0},
                                      {TERN_KV_F32, TERN_KV_F16}};
enum { N_PAIRS = sizeof pairs / sizeof *pairs };

static int setup(void **state)
{
    (void)state;
    engine = open_trained(2);
    tern_tokens text =
        ids_of(engine, "Once upon a time there was a little girl who lived in a house near the forest. Every "
                       "day she played with her dog, and the dog was happy. One day the dog found a box.");
    for (size_t i = 0; i < N_IDS; i++) ids[i] = text.ids[i % text.n];
    tern_tokens_deinit(&text);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tern_engine_close(engine);
    return 0;
}

static tern_session *session_with(tern_kv_types kv, uint32_t n_batch)
{
    return open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = N_CTX, .kv = kv, .n_batch = n_batch));
}

static void append(tern_session *s, uint32_t first, uint32_t n)
{
    tern_error err = {0};
    assert_ok(tern_session_append(s, ids + first, n, &err), err);
}

static size_t logits_bytes(void)
{
    return tern_engine_config(engine)->n_vocab * sizeof(float);
}

static void assert_same_logits(tern_session *a, tern_session *b)
{
    assert_memory_equal(test_logits(a, 0), test_logits(b, 0), logits_bytes());
}

/* All at once, in pieces, one by one, and after a truncation in the middle of a page. */
static void any_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_PAIRS; i++) {
        tern_session *whole = session_with(pairs[i], 0), *pieces = session_with(pairs[i], 7),
                     *again = session_with(pairs[i], 33);
        append(whole, 0, N_IDS);
        append(pieces, 0, 90);
        for (uint32_t at = 90; at < N_IDS; at++) append(pieces, at, 1);
        assert_same_logits(whole, pieces);
        append(again, 40, 100);
        tern_session_truncate(again, 0);
        append(again, 0, 120);
        tern_session_truncate(again, 75);
        append(again, 75, N_IDS - 75);
        assert_same_logits(whole, again);
        tern_session_close(whole);
        tern_session_close(pieces);
        tern_session_close(again);
    }
}

static void any_company(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        batch_case *cases = calloc(N_CASES, sizeof *cases);
        assert_non_null(cases);
        tern_session *alone = session_with(pairs[i], 0);
        batch_fill(cases, N_CASES, 2000, 17 + (uint32_t)i);
        batch_run_alone(alone, cases, N_CASES);
        const tern_batch_params params[] = {
            {.size = sizeof *params, .n_parallel = 8, .n_ctx = N_CTX, .kv = pairs[i]},
            {.size = sizeof *params, .n_parallel = 4, .n_ctx = N_CTX, .n_chunk = 5, .kv = pairs[i]},
            {.size = sizeof *params, .n_parallel = 8, .n_ctx = N_CTX, .no_prefix_reuse = true, .kv = pairs[i]}};
        for (size_t j = 0; j < sizeof params / sizeof *params; j++) {
            tern_batch *batch = batch_open(engine, params[j]);
            batch_run_together(batch, cases, N_CASES, j == 1);
            batch_check(cases, N_CASES, tern_cache_type_at(2)->name);
            tern_batch_close(batch);
        }
        tern_session_close(alone);
        free(cases);
    }
}

/* Mean of the divergence of the tested softmax from the one of f32, in nats, over the positions of the text. */
static double divergence(tern_kv_types kv)
{
    const uint32_t n_vocab = tern_engine_config(engine)->n_vocab;
    const tern_session_params how = {.size = sizeof how, .n_ctx = N_CTX, .max_outputs = N_IDS};
    tern_session_params f32 = how, tested = how;
    tern_error err = {0};
    double sum = 0;
    f32.kv = (tern_kv_types){TERN_KV_F32, TERN_KV_F32};
    tested.kv = kv;
    tern_session *a = open_session(engine, f32), *b = open_session(engine, tested);
    assert_ok(tern_session_append_all(a, ids, N_IDS, &err), err);
    assert_ok(tern_session_append_all(b, ids, N_IDS, &err), err);
    for (uint32_t row = 0; row < N_IDS; row++) {
        float *p, *q;
        double zp = 0, zq = 0;
        assert_ok(tern_session_logits(a, row, &p, &err), err);
        assert_ok(tern_session_logits(b, row, &q, &err), err);
        for (uint32_t i = 0; i < n_vocab; i++) zp += exp((double)p[i]), zq += exp((double)q[i]);
        for (uint32_t i = 0; i < n_vocab; i++)
            sum += exp((double)p[i]) / zp * ((double)p[i] - (double)q[i] - log(zp) + log(zq));
    }
    tern_session_close(a);
    tern_session_close(b);
    return sum / N_IDS;
}

/* About four times what it is; of q4_0 more than of q8_0, and of that more than nothing. Most of what is lost is int8
 * activations that round the other way. */
static void what_is_lost(void **state)
{
    (void)state;
    static const struct {
        tern_kv_types kv;
        double most;
    } losses[] = {
        {{TERN_KV_F16, TERN_KV_F16}, 3e-3}, {{TERN_KV_Q8_0, TERN_KV_Q8_0}, 5e-3}, {{TERN_KV_Q4_0, TERN_KV_Q4_0}, 0.4}};
    double before = 1e-9;
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        const double found = divergence(losses[i].kv);
        if (!(found > before && found <= losses[i].most))
            fail_msg("loss %zu: %g nats, %g before, at most %g expected", i, found, before, losses[i].most);
        before = found;
    }
}

static void bytes_of_caches(void **state)
{
    (void)state;
    const tern_config *c = tern_engine_config(engine);
    const uint64_t n = (uint64_t)c->n_layers * c->n_kv_heads * c->head_dim * N_CTX;
    static const uint64_t bits[N_PAIRS] = {17 * 2, 9 * 2, 17 + 9, 32 + 17, 64 + 32}; /* halves of a bit, K and V */
    for (size_t i = 0; i < N_PAIRS; i++) {
        tern_session *s = session_with(pairs[i], 0);
        assert_int_equal(tern_session_kv_bytes(s), n * bits[i] / 16);
        tern_session_close(s);
    }
}

/* Saved and restored, and refused by sessions of other types. */
static void files(void **state)
{
    (void)state;
    const char *path = test_scratch("cache-types");
    for (size_t i = 0; i < N_PAIRS; i++) {
        tern_error err = {0};
        tern_session *a = session_with(pairs[i], 0), *b = session_with(pairs[i], 0),
                     *other = session_with(pairs[(i + 1) % N_PAIRS], 0);
        append(a, 0, N_IDS);
        append(b, 9, 50);
        assert_ok(tern_session_save(a, path, &err), err);
        assert_ok(tern_session_restore(b, path, &err), err);
        assert_same_logits(a, b);
        append(a, 0, 1);
        append(b, 0, 1);
        assert_same_logits(a, b);
        assert_int_equal(tern_session_restore(other, path, &err), TERN_MALFORMED);
        assert_non_null(strstr(err.message, "the cache is "));
        tern_session_close(a);
        tern_session_close(b);
        tern_session_close(other);
    }
    remove(path);
}

/* The pages of a batch in a file: the same text from them, and refused with other types. */
static void pages_in_files(void **state)
{
    (void)state;
    const char *path = test_scratch("cache-types-pages");
    tern_error err = {0};
    batch_case *cases = calloc(N_CASES, sizeof *cases);
    assert_non_null(cases);
    tern_batch_params params = {.size = sizeof params, .n_parallel = 4, .n_ctx = N_CTX, .kv = pairs[2]};
    tern_session *alone = session_with(pairs[2], 0);
    uint32_t saved, restored;
    batch_fill(cases, N_CASES, 2000, 23);
    batch_run_alone(alone, cases, N_CASES);
    tern_batch *batch = batch_open(engine, params);
    batch_run_together(batch, cases, N_CASES, 0);
    batch_check(cases, N_CASES, "saved");
    assert_ok(tern_batch_save(batch, path, &saved, &err), err);
    tern_batch_close(batch);
    batch = batch_open(engine, params);
    assert_ok(tern_batch_restore(batch, path, &restored, &err), err);
    assert_true(saved > 0 && saved == restored);
    batch_run_together(batch, cases, N_CASES, 0);
    batch_check(cases, N_CASES, "restored");
    tern_batch_close(batch);
    params.kv = pairs[1];
    batch = batch_open(engine, params);
    assert_int_equal(tern_batch_restore(batch, path, &restored, &err), TERN_MALFORMED);
    assert_non_null(strstr(err.message, "the cache is q8_0 and q4_0: q4_0 expected"));
    tern_batch_close(batch);
    tern_session_close(alone);
    free(cases);
    remove(path);
}

static void names_in_files(void **state)
{
    (void)state;
    static const struct {
        tern_cache_types types;
        uint32_t flags;
        const char *name;
    } rows[] = {{{TERN_DTYPE_F16, TERN_DTYPE_F16}, 0, "f16"}, /* as files always had them */
                {{TERN_DTYPE_F32, TERN_DTYPE_F32}, 1, "f32"},
                {{TERN_DTYPE_Q8_0, TERN_DTYPE_Q8_0}, 2, "q8_0"},
                {{TERN_DTYPE_Q4_0, TERN_DTYPE_F16}, 0x103, "q4_0 and f16"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(tern_kv_flags(rows[i].types), rows[i].flags);
        assert_string_equal(tern_kv_name_of(rows[i].flags).text, rows[i].name);
    }
    assert_string_equal(tern_kv_name_of(4).text, "unknown");
    assert_string_equal(tern_kv_name_of(0x500).text, "unknown");
    assert_string_equal(tern_kv_name_of(0xffffffff).text, "unknown");
}

static void automatic(void **state)
{
    (void)state;
    static const struct {
        tern_kv_types wanted;
        uint32_t n_ctx;
        tern_cache_types types;
    } rows[] = {{{TERN_KV_AUTO, TERN_KV_AUTO}, 256, {TERN_DTYPE_F32, TERN_DTYPE_F32}},
                {{TERN_KV_AUTO, TERN_KV_AUTO}, 1 << 20, {TERN_DTYPE_F16, TERN_DTYPE_F16}},
                {{TERN_KV_F16, TERN_KV_AUTO}, 256, {TERN_DTYPE_F16, TERN_DTYPE_F16}},
                {{TERN_KV_AUTO, TERN_KV_F32}, 1 << 20, {TERN_DTYPE_F32, TERN_DTYPE_F32}},
                {{TERN_KV_Q8_0, TERN_KV_AUTO}, 1 << 20, {TERN_DTYPE_Q8_0, TERN_DTYPE_F16}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tern_error err = {0};
        tern_cache_types found;
        assert_ok(tern_kv_resolve(rows[i].wanted, tern_engine_config(engine), rows[i].n_ctx, NULL, &found, &err), err);
        assert_true(found.k == rows[i].types.k && found.v == rows[i].types.v);
    }
}

static void assert_refused(tern_kv_types kv, const tern_config *config, const tern_backend *b, const char *words)
{
    tern_error err = {0};
    tern_cache_types found;
    assert_int_not_equal(tern_kv_resolve(kv, config, 256, b, &found, &err), TERN_OK);
    if (!strstr(err.message, words)) fail_msg("\"%s\" expected in \"%s\"", words, err.message);
}

static void refused(void **state)
{
    (void)state;
    tern_config small = *tern_engine_config(engine);
    const tern_backend gpu = {.info.name = "some gpu"};
    small.head_dim = 48;
    assert_refused(pairs[0], &small, NULL, "cache type q8_0: heads of 48 numbers: a multiple of 32 expected");
    assert_refused(pairs[3], &small, NULL, "cache type q8_0: heads of 48");
    assert_refused(pairs[2], tern_engine_config(engine), &gpu,
                   "some gpu: cache type q8_0 and q4_0: f16 or f32, the same for keys and values, expected");
    assert_refused(pairs[4], tern_engine_config(engine), &gpu, "cache type f32 and f16");
    const tern_backend words = {.info.name = "some gpu", .info.cache_blocks = 64};
    assert_refused(pairs[3], tern_engine_config(engine), &words,
                   "cache type f16 and q8_0: f16 or f32, the same for keys and values, or types with blocks, expected");
    assert_refused(pairs[4], tern_engine_config(engine), &words, "cache type f32 and f16: f16 or f32, the same");
    small.head_dim = 96;
    assert_refused(pairs[2], &small, &words,
                   "some gpu: cache type q8_0 and q4_0: heads of 96 numbers: a multiple of 64 expected");
    small.head_dim = 128;
    tern_error err = {0};
    tern_cache_types found;
    assert_ok(tern_kv_resolve(pairs[2], &small, 256, &words, &found, &err), err);
    assert_refused((tern_kv_types){(tern_kv_type)5, TERN_KV_F16}, &small, NULL, "cache type 5: 0 to 4 expected");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(any_pieces),      cmocka_unit_test(any_company), cmocka_unit_test(what_is_lost),
    cmocka_unit_test(bytes_of_caches), cmocka_unit_test(files),       cmocka_unit_test(pages_in_files),
    cmocka_unit_test(names_in_files),  cmocka_unit_test(automatic),   cmocka_unit_test(refused),
};

TEST_GROUP(cache_types, "threads", tests, .setup = setup, .teardown = teardown);
