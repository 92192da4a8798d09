/* Roundings of the reference model that another run, whose floats were added in another order, made the other way. */
#ifndef TERN_TESTS_SUPPORT_REFERENCE_FLIPS_H
#define TERN_TESTS_SUPPORT_REFERENCE_FLIPS_H

#include "support/reference_model.h"

/* Float sums in another order move an element of an int8 row by less than this, in units of its codes. */
#define REF_TIE_WIDTH 4e-5f

/* Runs the model and says how far it is from what it is compared with. */
typedef double (*ref_error_fn)(void *context);

/* Rounds elements at a boundary the other way, one at a time, while that brings the run nearer: at most REF_MAX_FLIPS,
 * which are left in model->ties. */
void ref_flip_towards(ref_model *model, ref_error_fn error, void *context, double most);

/* The same without flips: the gain of the norm before the quantiser is changed by so little that the element falls on
 * the other side. A run of anything else from the same weights then rounds as the one compared with. Returns how many
 * gains were changed; *largest (or NULL) gets the largest relative change. */
uint32_t ref_nudge_towards(ref_model *model, ref_error_fn error, void *context, double most, double *largest);

#endif
