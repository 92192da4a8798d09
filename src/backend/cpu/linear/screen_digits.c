/* A token of the screened head: its activations as two int8 digits. */
#include <string.h>

#include "backend/cpu/linear/screen_internal.h"

/* ---- the digits of a screen_token */

static float root_up(double squares)
{
    return nextafterf((float)(sqrt(squares) * (1 + 1e-9)), INFINITY);
}

/* x as two int8 digits of one scale; the error of that is kept. */
static void split(screen_token *k, uint32_t cols)
{
    float most = 0;
    for (uint32_t c = 0; c < cols; c++) most = fmaxf(most, fabsf(k->x[c]));
    double inverse = most > 0 ? 32512.0 / (double)most : 0, norm = 0, error = 0, high_error = 0;
    int64_t sum = 0, high_sum = 0;
    k->scale = most / 32512.0f;
    for (uint32_t c = 0; c < cols; c++) {
        int32_t v = (int32_t)rint((double)k->x[c] * inverse);
        int32_t high = (v + 128) >> 8;
        k->high[c] = (int8_t)high;
        k->low[c] = (int8_t)(v - high * 256);
        sum += v;
        high_sum += high;
        const double e = (double)k->x[c] - (double)v * (double)k->scale,
                     h = (double)k->x[c] - (double)high * 256 * (double)k->scale;
        norm += (double)k->x[c] * (double)k->x[c];
        error += e * e;
        high_error += h * h;
    }
    k->sum = (float)sum;
    k->high_sum = (float)high_sum * 256;
    k->norm = root_up(norm);
    k->missed = root_up(error);
    k->high_missed = root_up(high_error);
}

static bool all_finite(const float *x, uint32_t n)
{
    float sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += x[i] * 0.0f;
    return sum == 0;
}

void tern_screen__begin(screen_token *k, const tern_screen *s, const float *x, float *logits, uint8_t *memory)
{
    const size_t digits = (size_t)s->halves * TERN_SCREEN_HALF;
    *k = (screen_token){.x = x,
                        .logits = logits,
                        .high = (int8_t *)memory,
                        .low = (int8_t *)memory + digits,
                        .best = (screen_estimate *)(void *)(memory + 2 * digits),
                        .threshold = -INFINITY,
                        .whole = !all_finite(x, s->cols)};
    memset(k->high, 0, 2 * digits);
    if (!k->whole) split(k, s->cols);
}
