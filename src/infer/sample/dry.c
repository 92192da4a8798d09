/* DRY: the longest repetition that each token would go on with, and its price. */
#include "infer/sample/dry.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "infer/sample/internal.h"
#include "text/tokenizer/tokenizer.h"

static const char *const usual_breakers[] = {"\n", ":", "\"", "*"};
static const double MOST = 1e30; /* bans a token, and stays finite */

static bool bit_at(const uint32_t *bits, int32_t id)
{
    return bits[id / 32] >> id % 32 & 1;
}

static bool has_breaker(const tern_dry *d, tern_span text, const bool starts[256])
{
    for (size_t i = 0; i < text.size; i++) {
        if (!starts[text.data[i]]) continue;
        for (uint32_t b = 0; b < d->n_breakers; b++) {
            const size_t n = strlen(d->breakers[b]);
            if (n <= text.size - i && memcmp(text.data + i, d->breakers[b], n) == 0) return true;
        }
    }
    return false;
}

static void find_breaks(tern_dry *d, uint32_t n_vocab)
{
    bool starts[256] = {false};
    for (uint32_t b = 0; b < d->n_breakers; b++) {
        starts[(unsigned char)d->breakers[b][0]] = true;
        d->has_long_breakers |= d->breakers[b][1] != 0;
    }
    for (uint32_t id = 0; id < n_vocab; id++)
        if (has_breaker(d, tern_token_bytes(d->tokenizer, (int32_t)id, true), starts))
            d->breaks[id / 32] |= 1u << id % 32;
}

tern_status tern_dry_init(tern_dry *d, const tern_sampler_model *model, const tern_sampler_chain *chain,
                          tern_error *err)
{
    const bool usual = !chain->dry_breakers;
    *d = (tern_dry){.multiplier = chain->dry_multiplier,
                    .base = chain->dry_base,
                    .allowed_length = chain->dry_allowed_length,
                    .window = chain->dry_last_n && chain->dry_last_n < model->n_ctx ? chain->dry_last_n : model->n_ctx,
                    .tokenizer = model->tokenizer,
                    .breakers = usual ? usual_breakers : chain->dry_breakers,
                    .n_breakers = usual ? sizeof usual_breakers / sizeof *usual_breakers : chain->n_dry_breakers};
    d->matches = tern_calloc((size_t)d->window + 1, sizeof *d->matches);
    d->lengths = tern_calloc(model->n_vocab, sizeof *d->lengths);
    d->breaks = tern_calloc(model->n_vocab / 32 + 1, sizeof *d->breaks);
    if (!d->matches || !d->lengths || !d->breaks)
        return tern_fail_alloc(err, ((uint64_t)d->window + model->n_vocab) * sizeof(uint32_t));
    if (model->tokenizer) find_breaks(d, model->n_vocab);
    return TERN_OK;
}

void tern_dry_deinit(tern_dry *d)
{
    tern_free(d->matches);
    tern_free(d->lengths);
    tern_free(d->breaks);
    *d = (tern_dry){0};
}

/* The last bytes of the tokens before history[i], at most TERN_SAMPLER_MAX_BREAKER_BYTES: *n of them. */
static void text_before(const tern_dry *d, const int32_t *history, uint32_t i,
                        uint8_t text[TERN_SAMPLER_MAX_BREAKER_BYTES], size_t *n)
{
    size_t at = TERN_SAMPLER_MAX_BREAKER_BYTES;
    while (i > 0 && at > 0) {
        const tern_span t = tern_token_bytes(d->tokenizer, history[--i], true);
        const size_t taken = t.size < at ? t.size : at;
        if (taken) memcpy(text + at - taken, t.data + t.size - taken, taken);
        at -= taken;
    }
    *n = TERN_SAMPLER_MAX_BREAKER_BYTES - at;
    memmove(text, text + at, *n);
}

