/* Roundings of the reference model that another run, whose floats were added in another order, made the other way. */
#ifndef TERN_TESTS_SUPPORT_REFERENCE_FLIPS_H
#define TERN_TESTS_SUPPORT_REFERENCE_FLIPS_H

#include "support/reference_model.h"

/* Float sums in another order move an element of an int8 row by less than this, in units of its codes. */
#define REF_TIE_WIDTH 4e-5f

/* Runs the model and says how far it is from what it is compared with. */
typedef double (*ref_error_fn)(void *context);

/* Rounds elements closer than `width` to a boundary the other way, one at a time, while that brings the run nearer: at
 * most REF_MAX_FLIPS, which are left in model->ties. */
void ref_flip_towards(ref_model *model, float width, ref_error_fn error, void *context, double most);

/* The same without flips: norm_weights of the norms before the quantisers are changed by so little that elements fall
 * on the other side of their boundary, `margin` beyond it. A run of anything else from the same weights then rounds as
 * the one compared with. */
typedef struct ref_nudges {
    float width, margin;
    uint32_t n;     /* out: norm_weights that were changed so far */
    double largest; /* out: relative change */
} ref_nudges;

void ref_nudge_towards(ref_model *model, ref_nudges *nudges, ref_error_fn error, void *context, double most);
/* The opposite: where `error` compares with a run that should round as the model does, and does not, the elements in
 * question are moved `margin` away from their boundary, on the side where they are. Returns how many. */
uint32_t ref_nudge_away(ref_model *model, ref_nudges *nudges, ref_error_fn error, void *context, double most);

#endif
