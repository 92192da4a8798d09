/* rank_pattern and alpha_pattern of PEFT: ranks and alphas of the modules whose names match. An adapter in memory has
 * one rank and one scale: narrower pairs get zeros, other scales become a factor of B. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <math.h>
#include <pcre2.h>
#include <string.h>

#include "base/show.h"
#include "model/adapter/internal.h"

enum { MAX_PATTERNS = 4096, MAX_STEPS = 20000, MAX_SPREAD = 64 };

typedef tern_status (*set_value)(tern_adapter_half *half, const json_t *value, tern_error *err);

static tern_status set_rank(tern_adapter_half *half, const json_t *value, tern_error *err)
{
    int64_t rank;
    if (half->rank) return TERN_OK;
    if (!tern_json_int(value, &rank) || rank < 1 || rank > TERN_ADAPTER_MAX_RANK)
        return tern_fail(err, TERN_MALFORMED, "rank_pattern: %s found for %s, a rank from 1 to %d expected",
                         tern_json_kind(value), tern_show(half->module).text, TERN_ADAPTER_MAX_RANK);
    half->rank = (uint32_t)rank;
    return TERN_OK;
}

static tern_status set_alpha(tern_adapter_half *half, const json_t *value, tern_error *err)
{
    const float alpha = (float)json_number_value(value);
    if (half->alpha != 0.0f) return TERN_OK;
    if (!isfinite(alpha) || alpha == 0.0f)
        return tern_fail(err, TERN_MALFORMED, "alpha_pattern: %s found for %s, a finite number other than 0 expected",
                         tern_json_kind(value), tern_show(half->module).text);
    half->alpha = alpha;
    return TERN_OK;
}

static tern_status compile(pcre2_code **code, const char *key, const char *pattern, tern_error *err)
{
    tern_buf text = {0};
    int why;
    PCRE2_SIZE at;
    TERN_TRY(tern_buf_addf(&text, err, "^(?:.*\\.)?(?:%s)$", pattern));
    *code = pcre2_compile((PCRE2_SPTR)text.data, text.size, PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &why, &at, NULL);
    tern_buf_deinit(&text);
    if (*code) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "%s: \"%s\" is not a regular expression", key, tern_show_z(pattern).text);
}

/* Sets the value of every half whose module the pattern matches and that no pattern before it did (PEFT,
 * utils/other.py, get_pattern_key). */
static tern_status apply(const char *key, const char *pattern, const json_t *value, tern_adapter_half *halves, size_t n,
                         set_value set, tern_error *err)
{
    pcre2_code *code;
    TERN_TRY(compile(&code, key, pattern, err));
    tern_status status = TERN_OK;
    pcre2_match_data *found = pcre2_match_data_create(1, NULL);
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    if (!found || !limits) status = tern_fail_alloc(err, sizeof(void *));
    else pcre2_set_match_limit(limits, MAX_STEPS);
    for (size_t i = 0; i < n && status == TERN_OK; i++) {
        const int matched = pcre2_match(code, halves[i].module.data, halves[i].module.size, 0, 0, found, limits);
        if (matched >= 0) status = set(&halves[i], value, err);
        else if (matched != PCRE2_ERROR_NOMATCH)
            status = tern_fail(err, TERN_LIMIT, "%s: \"%s\" takes too long to match", key, tern_show_z(pattern).text);
    }
    pcre2_match_context_free(limits);
    pcre2_match_data_free(found);
    pcre2_code_free(code);
    return status;
}

static tern_status apply_all(const json_t *root, const char *key, tern_adapter_half *halves, size_t n, set_value set,
                             tern_error *err)
{
    const json_t *patterns = NULL;
    const char *pattern;
    json_t *value;
    TERN_TRY_OPTIONAL(tern_json_get_object(root, key, &patterns, err));
    if (json_object_size(patterns) > MAX_PATTERNS)
        return tern_fail(err, TERN_LIMIT, "%s: %zu patterns found, at most %d expected", key,
                         json_object_size(patterns), MAX_PATTERNS);
    if (patterns)
        json_object_foreach((json_t *)(uintptr_t)patterns, pattern, value)
            TERN_TRY(apply(key, pattern, value, halves, n, set, err));
    return TERN_OK;
}

/* The widest pair's rank is the adapter's. */
static tern_status set_widest(tern_adapter_info *info, tern_adapter_half *halves, size_t n, tern_error *err)
{
    uint32_t least = TERN_ADAPTER_MAX_RANK, most = 0;
    for (size_t i = 0; i < n; i++) {
        if (!halves[i].rank) halves[i].rank = info->rank;
        if (halves[i].rank < least) least = halves[i].rank;
        if (halves[i].rank > most) most = halves[i].rank;
    }
    if (most > MAX_SPREAD * least)
        return tern_fail(err, TERN_LIMIT, "rank_pattern: ranks from %u to %u found, at most %d times as large expected",
                         least, most, MAX_SPREAD);
    if (n) info->rank = most;
    return tern_adapter__check_info(info, err);
}

static float scale_of(const tern_adapter_info *info, const tern_adapter_half *h)
{
    const float rank = (float)h->rank, alpha = h->alpha != 0.0f ? h->alpha : info->alpha;
    return alpha / (info->rslora ? sqrtf(rank) : rank);
}

tern_status tern_adapter__apply_patterns(tern_adapter_info *info, const json_t *root, tern_adapter_half *halves,
                                         size_t n, tern_error *err)
{
    TERN_TRY(apply_all(root, "rank_pattern", halves, n, set_rank, err));
    TERN_TRY(apply_all(root, "alpha_pattern", halves, n, set_alpha, err));
    TERN_TRY(set_widest(info, halves, n, err));
    for (size_t i = 0; i < n; i++) halves[i].factor = scale_of(info, &halves[i]) / info->scale;
    return TERN_OK;
}
