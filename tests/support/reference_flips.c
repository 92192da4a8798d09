/* Finding roundings that went the other way. */
#include "support/reference_flips.h"

#include <math.h>
#include <string.h>

/* Keeps the one flip that helps most; false when none does. */
static bool flip_best(ref_model *model, ref_error_fn error_of, void *context, double *error)
{
    ref_ties *ties = &model->ties;
    uint32_t n = ties->n, best = 0, found[REF_MAX_TIES];
    double least = *error;
    memcpy(found, ties->found, sizeof found);
    if (ties->n_flipped == REF_MAX_FLIPS) return false;
    for (uint32_t i = 0; i < n; i++) {
        ties->flipped[ties->n_flipped++] = found[i];
        double e = error_of(context);
        ties->n_flipped--;
        if (!(e < least)) continue;
        least = e;
        best = found[i];
    }
    bool helps = least < *error;
    if (helps) ties->flipped[ties->n_flipped++] = best;
    *error = error_of(context);
    return helps;
}

void ref_flip_towards(ref_model *model, float width, ref_error_fn error, void *context, double most)
{
    model->ties = (ref_ties){.width = width};
    double e = error(context);
    while (e > most && flip_best(model, error, context, &e)) continue;
}

/* Moves the element with this number to `margin` from its boundary, over it or away from it. */
static void nudge(ref_model *model, ref_nudges *nudges, uint32_t number, bool over)
{
    static const int norms[] = {REF_INPUT_NORM, REF_ATTN_SUB_NORM, REF_POST_NORM, REF_FFN_SUB_NORM};
    uint32_t site = number / (REF_TOKENS * REF_FFN), c = number % REF_FFN, i = 0;
    while (i < model->ties.n && model->ties.found[i] != number) i++;
    if (i == model->ties.n) return;
    double v = (double)model->ties.values[i], nearest = rint(v), beyond = (double)nudges->margin + 2e-7 * fabs(v);
    double boundary = nearest + (nearest > v ? -0.5 : 0.5), way = (nearest > v) == over ? -1 : 1;
    double change = (boundary + way * beyond) / v - 1;
    ref_param *norm = &model->params[site / 4 * REF_LAYER_PARAMS + (uint32_t)norms[site % 4]];
    norm->w[c] = (float)((double)norm->w[c] * (1 + change));
    nudges->n++;
    if (fabs(change) > nudges->largest) nudges->largest = fabs(change);
}

static uint32_t nudge_all(ref_model *model, ref_nudges *nudges, bool over)
{
    uint32_t n = model->ties.n_flipped;
    for (uint32_t i = 0; i < n; i++) nudge(model, nudges, model->ties.flipped[i], over);
    model->ties.n_flipped = 0;
    return n;
}

void ref_nudge_towards(ref_model *model, ref_nudges *nudges, ref_error_fn error, void *context, double most)
{
    for (int round = 0; round < 8; round++) {
        ref_flip_towards(model, nudges->width, error, context, most);
        if (nudge_all(model, nudges, true) == 0) break;
    }
}

uint32_t ref_nudge_away(ref_model *model, ref_nudges *nudges, ref_error_fn error, void *context, double most)
{
    ref_flip_towards(model, nudges->width, error, context, most);
    return nudge_all(model, nudges, false);
}
