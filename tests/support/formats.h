/* Encodings of dense weights, for tables of tests: all that the lists of quant/encoding_id.h have. */
#ifndef TERN_TESTS_SUPPORT_FORMATS_H
#define TERN_TESTS_SUPPORT_FORMATS_H

#include <string.h>

#include "quant/encoding_id.h"

#define TEST_FORMAT_NAME(X, name, NAME, elements, bytes)  #name,
#define TEST_FORMAT_BLOCK(X, name, NAME, elements, bytes) {#name, elements},

/* Their names; and pairs of a name and of how many columns are a block. */
#define TEST_DENSE_NAMES  "f32", "f16", "bf16", TERN_ENCODING_BLOCK_LIST(TEST_FORMAT_NAME, )
#define TEST_DENSE_BLOCKS {"f32", 1}, {"f16", 1}, {"bf16", 1}, TERN_ENCODING_BLOCK_LIST(TEST_FORMAT_BLOCK, )

/* Where the f16 values of a block lie, at most two; random bytes in their place would often be NaN or infinity. Returns
 * how many there are: 0 for an encoding without a row. */
static inline unsigned test_halves_of(unsigned id, unsigned at[2])
{
    static const struct {
        unsigned id, n, at[2];
    } rows[] = {
        {TERN_ENC_F16, 1, {0}},       {TERN_ENC_Q8_0, 1, {0}},    {TERN_ENC_Q6_K, 1, {208}},
        {TERN_ENC_Q5_K, 2, {0, 2}},   {TERN_ENC_Q4_K, 2, {0, 2}}, {TERN_ENC_Q3_K, 1, {108}},
        {TERN_ENC_Q2_K, 2, {80, 82}}, {TERN_ENC_Q5_1, 2, {0, 2}}, {TERN_ENC_Q5_0, 1, {0}},
        {TERN_ENC_Q4_1, 2, {0, 2}},   {TERN_ENC_Q4_0, 1, {0}},    {TERN_ENC_IQ4_NL, 1, {0}},
        {TERN_ENC_Q2_0, 1, {0}},      {TERN_ENC_PQ2_0, 1, {0}},   {TERN_ENC_PTQ1_0, 1, {26}},
        {TERN_ENC_Q1_0, 1, {0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].id != id) continue;
        memcpy(at, rows[i].at, sizeof rows[i].at);
        return rows[i].n;
    }
    return 0;
}

#endif
