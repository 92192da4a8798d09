/* Engines from files that come piece by piece, for the tests of loading. */
#ifndef TERN_TESTS_INFER_LOADER_CASES_H
#define TERN_TESTS_INFER_LOADER_CASES_H

#include "infer/support.h"

#include "base/file.h"
#include "infer/loader.h"
#include "infer/open.h"
#include "model/package.h"
#include "support/logits.h"
#include "support/micro_refusals.h"

/* What a load has looked like. */
typedef struct loading {
    size_t n_heads, n_pieces;
    size_t largest; /* bytes of a piece */
    uint64_t end;   /* of the last piece: they come in order, without overlap */
} loading;

/* The head from a block of exactly n bytes that is gone afterwards, so that sanitizers see what keeps pointing into it.
 */
static inline tern_status give_head(tern_loader *loader, const uint8_t *file, size_t n, uint64_t *wanted,
                                    tern_error *err)
{
    uint8_t *copy = malloc(n ? n : 1);
    if (n) memcpy(copy, file, n);
    tern_status status = tern_loader_head(loader, copy, n, wanted, err);
    memset(copy, 0xa5, n);
    free(copy);
    return status;
}

/* As many bytes at first as given, then as many as are wanted. */
static inline tern_status give_heads(tern_loader *loader, const uint8_t *file, size_t size, size_t n, loading *log,
                                     tern_error *err)
{
    tern_status status = TERN_PENDING;
    while (status == TERN_PENDING) {
        uint64_t wanted = 0;
        status = give_head(loader, file, n, &wanted, err);
        log->n_heads++;
        if (status != TERN_PENDING) break;
        assert_true(wanted > n && wanted <= size);
        n = (size_t)wanted;
    }
    return status;
}

static inline tern_status give_pieces(tern_loader *loader, const uint8_t *file, size_t size, loading *log,
                                      tern_error *err)
{
    tern_loader_piece p, again;
    tern_status status;
    while ((status = tern_loader_next(loader, &p, err)) == TERN_OK) {
        assert_int_equal(tern_loader_next(loader, &again, err), TERN_OK);
        assert_memory_equal(&p, &again, sizeof p);
        assert_true(p.offset >= log->end && p.bytes > 0 && p.offset + p.bytes <= size);
        log->end = p.offset + p.bytes;
        log->n_pieces++;
        if (p.bytes > log->largest) log->largest = p.bytes;
        memcpy(p.into, file + p.offset, p.bytes);
        status = tern_loader_accept(loader, err);
        if (status != TERN_OK) return status;
    }
    return status == TERN_NOT_FOUND ? TERN_OK : status;
}

/* The whole of it from bytes in memory, `first` of them in the first head. On failure *engine is NULL. */
static inline tern_status load_bytes(tern_engine **engine, const uint8_t *file, size_t size, size_t first,
                                     const tern_engine_params *params, loading *log, tern_error *err)
{
    tern_loader *loader = NULL;
    *engine = NULL;
    tern_status status = tern_loader_open(&loader, params, size, err);
    if (status == TERN_OK) status = give_heads(loader, file, size, first, log, err);
    if (status == TERN_OK) status = give_pieces(loader, file, size, log, err);
    if (status == TERN_OK) status = tern_loader_finish(loader, engine, err);
    tern_loader_close(loader);
    return status;
}

/* Refused, with the words that the same bytes in memory are refused with. */
static inline void refuse_loading(const micro_refusal *r, const tern_engine_params *params)
{
    tern_error err = {0}, mapped = {0};
    tern_model *model = NULL;
    tern_engine *engine;
    loading log = {0};
    tern_buf file = micro_model(&r->change);
    tern_status status = load_bytes(&engine, (const uint8_t *)file.data, file.size, 64, params, &log, &err);
    assert_micro_refused(r, status, &err);
    assert_null(engine);
    assert_int_equal(tern_model_open_memory(&model, file.data, file.size, NULL, &mapped), status);
    assert_string_equal(err.message, mapped.message);
    tern_buf_deinit(&file);
}

static inline tern_engine *load_file(const char *path, const tern_engine_params *params, loading *log)
{
    tern_error err = {0};
    tern_file_map map = {0};
    tern_engine *engine = NULL;
    assert_ok(tern_file_map_open(&map, path, &err), err);
    assert_ok(load_bytes(&engine, map.data, map.size, 4096, params, log, &err), err);
    tern_file_map_close(&map);
    return engine;
}

static inline tern_engine *map_file(const char *path, const tern_engine_params *params)
{
    tern_error err = {0};
    tern_model *model = NULL;
    tern_engine *engine = NULL;
    assert_ok(tern_model_open(&model, path, &(tern_model_options){0}, &err), err);
    assert_ok(tern_engine_open(&engine, model, params, &err), err);
    return engine;
}

