/* Log-probabilities in llama.cpp's file. */
#include "apps/eval/kl_base.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

static const char magic[] = "_logits_";
enum { MAGIC_BYTES = 8 };
static const float depth = 16; /* of the lowest code below the highest logit */

static tern_status check_head(const tern_kl_base *b, tern_error *err)
{
    if (b->window < 4 || b->window > TERN_KL_MAX_WINDOW)
        return tern_fail(err, TERN_MALFORMED, "windows of %u tokens, 4 to %d expected", b->window, TERN_KL_MAX_WINDOW);
    if (b->n_vocab < 1 || b->n_vocab > INT32_MAX || b->n_windows < 1 || b->n_windows > INT32_MAX)
        return tern_fail(err, TERN_MALFORMED, "%u windows of a vocabulary of %u found, at least one of each expected",
                         b->n_windows, b->n_vocab);
    return TERN_OK;
}

static tern_status check_ids(const tern_kl_base *b, tern_error *err)
{
    for (size_t i = 0; i < (size_t)b->n_windows * b->window; i++) {
        const uint32_t id = tern_load_u32(b->ids + 4 * i);
        if (id >= b->n_vocab)
            return tern_fail(err, TERN_MALFORMED, "token %zu: id %d found, 0 to %u expected", i, (int32_t)id,
                             b->n_vocab - 1);
    }
    return TERN_OK;
}

static tern_status check_rows(const tern_kl_base *b, tern_error *err)
{
    const size_t bytes = tern_kl_row_bytes(b->n_vocab), n = (size_t)b->n_windows * tern_kl_rows(b->window);
    for (size_t i = 0; i < n; i++) {
        const float scale = tern_load_f32(b->rows + i * bytes), lowest = tern_load_f32(b->rows + i * bytes + 4);
        /* The highest is the logarithm of a share, except for rounding. */
        if (!(scale >= 0 && isfinite(lowest) && 65535.0f * scale + lowest <= 0.01f))
            return tern_fail(err, TERN_MALFORMED, "row %zu: steps of %g from %g found, log-probabilities expected", i,
                             (double)scale, (double)lowest);
    }
    return TERN_OK;
}

tern_status tern_kl_base_read(tern_kl_base *base, const void *data, size_t size, tern_error *err)
{
    tern_cursor c = tern_cursor_open(data, size);
    tern_kl_base b = {0};
    const uint8_t *found = tern_cursor_take(&c, MAGIC_BYTES);
    if (!found || memcmp(found, magic, MAGIC_BYTES) != 0)
        return tern_fail(err, TERN_MALFORMED, "no file of log-probabilities: \"%s\" expected first", magic);
    b.window = tern_cursor_u32(&c);
    b.n_vocab = tern_cursor_u32(&c);
    b.n_windows = tern_cursor_u32(&c);
    if (c.bad) return tern_fail(err, TERN_MALFORMED, "%zu bytes: a head of %d expected", size, TERN_KL_HEAD_BYTES);
    TERN_TRY(check_head(&b, err));
    /* Below 2^31 * 2^22 and 2^31 * 2^20 * 2^33: the second is looked at a window at a time. */
    b.ids = tern_cursor_take(&c, (uint64_t)b.n_windows * b.window * 4);
    const uint64_t per_window = (uint64_t)tern_kl_rows(b.window) * tern_kl_row_bytes(b.n_vocab);
    if (!b.ids || tern_cursor_left(&c) / per_window < b.n_windows)
        return tern_fail(err, TERN_MALFORMED,
                         "%zu bytes: too short for %u windows of %u tokens and a vocabulary of %u; a whole file "
                         "expected",
                         size, b.n_windows, b.window, b.n_vocab);
    b.rows = tern_cursor_take(&c, per_window * b.n_windows);
    TERN_TRY(check_ids(&b, err));
    TERN_TRY(check_rows(&b, err));
    *base = b;
    return TERN_OK;
}

void tern_kl_base_ids(const tern_kl_base *base, uint32_t number, int32_t *out)
{
    const uint8_t *at = base->ids + (size_t)number * base->window * 4;
    for (uint32_t i = 0; i < base->window; i++) out[i] = (int32_t)tern_load_u32(at + 4 * (size_t)i);
}

const uint8_t *tern_kl_base_row(const tern_kl_base *base, uint32_t window, uint32_t row)
{
    return base->rows + ((size_t)window * tern_kl_rows(base->window) + row) * tern_kl_row_bytes(base->n_vocab);
}

void tern_kl_base_head(const tern_kl_base *base, uint8_t out[TERN_KL_HEAD_BYTES])
{
    memcpy(out, magic, MAGIC_BYTES);
    tern_store_u32(out + 8, base->window);
    tern_store_u32(out + 12, base->n_vocab);
    tern_store_u32(out + 16, base->n_windows);
}

double tern_kl_encode(const float *logits, uint32_t n_vocab, uint8_t *out)
{
    float highest = logits[0], lowest = logits[0];
    double sum = 0;
    for (uint32_t i = 1; i < n_vocab; i++) {
        highest = fmaxf(highest, logits[i]);
        lowest = fminf(lowest, logits[i]);
    }
    lowest = fmaxf(lowest, highest - depth);
    for (uint32_t i = 0; i < n_vocab; i++) sum += exp((double)logits[i] - (double)highest);
    const float scale = (highest - lowest) / 65535.0f;
    tern_store_f32(out, scale);
    const double log_sum = (double)highest + log(sum);
    tern_store_f32(out + 4, (float)((double)lowest - log_sum));
    memset(out + 8, 0, tern_kl_row_bytes(n_vocab) - 8);
    for (uint32_t i = 0; scale > 0 && i < n_vocab; i++)
        if (logits[i] > lowest)
            tern_store_u16(out + 8 + 2 * (size_t)i, (uint16_t)fminf(65535, rintf((logits[i] - lowest) / scale)));
    return log_sum;
}
