/* Any bytes as a checkpoint: as they are, and, since hashes keep most changes out, once more with hashes that fit. */
#include <string.h>

#include "base/alloc.h"
#include "format/safetensors.h"
#include "fuzz/fuzz.h"
#include "train/checkpoint_internal.h"
#include "train/data_layout.h"

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
