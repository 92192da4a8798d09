/* Any bytes as a package's manifest: what is accepted has every shard in its place, and agrees with itself. */
#include <string.h>

#include "base/alloc.h"
#include "format/json.h"
#include "format/manifest.h"
#include "fuzz/fuzz.h"

static void check_shards(const tern_manifest *m)
{
    uint64_t at = 0;
    const bool even = !m->n_experts && !m->adapter;
    FUZZ_CHECK(m->n_shards > 0 && (m->name || m->adapter) && m->shards);
    for (size_t i = 0; i < m->n_shards; i++) {
        const tern_manifest_shard *s = &m->shards[i];
        FUZZ_CHECK(s->bytes > 0 && (m->n_experts > 0) == (m->version == TERN_MANIFEST_EXPERTS_VERSION));
        FUZZ_CHECK(m->n_experts || s->offset == at);
        FUZZ_CHECK(!even || (s->bytes <= m->shard_bytes && s->offset / m->shard_bytes == i));
        FUZZ_CHECK(s->layer == TERN_MANIFEST_DENSE || tern_manifest_expert(m, s->layer, s->expert) == s);
        FUZZ_CHECK(strlen(s->sha256) == 64 && !strchr(s->file, '/') && s->file[0] != '.');
        at += s->bytes;
    }
    FUZZ_CHECK(at == m->bytes);
}

/* Each byte of the file is in one place. */
static void check_ranges(const tern_manifest *m)
{
    uint64_t at = 0;
    FUZZ_CHECK(m->n_ranges >= m->n_shards);
    for (size_t i = 0; i < m->n_ranges; i++) {
        const tern_manifest_range *r = &m->ranges[i];
        FUZZ_CHECK(r->offset == at && r->bytes > 0 && r->shard < m->n_shards);
        FUZZ_CHECK(r->at <= m->shards[r->shard].bytes && r->bytes <= m->shards[r->shard].bytes - r->at);
        FUZZ_CHECK(tern_manifest_range_at(m, at) == r && tern_manifest_range_at(m, at + r->bytes - 1) == r);
        at += r->bytes;
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
        check_ranges(&m);
        FUZZ_CHECK(tern_manifest_compare(m.root, m.root, "", &err) == TERN_OK);
    }
    tern_manifest_deinit(&m);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
