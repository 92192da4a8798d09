/* Engines from files that come piece by piece. */
#include "infer/loading.h"

#include "support/logits.h"
#include "support/op_case.h"

/* The head from a block of exactly n bytes that is gone afterwards, so that sanitizers see what keeps pointing into it.
 */
static tern_status give_head(tern_loader *loader, const uint8_t *file, size_t n, uint64_t *wanted, tern_error *err)
{
    uint8_t *copy = malloc(n ? n : 1);
    if (n) memcpy(copy, file, n);
    tern_status status = tern_loader_head(loader, copy, n, wanted, err);
    memset(copy, 0xa5, n);
    free(copy);
    return status;
}

tern_status give_heads(tern_loader *loader, const uint8_t *file, size_t size, size_t n, loading *log, tern_error *err)
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

tern_status give_pieces(tern_loader *loader, const uint8_t *file, size_t size, loading *log, tern_error *err)
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

tern_status load_bytes(tern_engine **engine, const uint8_t *file, size_t size, size_t first,
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

void refuse_loading(const micro_refusal *r, const tern_engine_params *params)
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

tern_engine *load_file(const char *path, const tern_engine_params *params, loading *log)
{
    tern_error err = {0};
    tern_file_map map = {0};
    tern_engine *engine = NULL;
    assert_ok(tern_file_map_open(&map, path, &err), err);
    assert_ok(load_bytes(&engine, map.data, map.size, 4096, params, log, &err), err);
    tern_file_map_close(&map);
    return engine;
}

tern_engine *map_file(const char *path, const tern_engine_params *params)
{
    tern_error err = {0};
    tern_model *model = NULL;
    tern_engine *engine = NULL;
    assert_ok(tern_model_open(&model, path, &(tern_model_options){0}, &err), err);
    assert_ok(tern_engine_open(&engine, model, params, &err), err);
    return engine;
}

void assert_same(tern_engine *a, tern_engine *b, bool bits)
{
    enum { N = 8, MORE = 12 };
    int32_t ids[N];
    tern_error err = {0};
    const uint32_t n_vocab = tern_engine_config(a)->n_vocab;
    for (int i = 0; i < N; i++) ids[i] = (int32_t)((uint32_t)(i * 37 + 1) % n_vocab);
    tern_session *x = open_session(a, TERN_SIZED(tern_session_params, .n_ctx = 64)),
                 *y = open_session(b, TERN_SIZED(tern_session_params, .n_ctx = 64));
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

void check_file(const char *path, const tern_engine_params *params)
{
    loading log = {0};
    tern_engine *a = map_file(path, params), *b = load_file(path, params, &log);
    const tern_model *mapped = tern_engine_model(a), *loaded = tern_engine_model(b);
    assert_true(log.n_heads > 0 && log.n_pieces > 0);
    assert_true(log.largest <= TERN_MODEL_PIECE_BYTES);
    assert_int_equal(tern_model_bytes(mapped), tern_model_bytes(loaded));
    assert_int_equal(tern_model_parameters(mapped), tern_model_parameters(loaded));
    if (test_on_gpu()) { /* all but norms and scales is in the device's memory alone */
        assert_null(tern_model_weight(loaded, TERN_ROLE_ATTN_Q, 0)->data);
        assert_null(tern_model_weight(loaded, TERN_ROLE_TOKEN_EMBD, 0)->data);
        assert_non_null(tern_model_weight(loaded, TERN_ROLE_ATTN_NORM, 0)->data);
    }
    assert_same(a, b, true);
    tern_engine_close(a);
    tern_engine_close(b);
}

void check_micro(const micro_change *change, const tern_engine_params *params)
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
