#ifndef TERN_INFER_ENGINE_HEAD_H
#define TERN_INFER_ENGINE_HEAD_H

#include "base/pool.h"
#include "model/model.h"

/* A dense weight in another dense encoding: *out is described as `in` is, *out_data its bytes, the caller's, to be
 * freed with tern_free_aligned. pool NULL: the caller does all of it. Errors: OUT_OF_MEMORY, INVALID_ARGUMENT (a number
 * that the encoding cannot hold). */
tern_status tern_engine__requantize(tern_weight *out, uint8_t **out_data, const tern_weight *in,
                                    const tern_encoding *to, tern_pool *pool, tern_error *err);

#endif
