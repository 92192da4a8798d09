/* Any bytes as a package's manifest: what is accepted has every shard in its place, and agrees with itself. */
#include <string.h>

#include "base/alloc.h"
#include "format/json.h"
#include "format/manifest.h"
#include "fuzz/fuzz.h"

static void check_shards(const tern_manifest *m)
{
    uint64_t at = 0;
    FUZZ_CHECK(m->n_shards > 0 && m->name && m->shards);
    for (size_t i = 0; i < m->n_shards; i++) {
        const tern_manifest_shard *s = &m->shards[i];
        FUZZ_CHECK(s->offset == at && s->bytes > 0 && s->bytes <= m->shard_bytes);
        FUZZ_CHECK(s->offset / m->shard_bytes == i);
        FUZZ_CHECK(strlen(s->sha256) == 64 && !strchr(s->file, '/') && s->file[0] != '.');
        at += s->bytes;
    }
    FUZZ_CHECK(at == m->bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t live = tern_alloc_live();
    tern_manifest m;
    tern_error err = {0};
    tern_status status = tern_manifest_parse(&m, data, size, &err);
    FUZZ_CHECK((status == TERN_OK) == (m.root != NULL));
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
    if (status == TERN_OK) {
        check_shards(&m);
        FUZZ_CHECK(tern_manifest_compare(m.root, m.root, "", &err) == TERN_OK);
    }
    tern_manifest_deinit(&m);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
