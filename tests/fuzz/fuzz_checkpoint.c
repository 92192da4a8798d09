/* Any bytes as a checkpoint: as they are, and, since hashes keep most changes out, once more with hashes that fit; what
 * opens is given to a run that wants to go on. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "format/safetensors.h"
#include "fuzz/fuzz.h"
#include "train/checkpoint_internal.h"
#include "train/data/layout.h"
#include "train/run/internal.h"

/* With no settings, and with one: as far as the run's progress, or to the refusal. */
static void go_on(const json_t *about)
{
    const tern_finetune_options options = {.size = sizeof options, .warmup = -1};
    for (int n_settings = 0; n_settings < 2; n_settings++) {
        tern_backend backend = {.info = {.name = "cpu"}};
        tern_run run = {.o = &options, .backend = &backend, .state_path = (char[]){"state"}, .settings = json_object()};
        tern_error err = {0};
        if (n_settings) json_object_set_new(run.settings, "seq", json_string("8"));
        const tern_status status = tern_run__read_checkpoint(&run, about, &err);
        FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
        FUZZ_CHECK(status != TERN_OK || (run.saved_step <= INT64_MAX && run.params.n_warmup <= INT64_MAX));
        FUZZ_CHECK(status != TERN_OK || run.best_loss == INFINITY || isfinite(run.best_loss));
        json_decref(run.settings);
    }
}

static void read_all(const uint8_t *bytes, size_t size)
{
    static const tern_dtype dtypes[] = {TERN_DTYPE_F32, TERN_DTYPE_BF16, TERN_DTYPE_M8, TERN_DTYPE_V8};
    tern_checkpoint *c;
    tern_error err = {0};
    tern_status status = tern_checkpoint_parse(&c, bytes, size, &err);
    FUZZ_CHECK((status == TERN_OK) == (c != NULL));
    FUZZ_CHECK(status == TERN_OK || err.message[0]);
    if (!c) return;
    FUZZ_CHECK(json_is_object(tern_checkpoint_run(c)));
    go_on(tern_checkpoint_run(c));
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        const tern_checkpoint_item item = {"master.a", dtypes[i], 2, 3};
        const uint8_t *data;
        if (tern_checkpoint_find(c, &item, &data, &err) != TERN_OK) continue;
        FUZZ_CHECK(data >= bytes && data + tern_row_bytes(dtypes[i], 3, 2) <= bytes + size);
    }
    tern_checkpoint_close(c);
}

/* Where the last tensor has room for them. */
static void mend_hashes(uint8_t *bytes, const tern_safetensors *st)
{
    const size_t n = tern_safetensors_count(st);
    const tern_st_tensor *last = n ? tern_safetensors_at(st, n - 1) : NULL;
    if (!last || last->bytes != 8 * (n - 1)) return;
    uint8_t *out = bytes + (last->data - bytes);
    for (size_t i = 0; i + 1 < n; i++) {
        const tern_st_tensor *t = tern_safetensors_at(st, i);
        tern_store_u64(out + 8 * i, tern_hash(TERN_HASH_START, t->data, t->bytes));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const int64_t live = tern_alloc_live();
    tern_safetensors *st = NULL;
    tern_error err = {0};
    read_all(bytes, size);
    uint8_t *copy = malloc(size ? size : 1);
    if (copy && size) memcpy(copy, bytes, size);
    if (copy && tern_safetensors_parse(&st, copy, size, &err) == TERN_OK) {
        mend_hashes(copy, st);
        read_all(copy, size);
        tern_safetensors_close(st);
    }
    free(copy);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
