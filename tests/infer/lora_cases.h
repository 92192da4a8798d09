/* Engines and adapters for the tests of adapters. */
#ifndef TERN_TESTS_INFER_LORA_CASES_H
#define TERN_TESTS_INFER_LORA_CASES_H

#include "support/adapters.h"

#include <math.h>

#include "base/alloc.h"
#include "base/file.h"
#include "infer/session/runner.h"
#include "infer/support.h"
#include "model/adapter/merge.h"
#include "support/converted.h"
#include "support/flips.h"
#include "support/golden.h"
#include "support/logits.h"

enum { ROWS = 2, LENGTH = 32, MAX_FLIPS = 8, N_IDS = 40 };

extern int32_t lora_ids[N_IDS];

int lora_setup(void **state);

void lora_set(tern_session *s, const tern_lora_use *uses, uint32_t n);

size_t lora_vocabulary(const tern_session *s);

/* The logits of all ids from an empty session on; the caller's to free. */
float *lora_logits_of(tern_session *s);

float *lora_logits_with(tern_session *s, const tern_lora_use *uses, uint32_t n);

double lora_distance(const float *got, const float *want, const tern_session *s);

#endif
