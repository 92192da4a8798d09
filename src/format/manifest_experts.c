/* Shards by expert: whose each is, and which ranges of the file lie in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "format/json.h"
#include "format/manifest_internal.h"

typedef struct reading {
    tern_manifest *manifest;
    const json_t *map; /* expertShardMap */
    uint32_t n_layers;
    bool *seen; /* [n_layers * n_experts] */
    size_t n_seen, cap;
} reading;

static tern_status read_counts(reading *r, tern_error *err)
{
    tern_manifest *m = r->manifest;
    const json_t *moe = json_object_get(m->root, "moeConfig");
    const char *strategy = json_string_value(json_object_get(m->root, "shardingStrategy"));
    int64_t n = 0, used = 0, layers = 0;
    (void)tern_json_int(json_object_get(moe, "numExperts"), &n);
    (void)tern_json_int(json_object_get(moe, "numExpertsPerTok"), &used);
    (void)tern_json_int(json_object_get(json_object_get(m->root, "inference"), "layers"), &layers);
    if (strcmp(strategy, "expert") != 0)
        return tern_fail(err, TERN_UNSUPPORTED, "shardingStrategy: \"%s\" found, \"expert\" expected",
                         tern_show_z(strategy).text);
    if (n < 1 || n > TERN_MANIFEST_MAX_EXPERTS)
        return tern_fail(err, TERN_MALFORMED, "moeConfig.numExperts: %lld found, 1 to %d expected", (long long)n,
                         TERN_MANIFEST_MAX_EXPERTS);
    if (used < 1 || used > n)
        return tern_fail(err, TERN_MALFORMED, "moeConfig.numExpertsPerTok: %lld found, 1 to %lld expected",
                         (long long)used, (long long)n);
    if (layers < 1 || layers * n > TERN_MANIFEST_MAX_SHARDS)
        return tern_fail(err, TERN_LIMIT, "inference.layers: %lld of %lld experts found, 1 to %d expected",
                         (long long)layers, (long long)n, TERN_MANIFEST_MAX_SHARDS);
    m->n_experts = (uint32_t)n;
    r->n_layers = (uint32_t)layers;
    r->map = json_object_get(moe, "expertShardMap");
    return TERN_OK;
}

/* "3_11": layer and expert, without zeros in front. */
static bool read_key(const reading *r, const char *key, uint32_t *layer, uint32_t *expert)
{
    char again[48];
    const char *between = key ? strchr(key, '_') : NULL;
    if (!between) return false;
    const unsigned long l = strtoul(key, NULL, 10), e = strtoul(between + 1, NULL, 10);
    snprintf(again, sizeof again, "%lu_%lu", l, e);
    if (strcmp(again, key) != 0 || l >= r->n_layers || e >= r->manifest->n_experts) return false;
    *layer = (uint32_t)l;
    *expert = (uint32_t)e;
    return true;
}

static tern_status take_key(reading *r, size_t i, const json_t *v, tern_error *err)
{
    tern_manifest_shard *s = &r->manifest->shards[i];
    const char *key = json_string_value(json_object_get(v, "expertKey"));
    int64_t place = -1;
    if (!read_key(r, key, &s->layer, &s->expert))
        return tern_fail(err, TERN_MALFORMED,
                         "shards[%zu].expertKey: %s found, \"layer_expert\" of %u layers and %u experts expected", i,
                         key ? tern_show_z(key).text : tern_json_kind(json_object_get(v, "expertKey")), r->n_layers,
                         r->manifest->n_experts);
    bool *seen = &r->seen[(size_t)s->layer * r->manifest->n_experts + s->expert];
    if (*seen) return tern_fail(err, TERN_MALFORMED, "shards[%zu].expertKey: %s found a second time", i, key);
    *seen = true;
    r->n_seen++;
    if (tern_json_int(json_object_get(r->map, key), &place) && place == (int64_t)i) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "moeConfig.expertShardMap.%s: %lld found, %zu expected", key,
                     (long long)place, i);
}

static tern_status take_type(reading *r, size_t i, const json_t *v, tern_error *err)
{
    const tern_manifest_shard *s = &r->manifest->shards[i];
    const char *type = json_string_value(json_object_get(v, "type"));
    if (type && strcmp(type, "expert") == 0) return take_key(r, i, v, err);
    if (!type || strcmp(type, "dense") != 0)
        return tern_fail(err, TERN_MALFORMED, "shards[%zu].type: %s found, \"dense\" or \"expert\" expected", i,
                         type ? tern_show_z(type).text : tern_json_kind(json_object_get(v, "type")));
    if (s->bytes <= r->manifest->shard_bytes) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "shards[%zu].bytes: %zu found, at most %llu (shard_bytes) expected", i,
                     s->bytes, (unsigned long long)r->manifest->shard_bytes);
}

/* [[offset, bytes], ...]: they fill the shard, in this order. */
static tern_status take_ranges(reading *r, size_t i, const json_t *list, tern_error *err)
{
    tern_manifest *m = r->manifest;
    size_t at = 0;
    for (size_t k = 0; k < json_array_size(list); k++) {
        const json_t *pair = json_array_get(list, k);
        int64_t offset = -1, bytes = 0;
        if (json_array_size(pair) != 2 || !tern_json_int(json_array_get(pair, 0), &offset) ||
            !tern_json_int(json_array_get(pair, 1), &bytes) || offset < 0 || bytes < 1 ||
            (uint64_t)bytes > m->shards[i].bytes - at || (uint64_t)offset > m->bytes ||
            (uint64_t)bytes > m->bytes - (uint64_t)offset)
            return tern_fail(err, TERN_MALFORMED,
                             "shards[%zu].ranges[%zu]: %lld bytes at %lld found, some of the file's %llu and of the "
                             "shard's %zu expected",
                             i, k, (long long)bytes, (long long)offset, (unsigned long long)m->bytes,
                             m->shards[i].bytes);
        const tern_manifest_range range = {.offset = (uint64_t)offset, .bytes = (size_t)bytes, .shard = i, .at = at};
        TERN_TRY(tern_manifest__add_range(m, &r->cap, &range, err));
        at += (size_t)bytes;
    }
    if (at == m->shards[i].bytes) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "shards[%zu].ranges: %zu bytes found, the shard's %zu expected", i, at,
                     m->shards[i].bytes);
}

static tern_status read_all(reading *r, tern_error *err)
{
    tern_manifest *m = r->manifest;
    const json_t *list = json_object_get(m->root, "shards");
    const size_t n = (size_t)r->n_layers * m->n_experts;
    r->seen = tern_calloc(n, sizeof *r->seen);
    if (!r->seen) return tern_fail_alloc(err, n);
    for (size_t i = 0; i < m->n_shards; i++) {
        const json_t *v = json_array_get(list, i);
        TERN_TRY(take_type(r, i, v, err));
        TERN_TRY(take_ranges(r, i, json_object_get(v, "ranges"), err));
    }
    if (r->n_seen != n)
        return tern_fail(err, TERN_MALFORMED, "shards: %zu of experts found, %zu expected", r->n_seen, n);
    if (json_object_size(r->map) == n) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "moeConfig.expertShardMap: %zu members found, %zu expected",
                     json_object_size(r->map), n);
}

tern_status tern_manifest__read_experts(tern_manifest *m, tern_error *err)
{
    reading r = {.manifest = m};
    TERN_TRY(read_counts(&r, err));
    const tern_status status = read_all(&r, err);
    tern_free(r.seen);
    return status;
}
