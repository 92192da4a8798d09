/* How many tokens of prompts a step takes beside those that decode. */
#include "infer/batch/pace.h"

#include "base/alloc.h"

enum { FORGOTTEN = 128 /* steps after which a number of rows that took too long may be tried again */ };

static const double most = 2;       /* times what decoding alone takes */
static const double expected = 0.9; /* of the time that a step may take, where nothing is known of so many rows */

tern_status tern_pace_init(tern_pace *pace, uint32_t n_batch, double most_ms, tern_error *err)
{
    *pace = (tern_pace){.n_batch = n_batch, .most_ms = most_ms};
    pace->decode_ms = tern_calloc((size_t)n_batch + 1, sizeof *pace->decode_ms);
    pace->mixed = tern_calloc((size_t)n_batch + 1, sizeof *pace->mixed);
    if (pace->decode_ms && pace->mixed) return TERN_OK;
    tern_pace_deinit(pace);
    return tern_fail_alloc(err, ((uint64_t)n_batch + 1) * sizeof *pace->mixed);
}

void tern_pace_deinit(tern_pace *pace)
{
    tern_free(pace->decode_ms);
    tern_free(pace->mixed);
    *pace = (tern_pace){0};
}

/* The time of as many rows, else of the next fewer, else of the next more; 0: nothing is known. */
static double decode_ms(const tern_pace *p, uint32_t n)
{
    for (uint32_t i = n; i > 0; i--)
        if (p->decode_ms[i] > 0) return p->decode_ms[i];
    for (uint32_t i = n + 1; i <= p->n_batch; i++)
        if (p->decode_ms[i] > 0) return p->decode_ms[i];
    return 0;
}

static double cost_of(const tern_pace_cost *c)
{
    return c->ms[1] > 0 && c->ms[1] < c->ms[0] ? c->ms[1] : c->ms[0];
}

uint32_t tern_pace_chunk(const tern_pace *p, uint32_t n_decoding)
{
    const double limit = p->most_ms > 0 ? p->most_ms : most * decode_ms(p, n_decoding);
    uint32_t good = n_decoding, bad = p->n_batch + 1;
    for (uint32_t n = n_decoding + 1; limit > 0 && n < bad; n++) {
        const tern_pace_cost *c = &p->mixed[n];
        if (!(c->ms[0] > 0)) continue;
        if (cost_of(c) <= limit) good = n;
        else if (p->n_steps - c->step < FORGOTTEN) bad = n;
    }
    uint32_t next = good == n_decoding ? 2 * n_decoding : good + 1 + (good - n_decoding) / 4;
    if (next >= bad) next = good == n_decoding ? good + (bad - good) / 2 : bad - 1;
    if (good > n_decoding) {
        const double fits = good * expected * limit / cost_of(&p->mixed[good]);
        if (fits < next) next = fits > good ? (uint32_t)fits : good;
    }
    return next > n_decoding ? next - n_decoding : 1;
}

void tern_pace_learn(tern_pace *p, uint32_t n_decoding, uint32_t n_prompt, double ms)
{
    const uint32_t n = n_decoding + n_prompt;
    if (!n_decoding || n > p->n_batch) return;
    p->n_steps++;
    if (!n_prompt) {
        p->decode_ms[n] = p->decode_ms[n] > 0 ? 0.7 * p->decode_ms[n] + 0.3 * ms : ms;
        return;
    }
    tern_pace_cost *c = &p->mixed[n];
    *c = (tern_pace_cost){.ms = {ms, c->ms[0]}, .step = p->n_steps};
}
