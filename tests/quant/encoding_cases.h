/* Encodings by their names, for the tests of encodings. */
#ifndef TERN_TESTS_QUANT_ENCODING_CASES_H
#define TERN_TESTS_QUANT_ENCODING_CASES_H

#include "support/test.h"

#include <math.h>

#include "base/bytes.h"
#include "base/half.h"
#include "quant/encoding.h"
#include "quant/t160.h"

const tern_encoding *encoding_named(const char *name);

#endif
