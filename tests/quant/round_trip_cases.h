/* Tensors for the tests of encodings. */
#ifndef TERN_TESTS_QUANT_ROUND_TRIP_CASES_H
#define TERN_TESTS_QUANT_ROUND_TRIP_CASES_H

#include "support/test.h"

#include <math.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/half.h"
#include "base/rng.h"
#include "quant/encoding.h"

enum { N_TERNARY = 4, MAX_ELEMENTS = 1 << 18 };

typedef struct shape {
    uint64_t rows, cols;
} shape;

const tern_encoding *round_trip_named(const char *name);

void *round_trip_encoded_bytes(const tern_encoding *e, shape s);

/* Fill 0 is random, 1 to 3 are all -1, all 0, all +1. */
int8_t *round_trip_filled_codes(shape s, int fill, uint64_t seed);

int8_t *round_trip_decoded_codes(const tern_encoding *e, const void *bytes, shape s, float scale);

#endif
