/* Loading piece by piece on the CPU: headers cut anywhere, short files, calls out of order, little memory or none. */
#include <malloc.h>

#include "base/alloc.h"
#include "infer/loading.h"
#include "model/stream/stream.h"
#include "quant/encoding.h"
#include "support/places.h"
#include "text/tokenizer/tokenizer.h"

static const tern_engine_params cpu = {.backend = {.n_threads = 2}};

/* Heads of other encodings, the exact one, layers split between two backends. */
static void bundled_opened_otherwise(void **state)
{
    (void)state;
    const char *path = TERN_SOURCE_DIR "/models/stories.gguf";
    check_file(path, &(tern_engine_params){.backend = {.n_threads = 2}, .head = tern_encoding_find(TERN_ENC_Q8_0)});
    check_file(path, &(tern_engine_params){.backend = {.n_threads = 1}, .head_exact = true});
    check_file(path, &(tern_engine_params){.backend = {.n_threads = 1, .split = true, .gpu_layers = 2}});
    check_file(path, &(tern_engine_params){.backend = {.n_threads = 1, .split = true, .gpu_layers = 1000}});
}

static void synthetic(void **state)
{
    (void)state;
    tern_error err = {0};
    static const char *const encodings[] = {"i2_s", "tq2_0"};
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++) {
        const char *path = test_scratch("loader-synth.gguf");
        tern_synth_options o = {.preset = "bitnet-tiny", .linear = tern_encoding_by_name(encodings[i]), .seed = 5};
        assert_ok(tern_synth_write(path, &o, &err), err);
        check_file(path, &cpu);
        remove(path);
    }
}

/* A model whose vocabulary was read from bytes that are gone. */
static void text(void **state)
{
    (void)state;
    loading log = {0};
    tern_error err = {0};
    const char *path = TERN_SOURCE_DIR "/models/stories.gguf";
    tern_engine *a = map_file(path, &cpu), *b = load_file(path, &cpu, &log);
    tern_tokens x = ids_of(a, "Once upon a time, Émile met a fox."),
                y = ids_of(b, "Once upon a time, Émile met a fox.");
    assert_int_equal(x.n, y.n);
    assert_memory_equal(x.ids, y.ids, x.n * sizeof *x.ids);
    tern_buf s = {0}, t = {0};
    assert_ok(tern_detokenize(tern_model_tokenizer(tern_engine_model(a)), x.ids, x.n, false, &s, &err), err);
    assert_ok(tern_detokenize(tern_model_tokenizer(tern_engine_model(b)), x.ids, x.n, false, &t, &err), err);
    assert_string_equal(s.data, t.data);
    assert_non_null(strstr(s.data, "Émile"));
    tern_buf_deinit(&s);
    tern_buf_deinit(&t);
    tern_tokens_deinit(&x);
    tern_tokens_deinit(&y);
    tern_engine_close(a);
    tern_engine_close(b);
}

/* A cut of the header anywhere asks for more, and is told so; from there the model opens. */
static void every_cut(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_buf file = micro_model(&(micro_change){.seed = 3});
    const uint8_t *bytes = (const uint8_t *)file.data;
    size_t n_pending = 0;
    int64_t live = tern_alloc_live();
    size_t n_cuts = 0;
    for (size_t n = 0; n <= file.size; n++) {
        if (!test_takes(n, 11, 8)) continue; /* every kind of field is cut at each of its bytes */
        tern_engine *engine;
        loading log = {0};
        assert_ok(load_bytes(&engine, bytes, file.size, n, &cpu, &log, &err), err);
        n_pending += log.n_heads > 1;
        n_cuts++;
        tern_engine_close(engine);
        assert_int_equal(tern_alloc_live(), live);
    }
    assert_true(n_pending > n_cuts * 500 / file.size && n_pending < n_cuts);
    tern_buf_deinit(&file);
}

