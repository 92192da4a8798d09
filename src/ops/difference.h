/* How far what one backend has made is from what another has: the one measure by which ops are compared. Trials of
 * kernels (graph/trial), `tern compare` (infer/compare) and the tests of ops judge by it. Plain bytes on the host: any
 * backend's, once they are read. */
#ifndef TERN_OPS_DIFFERENCE_H
#define TERN_OPS_DIFFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct tern_op tern_op;       /* ops/op.h */
typedef struct tern_value tern_value; /* ops/value.h */

/* How far a float may be off: the sum of the first three, or of_terms where that is more. All 0: the same bits, any NaN
 * equal to any NaN. NaN and infinities match nothing but themselves. */
typedef struct tern_tolerance {
    double absolute;
    double of_value;  /* times |expected| */
    double of_row;    /* times the largest finite |expected| of the row */
    double of_terms;  /* times the sum of the magnitudes that the element was added up from: rows that cancel */
    uint32_t of_int8; /* Q8 and caches in blocks: how far an int8 or a code may be off, */
    bool few_int8;    /* and only 2 of them and one in 500: those near a boundary, which rounding explains */
} tern_tolerance;

/* The tolerance of kernels of a sound device for this op: sums in another order differ by far less, garbage by far
 * more. Ops that only move numbers, and the optimiser, are exact; int8 that an op makes on its way may be rounded the
 * other way, which shows in all that is computed from them, and so may f16 in a cache. */
tern_tolerance tern_op_tolerance(const tern_op *op);

/* Two results of one value. F32, F16, Q8 and caches in blocks within the tolerance, all else to the bit. */
typedef struct tern_compared {
    const tern_value *value;
    const uint8_t *got, *want;
    uint64_t n_rows;
    uint32_t cols;     /* of a row: the value's, of a cache any divisor of its size; with blocks, a head */
    uint64_t max_rows; /* Q8: of the value, which its scales lie behind */
    /* The terms of a row, asked for where the tolerance has of_terms and the rest of it is not enough: terms[cols].
     * false: they are not known. May be NULL. */
    bool (*terms)(void *context, uint64_t row, uint32_t cols, double *terms);
    void *context;
} tern_compared;

typedef struct tern_difference {
    bool ok;        /* within the tolerance */
    bool identical; /* all bits */
    double worst;   /* of floats: |got - want| as a share of the row's largest |want|, or of the terms where those were
                     * asked for; NaN where a NaN or an infinity has no match */
    uint64_t n_flips; /* int8 that differ by one */
    /* The first element that is not within the tolerance. */
    const char *part; /* "int8 ", "sum ", "code "; "" of floats */
    uint64_t row;
    uint32_t col, cols;
    double got, want, row_most;
} tern_difference;

/* Errors: OUT_OF_MEMORY. */
tern_status tern_difference_find(const tern_compared *compared, const tern_tolerance *tolerance, tern_difference *out,
                                 tern_error *err);
/* "ffn_out-3: row 0, column 7 of 256: 0.5, 0.25 expected (off by 0.25; the row's largest is 1.5)" of one that is not
 * ok. */
void tern_difference_words(const tern_difference *difference, const char *name, char *out, size_t n);
/* Whether `got` is within the tolerance of `want`; row_most: the largest finite magnitude of the row; terms: the sum of
 * those of the element's terms, 0 where it is not known. */
bool tern_is_near(float got, float want, double row_most, double terms, const tern_tolerance *tolerance);

/* The inputs of an op, on the host. */
typedef struct tern_op_inputs {
    const tern_op *op;
    const tern_value *values;
    uint8_t *const *contents; /* of each value that the op reads; weights have their own data */
    uint32_t max_tokens, max_outputs, n_routes;
    uint32_t n_tokens, n_outputs; /* of the step */
} tern_op_inputs;

/* terms[cols]: the sum of the magnitudes of the summands of each element of a row of `value`. An op that multiplies
 * matrices has made it. false: another op, a weight without data, or memory is short. */
bool tern_op_terms(const tern_op_inputs *inputs, uint32_t value, uint64_t row, uint32_t cols, double *terms);

#endif
