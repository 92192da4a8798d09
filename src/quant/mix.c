/* The names of mixes, and what stands in for an encoding whose blocks do not fit. */
#include "quant/mix.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "quant/encoding.h"

static const tern_mix mixes[TERN_MIXES] = {
#define TERN_MIX_ROW(name, file_type, encoding) {#name, TERN_MIX_##name, file_type, TERN_ENC_##encoding},
    TERN_MIX_LIST(TERN_MIX_ROW)
#undef TERN_MIX_ROW
};

const tern_mix *tern_mix_by_name(const char *name)
{
    for (size_t i = 0; i < TERN_MIXES; i++)
        if (strcasecmp(mixes[i].name, name) == 0) return &mixes[i];
    return NULL;
}

tern_status tern_type_parse(const char *what, const char *name, const tern_encoding **encoding, const tern_mix **mix,
                            tern_error *err)
{
    *encoding = NULL;
    *mix = name ? tern_mix_by_name(name) : NULL;
    if (*mix) *encoding = tern_encoding_find((*mix)->encoding);
    if (*mix || tern_encoding_parse(what, name, encoding, err) == TERN_OK) return TERN_OK;
    const size_t n = err ? strlen(err->message) : 0;
    if (err) snprintf(err->message + n, sizeof err->message - n, ", or of the mixes " TERN_MIX_NAMES);
    return TERN_INVALID_ARGUMENT;
}

/* Source: llama.cpp's src/llama-quant.cpp, tensor_type_fallback; f16 fits any shape. */
static const struct {
    tern_encoding_id encoding, sibling;
} siblings[] = {
    {TERN_ENC_Q2_K, TERN_ENC_Q4_0}, {TERN_ENC_Q3_K, TERN_ENC_Q4_0}, {TERN_ENC_Q4_K, TERN_ENC_Q5_0},
    {TERN_ENC_Q5_K, TERN_ENC_Q5_1}, {TERN_ENC_Q6_K, TERN_ENC_Q8_0},
};

static bool fits(const tern_encoding *e, uint64_t cols)
{
    return e->linear || e->ragged || cols % e->block_elements == 0;
}

const tern_encoding *tern_encoding_fitting(const tern_encoding *e, uint64_t cols)
{
    if (e->ternary || fits(e, cols)) return e;
    for (size_t i = 0; i < sizeof siblings / sizeof *siblings; i++) {
        const tern_encoding *s = tern_encoding_find(siblings[i].sibling);
        if (siblings[i].encoding == e->id && fits(s, cols)) return s;
    }
    return tern_encoding_find(TERN_ENC_F16);
}
