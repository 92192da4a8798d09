/* Ops of training for cases made by hand (op_case.h): with their inputs, on random rows. */
#ifndef TERN_TESTS_SUPPORT_TRAINING_CASE_H
#define TERN_TESTS_SUPPORT_TRAINING_CASE_H

#include "support/op_case.h"

/* How an op is to be made; zero: as the comments say. */
typedef struct test_training {
    tern_op_kind kind;
    uint32_t cols;
    tern_rows rows; /* of ops that go by rows alone */
    tern_activation activation;
    float limit;       /* of SWIGLU_OAI */
    float softcap;     /* SCALE: one; SOFTCAP_BACKWARD: 0.8 */
    bool no_dg;        /* RMS_NORM_BACKWARD without the norm_weight's gradient */
    bool no_dx;        /* and without the input's */
    bool residual;     /* with one */
    uint32_t n_groups; /* RMS_NORM_BACKWARD: rows of so many groups of `cols` columns; 1 */
    bool beside;       /* rows lie among other columns, at a random place */
    uint32_t n_vocab;  /* EMBED_BACKWARD: 40 */
    test_fill fill;
} test_training;

/* SCALE, SOFTCAP_BACKWARD, DROPOUT, FAKE_QUANTIZE, CROSS_ENTROPY, ROPE_BACKWARD (heads of 32), GATE_BACKWARD,
 * RMS_NORM_BACKWARD, BIAS_BACKWARD or EMBED_BACKWARD, added to a case of shape `training`. */
tern_op test_training_add(test_case *c, const test_training *t);
/* Attention of max_tokens rows, forward and backward. */
typedef struct test_varlen_attention {
    uint32_t rows; /* as many as the case has */
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t longest; /* document; 0: one document */
    float scale, softcap;
    uint32_t window;
    bool sinks, dsinks; /* random ones; their gradient too */
    bool bf16;
} test_varlen_attention;

/* Both ops, with documents of random length, then rows to spare that start at themselves. */
void test_varlen_attention_add(test_case *c, const test_varlen_attention *s);
/* Random labels, some masked, ids with repetitions, positions, seed, blend and weight of the loss. */
void test_training_params(test_case *c, uint32_t n_labels, uint32_t n_ids);

#endif
