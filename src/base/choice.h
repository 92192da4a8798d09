/* Whether a value that a caller gave is one of a closed set (tern/choices.h). */
#ifndef TERN_BASE_CHOICE_H
#define TERN_BASE_CHOICE_H

#include "base/error.h"
#include "tern/choices.h"

/* Errors: INVALID_ARGUMENT with the option's name, the value found and the largest one. */
tern_status tern_choice_check(tern_choice choice, uint32_t value, tern_error *err);

#endif