/* The same logits, bit by bit, for a few tokens in one step, and then the same greedy tokens one by one. */
static inline void assert_same(tern_engine *a, tern_engine *b, bool bits)
{
    enum { N = 8, MORE = 12 };
    int32_t ids[N];
    tern_error err = {0};
    const uint32_t n_vocab = tern_engine_config(a)->n_vocab;
    for (int i = 0; i < N; i++) ids[i] = (int32_t)((uint32_t)(i * 37 + 1) % n_vocab);
    tern_session *x = open_session(a, (tern_session_params){.n_ctx = 64}),
                 *y = open_session(b, (tern_session_params){.n_ctx = 64});
    const int32_t *next = ids;
    int32_t best = 0;
    for (uint32_t n = N, i = 0; i < MORE; i++, n = 1, next = &best) {
        assert_ok(tern_session_append(x, next, n, &err), err);
        assert_ok(tern_session_append(y, next, n, &err), err);
        const float *p = test_logits(x, 0), *q = test_logits(y, 0);
        if (bits) assert_memory_equal(p, q, n_vocab * sizeof *p);
        int32_t other = best = 0;
        for (uint32_t v = 1; v < n_vocab; v++) {
            if (p[v] > p[best]) best = (int32_t)v;
            if (q[v] > q[other]) other = (int32_t)v;
        }
        assert_int_equal(best, other);
    }
    tern_session_close(x);
    tern_session_close(y);
}

static inline void remove_package(const char *dir)
{
    char path[4300];
    for (int i = 0; i < 100; i++) {
        snprintf(path, sizeof path, "%s/shard_%03d.bin", dir, i);
        remove(path);
    }
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    remove(path);
    remove(dir);
}

/* The manifest goes before the file; one that says something else is refused with the header. */
static inline void check_manifest(const char *dir, const tern_engine_params *params)
{
    tern_error err = {0};
    tern_buf text = {0};
    tern_loader *loader;
    tern_file_map map = {0};
    char path[4300];
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    assert_ok(tern_file_read(&text, path, 1 << 20, &err), err);
    assert_ok(tern_file_map_open(&map, TERN_SOURCE_DIR "/models/stories.gguf", &err), err);
    for (int wrong = 0; wrong < 2; wrong++) {
        loading log = {0};
        if (wrong) memcpy(strstr(text.data, "\"heads\": 4"), "\"heads\": 8", 10);
        assert_ok(tern_loader_open(&loader, params, map.size, &err), err);
        assert_ok(tern_loader_expect_json(loader, text.data, text.size, &err), err);
        tern_status status = give_heads(loader, map.data, map.size, 64, &log, &err);
        assert_int_equal(status, wrong ? TERN_MALFORMED : TERN_OK);
        if (wrong) assert_non_null(strstr(err.message, "inference.heads: 8 found, 4 expected"));
        tern_loader_close(loader);
    }
    tern_file_map_close(&map);
    tern_buf_deinit(&text);
}

static inline void check_package(const tern_engine_params *params)
{
    tern_error err = {0};
    const char *dir = test_scratch("loader-package");
    tern_engine *a = map_file(TERN_SOURCE_DIR "/models/stories.gguf", params), *b;
    remove_package(dir);
    assert_ok(tern_package_write(TERN_SOURCE_DIR "/models/stories.gguf", dir,
                                 &(tern_package_options){.shard_bytes = 100003}, &err),
              err);
    assert_ok(tern_engine_open_path(&b, dir, NULL, params, &err), err);
    assert_same(a, b, true);
    tern_engine_close(a);
    tern_engine_close(b);
    check_manifest(dir, params);
    remove_package(dir);
}

/* A model in every encoding that GGUF files have: of its layers, and of its tables. */
typedef struct loading_case {
    const char *model; /* in ../shared/fixtures */
    const char *linear, *head;
} loading_case;

static const loading_case loading_cases[] = {
    {"bitnet", "i2_s", NULL},         {"bitnet", "tq1_0", NULL},
    {"bitnet", "tq2_0", NULL},        {"bitnet", "t160", "f16"},
    {"bitnet-packed", "i2_s", "f32"}, {"bitnet-packed", "tq2_0", "bf16"},
    {"bitnet-packed", "t160", "f16"}, {"bitnet-packed", "f32", "f32"},
    {"llama", "q8_0", "q8_0"},        {"llama", "q6_k", "q6_k"},
    {"llama", "q4_k", "q4_k"},        {"llama", "bf16", "q6_k"},
    {"llama", "f16", "q8_0"},         {"llama", NULL, NULL},
};

enum { N_LOADING_CASES = sizeof loading_cases / sizeof *loading_cases };

/* A micro model from memory and piece by piece: the same engines. */
static inline void check_micro(const micro_change *change, const tern_engine_params *params)
{
    tern_error err = {0};
    tern_buf file = micro_model(change);
    tern_model *model;
    tern_engine *a, *b;
    loading log = {0};
    assert_ok(tern_model_open_memory(&model, file.data, file.size, NULL, &err), err);
    assert_ok(tern_engine_open(&a, model, params, &err), err);
    assert_ok(load_bytes(&b, (const uint8_t *)file.data, file.size, 64, params, &log, &err), err);
    assert_same(a, b, true);
    tern_engine_close(a);
    tern_engine_close(b);
    tern_buf_deinit(&file);
}

#endif
