/* GGUF metadata values: checking them in the file, and typed getters. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "format/gguf_internal.h"

/* clang-format off */
static const struct {
    const char *name;
    size_t bytes;
} kinds[] = {
    {"u8", 1},  {"i8", 1},   {"u16", 2},    {"i16", 2},   {"u32", 4}, {"i32", 4}, {"f32", 4},
    {"bool", 1}, {"string", 0}, {"array", 0}, {"u64", 8}, {"i64", 8}, {"f64", 8},
};
/* clang-format on */

enum { N_KINDS = sizeof kinds / sizeof *kinds, STRING_HEADER_BYTES = 8, ARRAY_HEADER_BYTES = 12 };

const char *tern_gguf_kind_name(uint32_t kind)
{
    return kind < N_KINDS ? kinds[kind].name : "unknown";
}

size_t tern_gguf__kind_bytes(uint32_t kind)
{
    return kind < N_KINDS ? kinds[kind].bytes : 0;
}

static tern_status fail_end(const tern_cursor *c, uint64_t count, const char *what, tern_error *err)
{
    return tern_fail(err, TERN_MALFORMED, "%llu %s do not fit in the %llu bytes left", (unsigned long long)count, what,
                     (unsigned long long)tern_cursor_rest(c));
}

/* Bytes that the file has but that are not at hand. */
static tern_status fail_cut(tern_error *err)
{
    return tern_fail(err, TERN_MALFORMED, "value is cut short");
}

static tern_status skip_bools(tern_cursor *c, uint64_t count, tern_error *err)
{
    for (uint64_t i = 0; i < count; i++) {
        uint8_t v = tern_cursor_u8(c);
        if (v > 1) return tern_fail(err, TERN_MALFORMED, "bool is %u, 0 or 1 expected", v);
    }
    return c->bad ? fail_cut(err) : TERN_OK;
}

static tern_status skip_strings(tern_cursor *c, uint64_t count, tern_error *err)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bytes = tern_cursor_u64(c);
        if (c->bad) return tern_fail(err, TERN_MALFORMED, "string %llu is cut short", (unsigned long long)i);
        if (bytes > tern_cursor_rest(c))
            return tern_fail(err, TERN_MALFORMED, "string %llu of %llu bytes, %llu left", (unsigned long long)i,
                             (unsigned long long)bytes, (unsigned long long)tern_cursor_rest(c));
        tern_cursor_take(c, bytes);
        if (c->bad) return fail_cut(err);
    }
    return TERN_OK;
}

static tern_status skip_arrays(tern_cursor *c, uint64_t count, uint32_t depth, tern_error *err)
{
    if (depth >= TERN_GGUF_MAX_DEPTH)
        return tern_fail(err, TERN_LIMIT, "arrays nested deeper than %d", TERN_GGUF_MAX_DEPTH);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t element = tern_cursor_u32(c);
        uint64_t n = tern_cursor_u64(c);
        if (c->bad) return tern_fail(err, TERN_MALFORMED, "array is cut short");
        TERN_TRY(tern_gguf__skip_values(c, element, n, depth + 1, err));
    }
    return TERN_OK;
}

tern_status tern_gguf__skip_values(tern_cursor *c, uint32_t kind, uint64_t count, uint32_t depth, tern_error *err)
{
    if (kind >= N_KINDS) return tern_fail(err, TERN_MALFORMED, "kind %u, at most %d expected", kind, N_KINDS - 1);
    size_t least = kind == TERN_GGUF_STRING  ? STRING_HEADER_BYTES
                   : kind == TERN_GGUF_ARRAY ? ARRAY_HEADER_BYTES
                                             : kinds[kind].bytes;
    if (count > tern_cursor_rest(c) / least) return fail_end(c, count, kinds[kind].name, err);
    if (kind == TERN_GGUF_STRING) return skip_strings(c, count, err);
    if (kind == TERN_GGUF_ARRAY) return skip_arrays(c, count, depth, err);
    if (kind == TERN_GGUF_BOOL) return skip_bools(c, count, err);
    tern_cursor_take(c, count * least);
    return c->bad ? fail_cut(err) : TERN_OK;
}

/* A number of any integer kind; u64 values beyond i64 are false. */
static bool load_int(uint32_t kind, const uint8_t *p, int64_t *out)
{
    switch (kind) {
    case TERN_GGUF_U8:
    case TERN_GGUF_BOOL: *out = *p; return true;
    case TERN_GGUF_I8: *out = *p - (*p & 0x80) * 2; return true;
    case TERN_GGUF_U16: *out = tern_load_u16(p); return true;
    case TERN_GGUF_I16: *out = (int16_t)tern_load_u16(p); return true;
    case TERN_GGUF_U32: *out = tern_load_u32(p); return true;
    case TERN_GGUF_I32: *out = (int32_t)tern_load_u32(p); return true;
    case TERN_GGUF_U64:
    case TERN_GGUF_I64: *out = (int64_t)tern_load_u64(p); return kind == TERN_GGUF_I64 || *out >= 0;
    default: return false;
    }
}

static bool is_int(uint32_t kind)
{
    return kind <= TERN_GGUF_I32 || kind == TERN_GGUF_U64 || kind == TERN_GGUF_I64;
}