/* A file that is shorter than it was said to be is refused as the same bytes in memory are. */
static void truncated(void **state)
{
    (void)state;
    tern_buf file = micro_model(&(micro_change){.seed = 3});
    const uint8_t *bytes = (const uint8_t *)file.data;
    for (size_t size = 0; size < file.size; size += size < 64 ? 1 : 61) {
        tern_error want = {0}, got = {0};
        tern_model *model = NULL;
        tern_engine *engine;
        loading log = {0};
        tern_status status = tern_model_open_memory(&model, bytes, size, NULL, &want);
        assert_int_not_equal(status, TERN_OK);
        assert_int_equal(load_bytes(&engine, bytes, size, 0, &cpu, &log, &got), status);
        assert_string_equal(got.message, want.message);
        assert_null(engine);
    }
    tern_buf_deinit(&file);
}

/* Bytes that malloc has handed out. */
static size_t heap_bytes(void)
{
#ifdef __GLIBC__
    const struct mallinfo2 m = mallinfo2();
#else
    const struct mallinfo m = mallinfo();
#endif
    return (size_t)m.uordblks + (size_t)m.hblkhd;
}

/* What is passed on is never whole in memory: of the bundled model (2.7 MB) the table's piece, vocabulary and norms. */
static void little_memory(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_file_map map = {0};
    tern_model_stream *s;
    tern_model_piece p;
    tern_model_part part;
    uint64_t wanted = 0;
    size_t most = 0, total = 0;
    assert_ok(tern_file_map_open(&map, TERN_SOURCE_DIR "/models/stories.gguf", &err), err);
    const size_t before = heap_bytes();
    const tern_model_stream_options o = {.file_bytes = map.size};
    assert_ok(tern_model_stream_open(&s, map.data, map.size, &o, &wanted, &err), err);
    while (tern_model_stream_next(s, &p, &err) == TERN_OK) {
        memcpy(p.into, map.data + p.offset, p.bytes);
        assert_ok(tern_model_stream_accept(s, &part, &err), err);
        const size_t now = heap_bytes();
        if (now > before && now - before > most) most = now - before;
        total += p.bytes;
    }
    print_message("%zu bytes of tensors, %zu in memory at most\n", total, most);
    assert_true(total > 2600000 && most < 1700000);
    tern_model_stream_close(s);
    tern_file_map_close(&map);
}

/* Calls out of order. */
static void misuse(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_loader *loader;
    tern_engine *engine = NULL;
    tern_loader_piece piece;
    uint64_t wanted;
    tern_buf file = micro_model(&(micro_change){.seed = 3});
    assert_ok(tern_loader_open(&loader, &cpu, file.size, &err), err);
    assert_int_equal(tern_loader_next(loader, &piece, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_loader_accept(loader, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_loader_finish(loader, &engine, &err), TERN_INVALID_ARGUMENT);
    assert_ok(tern_loader_head(loader, file.data, file.size, &wanted, &err), err);
    assert_int_equal(tern_loader_head(loader, file.data, file.size, &wanted, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_loader_accept(loader, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_loader_finish(loader, &engine, &err), TERN_INVALID_ARGUMENT);
    assert_null(engine);
    assert_string_equal(tern_model_config(tern_loader_model(loader))->architecture, "bitnet-b1.58");
    tern_loader_close(loader);
    tern_loader_close(NULL);
    tern_buf_deinit(&file);
}

static void failed_allocations_are_clean(void **state)
{
    (void)state;
    tern_buf file = micro_model(&(micro_change){.seed = 3});
    int64_t live = tern_alloc_live();
    tern_status status = TERN_OUT_OF_MEMORY;
    uint64_t n = 1;
    for (; status != TERN_OK; n++) {
        tern_error err = {0};
        tern_engine *engine;
        loading log = {0};
        tern_alloc_fail_after(n, false);
        status = load_bytes(&engine, (const uint8_t *)file.data, file.size, file.size, &cpu, &log, &err);
        tern_alloc_fail_after(0, false);
        if (status != TERN_OK) assert_int_equal(status, TERN_OUT_OF_MEMORY);
        tern_engine_close(engine);
        assert_int_equal(tern_alloc_live(), live);
    }
    assert_true(n > 30);
    tern_buf_deinit(&file);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_cut),
    cmocka_unit_test(truncated),
    cmocka_unit_test(misuse),
    cmocka_unit_test(little_memory),
    cmocka_unit_test(failed_allocations_are_clean),
    cmocka_unit_test(text),
    cmocka_unit_test(bundled_opened_otherwise),
    cmocka_unit_test(synthetic),
};

TEST_GROUP(loader_files, "slow", tests);
