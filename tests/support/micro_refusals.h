/* Micro models that must be refused, however they are opened, with words that say what is wrong. */
#ifndef TERN_TESTS_SUPPORT_MICRO_REFUSALS_H
#define TERN_TESTS_SUPPORT_MICRO_REFUSALS_H

#include "base/error.h"
#include "support/micro_model.h"

typedef struct micro_refusal {
    micro_change change;
    tern_status status;
    const char *words; /* in the message */
} micro_refusal;

extern const micro_refusal micro_refusals[];
extern const size_t micro_n_refusals;

/* The status that an opening gave, and its error. */
void assert_micro_refused(const micro_refusal *r, tern_status status, const tern_error *err);

#endif