tern_status tern_gguf__alignment(const tern_gguf_kv *kv, size_t *alignment, tern_error *err)
{
    int64_t v;
    if (!is_int(kv->kind))
        return tern_fail(err, TERN_MALFORMED, TERN_GGUF_ALIGNMENT_KEY ": %s found, u32 expected",
                         tern_gguf_kind_name(kv->kind));
    if (!load_int(kv->kind, kv->value.data, &v)) v = INT64_MAX;
    if (v < 1 || v > TERN_GGUF_MAX_ALIGNMENT || (v & (v - 1)))
        return tern_fail(err, TERN_MALFORMED,
                         TERN_GGUF_ALIGNMENT_KEY ": %lld found, a power of two from 1 to %d expected", (long long)v,
                         TERN_GGUF_MAX_ALIGNMENT);
    *alignment = (size_t)v;
    return TERN_OK;
}

static tern_status find(const tern_gguf *g, const char *key, const tern_gguf_kv **kv, tern_error *err)
{
    *kv = tern_gguf_find(g, key);
    return *kv ? TERN_OK : tern_fail(err, TERN_NOT_FOUND, "%s: missing", key);
}

static tern_status fail_kind(const tern_gguf_kv *kv, const char *key, const char *expected, tern_error *err)
{
    bool array = kv->kind == TERN_GGUF_ARRAY;
    return tern_fail(err, TERN_MALFORMED, "%s: %s%s found, %s expected", key, array ? "array of " : "",
                     tern_gguf_kind_name(array ? kv->element : kv->kind), expected);
}

tern_status tern_gguf_get_u32(const tern_gguf *g, const char *key, uint32_t *out, tern_error *err)
{
    const tern_gguf_kv *kv = NULL;
    TERN_TRY(find(g, key, &kv, err));
    if (!is_int(kv->kind)) return fail_kind(kv, key, "u32", err);
    int64_t v = 0;
    if (!load_int(kv->kind, kv->value.data, &v))
        return tern_fail(err, TERN_MALFORMED, "%s: %llu found, 0 to %u expected", key,
                         (unsigned long long)tern_load_u64(kv->value.data), UINT32_MAX);
    if (v < 0 || v > UINT32_MAX)
        return tern_fail(err, TERN_MALFORMED, "%s: %lld found, 0 to %u expected", key, (long long)v, UINT32_MAX);
    *out = (uint32_t)v;
    return TERN_OK;
}

static bool load_number(const tern_gguf_kv *kv, double *out)
{
    if (kv->kind == TERN_GGUF_F32) {
        *out = tern_load_f32(kv->value.data);
        return true;
    }
    uint64_t bits;
    if (kv->kind == TERN_GGUF_F64) {
        bits = tern_load_u64(kv->value.data);
        memcpy(out, &bits, sizeof bits);
        return true;
    }
    int64_t v = 0;
    if (!is_int(kv->kind)) return false;
    *out = load_int(kv->kind, kv->value.data, &v) ? (double)v : (double)(uint64_t)v;
    return true;
}

tern_status tern_gguf_get_f32(const tern_gguf *g, const char *key, float *out, tern_error *err)
{
    const tern_gguf_kv *kv = NULL;
    TERN_TRY(find(g, key, &kv, err));
    double v;
    if (!load_number(kv, &v)) return fail_kind(kv, key, "f32", err);
    if (isfinite(v) && !isfinite((float)v))
        return tern_fail(err, TERN_MALFORMED, "%s: %g found, a 32-bit float expected", key, v);
    *out = (float)v;
    return TERN_OK;
}

tern_status tern_gguf_get_bool(const tern_gguf *g, const char *key, bool *out, tern_error *err)
{
    const tern_gguf_kv *kv = NULL;
    TERN_TRY(find(g, key, &kv, err));
    if (kv->kind != TERN_GGUF_BOOL) return fail_kind(kv, key, "bool", err);
    *out = kv->value.data[0] != 0;
    return TERN_OK;
}

tern_status tern_gguf_get_string(const tern_gguf *g, const char *key, tern_span *out, tern_error *err)
{
    const tern_gguf_kv *kv = NULL;
    TERN_TRY(find(g, key, &kv, err));
    if (kv->kind != TERN_GGUF_STRING) return fail_kind(kv, key, "string", err);
    *out = kv->value;
    return TERN_OK;
}

tern_status tern_gguf_get_array(const tern_gguf *g, const char *key, tern_gguf_kind element, const tern_gguf_kv **out,
                                tern_error *err)
{
    const tern_gguf_kv *kv = NULL;
    TERN_TRY(find(g, key, &kv, err));
    if (kv->kind != TERN_GGUF_ARRAY || kv->element != element) {
        char expected[32];
        snprintf(expected, sizeof expected, "array of %s", tern_gguf_kind_name(element));
        return fail_kind(kv, key, expected, err);
    }
    *out = kv;
    return TERN_OK;
}

tern_span tern_gguf_next_string(tern_cursor *c)
{
    uint64_t bytes = tern_cursor_u64(c);
    const uint8_t *data = tern_cursor_take(c, tern_size_of(bytes));
    return (tern_span){data, data ? (size_t)bytes : 0};
}

int64_t tern_gguf_array_int(const tern_gguf_kv *kv, uint64_t i)
{
    int64_t v = 0;
    size_t bytes = tern_gguf__kind_bytes(kv->element);
    if (kv->kind != TERN_GGUF_ARRAY || bytes == 0 || i >= kv->count) return 0;
    load_int(kv->element, kv->value.data + i * bytes, &v);
    return v;
}
