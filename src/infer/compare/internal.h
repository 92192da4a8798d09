/* Shared by the files that compare two backends. */
#ifndef TERN_INFER_COMPARE_INTERNAL_H
#define TERN_INFER_COMPARE_INTERNAL_H

#include "infer/compare/compare.h"
#include "infer/session/runner.h"
#include "ops/difference.h"

typedef struct tern_compare_side {
    tern_engine *engine;
    tern_runner runner;
    tern_runner_graph *graph; /* of the phase */
} tern_compare_side;

typedef struct tern_comparison {
    const tern_compare_params *params;
    tern_compare_result *result;
    tern_compare_side reference, tested;
    uint32_t *counterparts; /* of the tested graph's values in the reference's; TERN_NO_VALUE: none */
    size_t reference_at;    /* the reference's next op */
    uint8_t *want, *got;    /* one value */
    uint64_t room;
    size_t n_all; /* ops of both graphs, for progress */
    tern_error *err;
} tern_comparison;

/* Finds the counterparts of the phase's graphs, and makes room for their largest value. */
tern_status tern_compare__counterparts(tern_comparison *c);
tern_status tern_compare__read(const tern_comparison *c, const tern_compare_side *s, uint32_t value, uint8_t *out);
/* Gives the tested side what the reference holds. */
tern_status tern_compare__copy_to_tested(const tern_comparison *c, uint32_t value);
/* Both sides' bytes of a value, compared; `op`, which has made it of what the reference holds, knows its terms. NULL:
 * nobody asks for them. */
tern_status tern_compare__measure(const tern_comparison *c, uint32_t value, const tern_op *op,
                                  const tern_tolerance *tolerance, tern_difference *difference);
/* The next op of the tested graph, on what the reference holds; the result gets its row. */
tern_status tern_compare__op(tern_comparison *c, const tern_op *op, bool decode);

#endif