/* Whether a breaker begins in the text before and ends in the token. */
static bool crosses(const char *breaker, const uint8_t *before, size_t n_before, tern_span token)
{
    const size_t n = strlen(breaker);
    for (size_t k = 1; k < n && k <= n_before; k++)
        if (n - k <= token.size && memcmp(before + n_before - k, breaker, k) == 0 &&
            memcmp(token.data, breaker + k, n - k) == 0)
            return true;
    return false;
}

static bool ends_breaker(const tern_dry *d, const int32_t *history, uint32_t i)
{
    uint8_t before[TERN_SAMPLER_MAX_BREAKER_BYTES];
    size_t n_before;
    if (bit_at(d->breaks, history[i])) return true;
    if (!d->has_long_breakers) return false;
    text_before(d, history, i, before, &n_before);
    const tern_span token = tern_token_bytes(d->tokenizer, history[i], true);
    for (uint32_t b = 0; b < d->n_breakers; b++)
        if (crosses(d->breakers[b], before, n_before, token)) return true;
    return false;
}

/* Tokens behind the last breaker, at most `window`. */
static uint32_t count_unbroken(const tern_dry *d, const int32_t *history, uint32_t n, uint32_t window)
{
    for (uint32_t i = 0; i < window; i++)
        if (ends_breaker(d, history, n - 1 - i)) return i;
    return window;
}

/* matches[i]: the tokens that the history has in common, from its end back and from i tokens before its end back. The
 * Z-function of the reversed text (Gusfield, "Algorithms on Strings, Trees and Sequences", 1997, section 1.4). */
static void match_suffixes(uint32_t *matches, const int32_t *history, uint32_t n, uint32_t window)
{
    const int32_t *end = history + n - 1; /* end[-i]: the reversed text */
    uint32_t left = 0, right = 0;         /* the match that reaches furthest back: [left, right) */
    for (uint32_t i = 1; i < window; i++) {
        uint32_t k = 0;
        if (i < right) k = matches[i - left] < right - i ? matches[i - left] : right - i;
        while (i + k < window && *(end - k) == *(end - i - k)) k++;
        matches[i] = k;
        if (i + k <= right) continue;
        left = i;
        right = i + k;
    }
}

/* By squaring: the same bits everywhere. */
static double power(double base, uint32_t n)
{
    double result = 1;
    for (; n && result < MOST; n /= 2) {
        if (n % 2) result *= base;
        base = base < MOST ? base * base : base;
    }
    return result;
}

static void subtract(const tern_dry *d, tern_candidates *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const uint32_t length = d->lengths[c->ids[i]];
        if (length < d->allowed_length || bit_at(d->breaks, c->ids[i])) continue;
        const double price = (double)d->multiplier * power((double)d->base, length - d->allowed_length);
        c->x[i] -= (float)(price < MOST ? price : MOST);
    }
}

/* A vocabulary's tokens alone are looked at: ids of the caller's history may be any. */
static uint32_t count_valid(const tern_dry *d, const int32_t *history, uint32_t n, uint32_t n_vocab)
{
    uint32_t i = 0;
    while (i < n && i < d->window && history[n - 1 - i] >= 0 && (uint32_t)history[n - 1 - i] < n_vocab) i++;
    return i;
}

void tern_dry_apply(tern_dry *d, tern_candidates *c, const int32_t *history, uint32_t n_history)
{
    const uint32_t window = count_valid(d, history, n_history, c->n_vocab);
    const uint32_t unbroken = window ? count_unbroken(d, history, n_history, window) : 0;
    if (unbroken < d->allowed_length || window <= d->allowed_length) return;
    match_suffixes(d->matches, history, n_history, window);
    for (uint32_t i = 1; i < window; i++) {
        const uint32_t length = d->matches[i] < unbroken ? d->matches[i] : unbroken;
        uint32_t *longest = &d->lengths[history[n_history - i]];
        if (length > *longest) *longest = length;
    }
    subtract(d, c);
    for (uint32_t i = 1; i < window; i++) d->lengths[history[n_history - i]] = 0;
}
