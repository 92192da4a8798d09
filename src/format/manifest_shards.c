/* The shards of a manifest, and where each byte of the file is in them. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "format/json.h"
#include "format/manifest_internal.h"

/* Names stay in the package's folder, on every system: letters, digits, '_', '-', and '.' but not first. */
static bool is_name(const char *s)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
    size_t n = strlen(s);
    return n > 0 && n <= 200 && s[0] != '.' && strspn(s, letters) == n;
}

static bool is_text(const json_t *v)
{
    return json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v);
}

static tern_status read_shard(const json_t *v, size_t i, int most, tern_manifest_shard *out, tern_error *err)
{
    int64_t bytes = 0;
    const json_t *file = json_object_get(v, "file"), *sum = json_object_get(v, "sha256"),
                 *size = json_object_get(v, "bytes");
    if (!is_text(file) || !is_name(json_string_value(file)))
        return tern_fail(err, TERN_MALFORMED,
                         "shards[%zu].file: %s found, the name of a file beside the manifest expected", i,
                         is_text(file) ? tern_show_z(json_string_value(file)).text : tern_json_kind(file));
    if (!tern_json_int(size, &bytes) || bytes < 1 || bytes > most)
        return tern_fail(err, TERN_MALFORMED, "shards[%zu].bytes: %lld found, 1 to %d expected", i, (long long)bytes,
                         most);
    if (!is_text(sum) || json_string_length(sum) != 64 || strspn(json_string_value(sum), "0123456789abcdef") != 64)
        return tern_fail(err, TERN_MALFORMED, "shards[%zu].sha256: %s found, 64 hexadecimal digits expected", i,
                         is_text(sum) ? tern_show_z(json_string_value(sum)).text : tern_json_kind(sum));
    out->file = json_string_value(file);
    out->bytes = (size_t)bytes;
    out->sha256 = json_string_value(sum);
    out->layer = TERN_MANIFEST_DENSE;
    return TERN_OK;
}

tern_status tern_manifest__add_range(tern_manifest *m, size_t *cap, const tern_manifest_range *range, tern_error *err)
{
    void *items = m->ranges;
    TERN_TRY(tern_grow(&items, cap, m->n_ranges + 1, sizeof *m->ranges, err));
    m->ranges = items;
    m->ranges[m->n_ranges++] = *range;
    return TERN_OK;
}

/* Files of an adapter have any size; of a model's shards all but the last one have the same. */
static bool has_size(const tern_manifest *m, size_t i)
{
    const size_t bytes = m->shards[i].bytes;
    if (m->adapter) return true;
    return i + 1 < m->n_shards ? bytes == m->shard_bytes : bytes <= m->shard_bytes;
}

/* The shards of version 1 are the file, one after the other. */
static tern_status cover(tern_manifest *m, tern_error *err)
{
    uint64_t at = 0;
    size_t cap = 0;
    for (size_t i = 0; i < m->n_shards; i++) {
        tern_manifest_shard *s = &m->shards[i];
        const tern_manifest_range range = {.offset = at, .bytes = s->bytes, .shard = i};
        s->offset = at;
        at += s->bytes;
        if (!has_size(m, i))
            return tern_fail(err, TERN_MALFORMED, "shards[%zu].bytes: %zu found, %llu (shard_bytes) expected", i,
                             s->bytes, (unsigned long long)m->shard_bytes);
        TERN_TRY(tern_manifest__add_range(m, &cap, &range, err));
    }
    if (at == m->bytes) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "bytes: %llu found, the %llu of all shards expected",
                     (unsigned long long)m->bytes, (unsigned long long)at);
}

/* The files of an adapter: one of GGUF, or both of PEFT's. */
static tern_status check_files(const tern_manifest *m, tern_error *err)
{
    static const char *const names[] = {TERN_MANIFEST_ADAPTER_GGUF, TERN_MANIFEST_ADAPTER_CONFIG,
                                        TERN_MANIFEST_ADAPTER_WEIGHTS};
    const char *const *expected = m->n_shards == 1 ? names : names + 1;
    bool right = m->n_shards <= 2;
    for (size_t i = 0; right && i < m->n_shards; i++) right = strcmp(m->shards[i].file, expected[i]) == 0;
    if (right) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "shards: %zu found from %s on, %s alone or %s and %s expected", m->n_shards,
                     m->shards[0].file, names[0], names[1], names[2]);
}

static int by_offset(const void *a, const void *b)
{
    const tern_manifest_range *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Each byte of the file is in one shard, and in one alone. */
static tern_status sort_ranges(tern_manifest *m, tern_error *err)
{
    uint64_t at = 0;
    qsort(m->ranges, m->n_ranges, sizeof *m->ranges, by_offset);
    for (size_t i = 0; i < m->n_ranges; i++) {
        const tern_manifest_range *r = &m->ranges[i];
        if (r->offset != at)
            return tern_fail(err, TERN_MALFORMED, "shards[%zu].ranges: from byte %llu of the file, %llu expected",
                             r->shard, (unsigned long long)r->offset, (unsigned long long)at);
        if (r->at == 0) m->shards[r->shard].offset = at;
        at += r->bytes;
    }
    if (at == m->bytes) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "bytes: %llu found, the %llu of all ranges expected",
                     (unsigned long long)m->bytes, (unsigned long long)at);
}

tern_status tern_manifest__read_shards(tern_manifest *m, tern_error *err)
{
    const json_t *list = json_object_get(m->root, "shards");
    const bool experts = m->version == TERN_MANIFEST_EXPERTS_VERSION;
    const size_t n = json_array_size(list);
    if (n < 1 || n > TERN_MANIFEST_MAX_SHARDS)
        return tern_fail(err, TERN_MALFORMED, "shards: %zu found, 1 to %d expected", n, TERN_MANIFEST_MAX_SHARDS);
    m->shards = tern_calloc(n, sizeof *m->shards);
    if (!m->shards) return tern_fail_alloc(err, n * sizeof *m->shards);
    m->n_shards = n;
    const int most = experts || m->adapter ? TERN_MANIFEST_EXPERT_BYTES : TERN_MANIFEST_SHARD_BYTES;
    for (size_t i = 0; i < n; i++) TERN_TRY(read_shard(json_array_get(list, i), i, most, &m->shards[i], err));
    if (m->adapter) TERN_TRY(check_files(m, err));
    if (!experts) return cover(m, err);
    TERN_TRY(tern_manifest__read_experts(m, err));
    return sort_ranges(m, err);
}

const tern_manifest_range *tern_manifest_range_at(const tern_manifest *m, uint64_t offset)
{
    size_t low = 0, high = m->n_ranges - 1;
    while (low < high) {
        const size_t middle = low + (high - low + 1) / 2;
        if (m->ranges[middle].offset <= offset) low = middle;
        else high = middle - 1;
    }
    return &m->ranges[low];
}

const tern_manifest_shard *tern_manifest_expert(const tern_manifest *m, uint32_t layer, uint32_t expert)
{
    for (size_t i = 0; i < m->n_shards; i++)
        if (m->shards[i].layer == layer && m->shards[i].expert == expert) return &m->shards[i];
    return NULL;
}
