/* Any bytes as a session file of a small model with a window: as they are, and, since few bytes fit, once more under
 * the header of a sound file, of either version, with a checksum that fits. After a refusal the session computes as a
 * fresh one does. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "format/gguf.h"
#include "fuzz/fuzz.h"
#include "fuzz/small_model.h"
#include "infer/engine/engine.h"
#include "infer/session/internal.h"
#include "quant/encoding.h"

enum { HEADER = 40, VERSION_AT = 8, N_TOKENS_AT = 24, ALIGNMENT = 64, HASH = 8 };

enum { N_KINDS = 2 };

/* A session, and what a sound file of it begins with: with keys and values of one type, and of two. */
static struct kind {
    tern_kv_types kv;
    tern_session *session;
    uint8_t header[HEADER];
} kinds[N_KINDS] = {{{TERN_KV_F16, TERN_KV_F16}}, {{TERN_KV_F16, TERN_KV_F32}}};

static tern_engine *engine;
static tern_session *session; /* of the kind at hand */
static const uint8_t *header;
static float fresh[N_KINDS][VOCAB]; /* logits of token 1 alone */
static const float *expected;

static void open_session(struct kind *k, float *logits_of_1)
{
    const tern_session_params how = {
        .size = sizeof how, .n_ctx = CTX, .n_batch = WINDOW, .kv = k->kv}; /* rings of two pages */
    tern_buf sound = {0};
    float *logits;
    NEED(tern_session_open(&k->session, engine, &how, &setup));
    NEED(tern_session_append(k->session, (const int32_t[]){1}, 1, &setup));
    NEED(tern_session_logits(k->session, 0, &logits, &setup));
    memcpy(logits_of_1, logits, VOCAB * sizeof *logits);
    NEED(tern_session__save_bytes(k->session, &sound, &setup));
    memcpy(k->header, sound.data, HEADER);
    tern_buf_deinit(&sound);
}

/* Once for all inputs. */
static void open_all(void)
{
    static tern_buf file;
    tern_model *model;
    const tern_engine_params params = {.backend = {.n_threads = 1}};
    file = write_model();
    NEED(tern_model_open_memory(&model, file.data, file.size, NULL, &setup));
    NEED(tern_engine_open(&engine, model, &params, &setup));
    for (size_t i = 0; i < N_KINDS; i++) open_session(&kinds[i], fresh[i]);
}

/* Token 1 after what is there: finite logits, or the error that says they are not. */
static void go_on(bool empty)
{
    tern_error err = {0};
    float *logits;
    const tern_status status = tern_session_append(session, (const int32_t[]){1}, 1, &err);
    FUZZ_CHECK(status == TERN_OK || (!empty && err.code == status && err.message[0]));
    if (status != TERN_OK) return;
    NEED(tern_session_logits(session, 0, &logits, &setup));
    for (size_t i = 0; i < VOCAB; i++) FUZZ_CHECK(isfinite(logits[i]));
    FUZZ_CHECK(!empty || memcmp(logits, expected, VOCAB * sizeof *logits) == 0);
}

static void restore(const uint8_t *bytes, size_t size)
{
    tern_error err = {0};
    const tern_status status = tern_session__restore_bytes(session, bytes, size, &err);
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
    const uint32_t n = tern_session_n_tokens(session);
    FUZZ_CHECK(n == (status == TERN_OK ? tern_load_u32(bytes + N_TOKENS_AT) : 0));
    if (n < CTX) go_on(n == 0);
    tern_session_truncate(session, 0);
    go_on(true);
    tern_session_truncate(session, 0);
}

/* As long as the ids and caches of so many tokens are; after the input, zeros. First page: 0, in a file of version 2,
 * or more in one of version 3, where both caches, as all that have a window, begin there. */
static void restore_mended(const uint8_t *bytes, size_t size, uint32_t first_page)
{
    const uint32_t n = tern_load_u32(bytes + N_TOKENS_AT), n_caches = tern_load_u32(header + 28);
    const tern_cache_types types = session->runner.params.kv;
    const tern_config *c = tern_engine_config(engine);
    const size_t pair = (size_t)(tern_kv_page_bytes(c, types.k) + tern_kv_page_bytes(c, types.v));
    const size_t pages = n ? (n - 1 + TERN_PAGE_SIZE - 1) / TERN_PAGE_SIZE : 0;
    if (n > CTX || first_page > pages) return;
    const size_t ids = first_page ? HEADER + 8 : HEADER;
    const size_t head = (ids + 4 * n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const size_t end = head + (pages - first_page) * n_caches / 2 * pair;
    uint8_t *copy = calloc(end + HASH, 1);
    FUZZ_CHECK(copy);
    memcpy(copy, bytes, size < end ? size : end);
    memcpy(copy, header, HEADER);
    tern_store_u32(copy + N_TOKENS_AT, n);
    if (first_page) {
        tern_store_u32(copy + VERSION_AT, 3);
        tern_store_u32(copy + HEADER, n_caches);
        tern_store_u32(copy + HEADER + 4, first_page);
    }
    for (size_t i = 0; i < n; i++) copy[ids + 4 * i] &= bytes[0] & 1 ? VOCAB - 1 : 255; /* or an id too large */
    for (size_t i = 0; i < n && bytes[0] & 1; i++) memset(copy + ids + 4 * i + 1, 0, 3);
    tern_store_u64(copy + end, tern_hash(TERN_HASH_START, copy, end));
    restore(copy, end + HASH);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (!engine) open_all();
    const int64_t live = tern_alloc_live();
    for (size_t i = 0; i < N_KINDS; i++) {
        session = kinds[i].session;
        header = kinds[i].header;
        expected = fresh[i];
        restore(bytes, size);
        if (size >= HEADER) restore_mended(bytes, size, 0);
        if (size >= HEADER) restore_mended(bytes, size, 1 + bytes[1] % 4);
    }
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
