/* Any bytes as saved pages of a batch: as they are, and, since few bytes fit, once more under the header of a sound
 * file and with a checksum that fits. What is restored is saved as the same bytes; after a refusal the pool is empty.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "fuzz/fuzz.h"
#include "fuzz/small_model.h"
#include "infer/batch/batch_internal.h"
#include "infer/engine/engine.h"

enum { HEADER = 40, N_PAGES_AT = 24, RECORD = 16 + 4 * TERN_PAGE_SIZE, HASH = 8, MOST = 8 };

static tern_batch *batch;
static uint8_t header[HEADER]; /* of a sound file */

/* Once for all inputs; its pool has room for five pages. */
static void open_batch(void)
{
    static tern_buf file;
    tern_model *model;
    tern_engine *engine;
    tern_buf sound = {0};
    uint32_t n;
    const tern_engine_params params = {.backend = {.n_threads = 1}};
    const tern_batch_params how = {
        .size = sizeof how, .n_parallel = 1, .n_ctx = CTX, .n_batch = WINDOW, .kv = {TERN_KV_F16, TERN_KV_F16}};
    file = write_model();
    NEED(tern_model_open_memory(&model, file.data, file.size, NULL, &setup));
    NEED(tern_engine_open(&engine, model, &params, &setup));
    NEED(tern_batch_open(&batch, engine, &how, &setup));
    NEED(tern_batch__save_bytes(batch, &sound, &n, &setup));
    memcpy(header, sound.data, HEADER);
    tern_buf_deinit(&sound);
}

static void check_saved(const uint8_t *bytes, size_t size)
{
    tern_buf again = {0};
    uint32_t n;
    NEED(tern_batch__save_bytes(batch, &again, &n, &setup));
    FUZZ_CHECK(again.size == size && memcmp(again.data, bytes, size) == 0);
    tern_buf_deinit(&again);
}

static void restore(const uint8_t *bytes, size_t size)
{
    tern_error err = {0};
    uint32_t n;
    const tern_status status = tern_batch__restore_bytes(batch, bytes, size, &n, &err);
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0] && n == 0));
    FUZZ_CHECK(batch->kv.pages.n_idle == n && batch->kv.pages.n_free == batch->kv.pages.n - n);
    if (status == TERN_OK && n == tern_load_u32(bytes + N_PAGES_AT)) check_saved(bytes, size);
    while (batch->kv.pages.n_idle) { /* the oldest first, as requests take them; none has a child */
        batch->kv.pages.n_free = 0;
        FUZZ_CHECK(tern_pages_take(&batch->kv.pages) != TERN_NO_PAGE);
    }
    n = batch->kv.pages.n;
    tern_pages_deinit(&batch->kv.pages);
    NEED(tern_pages_init(&batch->kv.pages, n, &setup));
}

/* The input as records; after it, zeros. */
static void restore_mended(const uint8_t *bytes, size_t size)
{
    const uint32_t n = bytes[0] % MOST;
    const size_t each = RECORD + tern_load_u32(header + 28) * (size_t)tern_load_u64(header + 32);
    const size_t end = HEADER + n * each;
    uint8_t *copy = calloc(end + HASH, 1);
    FUZZ_CHECK(copy);
    if (size - 1 < end - HEADER) memcpy(copy + HEADER, bytes + 1, size - 1);
    else memcpy(copy + HEADER, bytes + 1, end - HEADER);
    memcpy(copy, header, HEADER);
    tern_store_u32(copy + N_PAGES_AT, n);
    tern_store_u64(copy + end, tern_hash(TERN_HASH_START, copy, end));
    restore(copy, end + HASH);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (!batch) open_batch();
    const int64_t live = tern_alloc_live();
    restore(bytes, size);
    if (size > 0) restore_mended(bytes, size);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
