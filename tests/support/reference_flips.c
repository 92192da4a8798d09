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

void ref_flip_towards(ref_model *model, ref_error_fn error, void *context, double most)
{
    model->ties = (ref_ties){.width = REF_TIE_WIDTH};
    double e = error(context);
    while (e > most && flip_best(model, error, context, &e)) continue;
}

/* Moves the element with this number over its boundary; returns the relative change. */
static double nudge(ref_model *model, uint32_t number)
{
    static const int norms[] = {REF_INPUT_NORM, REF_ATTN_SUB_NORM, REF_POST_NORM, REF_FFN_SUB_NORM};
    uint32_t site = number / (REF_TOKENS * REF_FFN), c = number % REF_FFN, i = 0;
    while (i < model->ties.n && model->ties.found[i] != number) i++;
    if (i == model->ties.n) return 0;
    double v = (double)model->ties.values[i], nearest = rint(v), side = nearest > v ? -1 : 1;
    double factor = (nearest + side * (0.5 + 2e-6 + 2e-7 * fabs(v))) / v;
    ref_param *norm = &model->params[site / 4 * REF_LAYER_PARAMS + (uint32_t)norms[site % 4]];
    norm->w[c] = (float)((double)norm->w[c] * factor);
    return fabs(factor - 1);
}

uint32_t ref_nudge_towards(ref_model *model, ref_error_fn error, void *context, double most, double *largest)
{
    uint32_t n = 0;
    for (int round = 0; round < 8; round++) {
        ref_flip_towards(model, error, context, most);
        if (model->ties.n_flipped == 0) break;
        for (uint32_t i = 0; i < model->ties.n_flipped; i++, n++) {
            double change = nudge(model, model->ties.flipped[i]);
            if (largest && change > *largest) *largest = change;
        }
        model->ties.n_flipped = 0;
    }
    return n;
}
