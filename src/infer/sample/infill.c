/* The sampler's step for the text of a gap. */
#include "infer/sample/infill.h"

#include <string.h>

#include "base/bytes.h"
#include "text/tokenizer/tokenizer.h"

/* Probabilities of at most TERN_INFILL_CANDIDATES candidates. */
typedef struct shares {
    double p[TERN_INFILL_CANDIDATES];
    bool end[TERN_INFILL_CANDIDATES];
} shares;

static void fill(shares *s, const tern_candidates *c, const tern_tokenizer *t)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->n; i++) sum += (double)c->weights[i];
    for (uint32_t i = 0; i < c->n; i++) {
        s->p[i] = (double)c->weights[i] / sum;
        s->end[i] = tern_token_is_end(t, c->ids[i]);
    }
}

/* The probability of all ends, or of all others. */
static double sum_of(const shares *s, uint32_t n, bool ends)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        if (s->end[i] == ends) sum += s->p[i];
    return sum;
}

/* Keeps ends, and others of at least `least`. Returns how many others. */
static uint32_t keep(tern_candidates *c, shares *s, double least)
{
    uint32_t kept = 0, others = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (!s->end[i] && s->p[i] < least) continue;
        others += !s->end[i];
        c->ids[kept] = c->ids[i];
        c->x[kept] = c->x[i];
        c->weights[kept] = c->weights[i];
        s->p[kept] = s->p[i];
        s->end[kept++] = s->end[i];
    }
    c->n = kept;
    return others;
}

static bool begins(tern_span text, tern_span other)
{
    return text.size && text.size <= other.size && memcmp(text.data, other.data, text.size) == 0;
}

/* A token that another one took over has p 0, below any share that is kept. */
static void combine(shares *s, const tern_candidates *c, const tern_tokenizer *t)
{
    for (uint32_t i = 0; i < c->n; i++)
        for (uint32_t k = 0; k < c->n && s->p[i] > 0; k++) {
            if (i == k || !(s->p[k] > 0)) continue;
            if (!begins(tern_token_bytes(t, c->ids[i], false), tern_token_bytes(t, c->ids[k], false))) continue;
            const uint32_t to = s->p[k] > s->p[i] ? k : i, from = to == i ? k : i;
            s->p[to] += s->p[from];
            s->p[from] = 0;
        }
}

/* The text ends here: no end need be among the candidates. */
static void keep_end(tern_candidates *c, const tern_tokenizer *t)
{
    size_t n;
    const int32_t *ends = tern_tokenizer_ends(t, &n);
    c->n = 1;
    if (n == 0) return; /* the first that was there */
    c->ids[0] = ends[0];
    c->x[0] = 0;
    c->weights[0] = 1;
}

void tern_infill_apply(tern_candidates *c, const tern_tokenizer *t)
{
    shares s;
    fill(&s, c, t);
    if (3 * c->n * sum_of(&s, c->n, true) > sum_of(&s, c->n, false)) {
        keep(c, &s, 2); /* more than any probability */
        return;
    }
    combine(&s, c, t);
    const uint32_t others = keep(c, &s, 0.2);
    if (others) {
        double sum = 0;
        for (uint32_t i = 0; i < c->n; i++) sum += s.p[i];
        keep(c, &s, sum / (others + 1));
    } else {
        keep_end(c, t);
    }
}
