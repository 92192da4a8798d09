/* The type of a model's layers as a person names it: one encoding for all, or a mix, which gives more bits to the
 * tensors that need them. Names, numbers and choices are llama.cpp's (src/llama-quant.cpp, include/llama.h). */
#ifndef TERN_QUANT_MIX_H
#define TERN_QUANT_MIX_H

#include <stdint.h>

#include "base/error.h"
#include "quant/encoding_id.h"

typedef struct tern_encoding tern_encoding; /* quant/encoding.h */

/* X(NAME, general.file_type, encoding of most layers). Which tensors have another: model/mix.h. */
#define TERN_MIX_LIST(X)                                                                                               \
    X(Q2_K_S, 21, Q2_K)                                                                                                \
    X(Q3_K_S, 11, Q3_K)                                                                                                \
    X(Q3_K_M, 12, Q3_K)                                                                                                \
    X(Q3_K_L, 13, Q3_K)                                                                                                \
    X(Q4_K_S, 14, Q4_K)                                                                                                \
    X(Q4_K_M, 15, Q4_K)                                                                                                \
    X(Q5_K_S, 16, Q5_K)                                                                                                \
    X(Q5_K_M, 17, Q5_K)                                                                                                \
    X(MXFP4_MOE, 38, Q8_0)

/* For help texts and messages. */
#define TERN_MIX_NAMES "q2_k_s, q3_k_s, q3_k_m, q3_k_l, q4_k_s, q4_k_m, q5_k_s, q5_k_m, mxfp4_moe"

typedef enum tern_mix_id {
#define TERN_MIX_ENUM(name, file_type, encoding) TERN_MIX_##name,
    TERN_MIX_LIST(TERN_MIX_ENUM)
#undef TERN_MIX_ENUM
        TERN_MIXES
} tern_mix_id;

typedef struct tern_mix {
    const char *name; /* in upper case, as llama.cpp's users write it: "Q4_K_M" */
    tern_mix_id id;
    uint32_t file_type;
    tern_encoding_id encoding;
} tern_mix;

/* NULL when there is none. Names are matched without regard to case. */
const tern_mix *tern_mix_by_name(const char *name);
/* The value of `what`, which a person gave: *encoding, and *mix where it is one (else NULL); both NULL for NULL.
 * Errors: INVALID_ARGUMENT, with all names. */
tern_status tern_type_parse(const char *what, const char *name, const tern_encoding **encoding, const tern_mix **mix,
                            tern_error *err);

#endif
