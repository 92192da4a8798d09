/* CPU features by name: parsing the user's list, printing the machine's. */
#include "base/cpu.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct feature_row {
    const char *name;
    uint32_t bit;
    uint32_t needs; /* the level below; the files of a level are compiled with it */
} feature_row;

enum {
    NEEDS_SSE41 = 0,
    NEEDS_AVX2 = TERN_CPU_SSE41,
    NEEDS_AVX_VNNI = TERN_CPU_AVX2,
    NEEDS_AVX512 = TERN_CPU_AVX2,
    NEEDS_AVX512_VNNI = TERN_CPU_AVX512,
    NEEDS_AVX512_VBMI = TERN_CPU_AVX512_VNNI,
    NEEDS_AMX_INT8 = TERN_CPU_AVX512_VBMI,
    NEEDS_NEON = 0,
    NEEDS_NEON_DOTPROD = TERN_CPU_NEON,
    NEEDS_SIMD128 = 0,
    NEEDS_NEON_I8MM = TERN_CPU_NEON_DOTPROD,
};

/* From low to high, so that one pass sees a level after all that it needs. */
static const feature_row rows[] = {
#define TERN_CPU_ROW(name, bit, words) {words, 1u << (bit), NEEDS_##name},
    TERN_CPU_FEATURE_LIST(TERN_CPU_ROW)
#undef TERN_CPU_ROW
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static const feature_row *row_named(const char *name, size_t length)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (strlen(rows[i].name) == length && memcmp(rows[i].name, name, length) == 0) return &rows[i];
    return NULL;
}

/* Without the features whose lower level is missing. */
static uint32_t usable(uint32_t features)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i].needs & ~features) features &= ~rows[i].bit;
    return features;
}

static tern_status fail_name(tern_error *err, const char *name, size_t length)
{
    char all[128];
    tern_cpu_features_print(UINT32_MAX, all, sizeof all);
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "CPU feature \"%.*s\" is unknown, expected native, scalar or one of %s", (int)length, name, all);
}

/* A level keeps what it needs and what this machine has below it. */
static tern_status parse_level(const char *name, uint32_t native, uint32_t *features, tern_error *err)
{
    const feature_row *row = row_named(name, strlen(name));
    if (!row) return fail_name(err, name, strlen(name));
    uint32_t kept = native & (row->bit | (row->bit - 1));
    if (!(usable(kept) & row->bit)) {
        char have[128];
        tern_cpu_features_print(native, have, sizeof have);
        return tern_fail(err, TERN_INVALID_ARGUMENT, "CPU feature %s: this CPU has only %s", name, have);
    }
    *features = usable(kept);
    return TERN_OK;
}

static tern_status parse_removals(const char *text, uint32_t native, uint32_t *features, tern_error *err)
{
    uint32_t kept = native;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        const feature_row *row = *at == '-' ? row_named(at + 1, length - 1) : NULL;
        if (!row && *at == '-') return fail_name(err, at + 1, length - 1);
        if (!row)
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "CPU features \"%s\": found \"%.*s\" in a list, expected \"-name\"", text, (int)length,
                             at);
        kept &= ~row->bit;
        at += length;
        if (*at == 0) break;
    }
    *features = usable(kept);
    return TERN_OK;
}

tern_status tern_cpu_features_parse(const char *text, uint32_t native, uint32_t *features, tern_error *err)
{
    if (strchr(text, ',') || *text == '-') return parse_removals(text, native, features, err);
    bool is_native = strcmp(text, "native") == 0;
    if (!is_native && strcmp(text, "scalar") != 0) return parse_level(text, native, features, err);
    *features = is_native ? native : 0;
    return TERN_OK;
}

void tern_cpu_features_print(uint32_t features, char *out, uint32_t out_bytes)
{
    size_t at = 0;
    if (out_bytes == 0) return;
    snprintf(out, out_bytes, "scalar");
    for (size_t i = 0; i < N_ROWS && at < out_bytes; i++)
        if (features & rows[i].bit)
            at += (size_t)snprintf(out + at, out_bytes - at, "%s%s", at ? " " : "", rows[i].name);
}
