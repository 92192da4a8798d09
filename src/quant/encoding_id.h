/* The encodings by name and number: the lists of which tables of kernels, tests and messages are made. */
#ifndef TERN_QUANT_ENCODING_ID_H
#define TERN_QUANT_ENCODING_ID_H

/* X(name, NAME, GGUF type id, general.file_type of a file that is in it throughout), ids ascending. Source of the file
 * types: llama.cpp's llama_ftype; 40 is bitnet.cpp's for i2_s and llama.cpp's for q1_0, which has other numbers for its
 * mixes. The numbers of pq2_0 and ptq1_0 are of PrismML's programs, those of t160 our own. */
#define TERN_ENCODING_LIST(X)                                                                                          \
    X(f32, F32, 0, 0)                                                                                                  \
    X(f16, F16, 1, 1)                                                                                                  \
    X(q4_0, Q4_0, 2, 2)                                                                                                \
    X(q4_1, Q4_1, 3, 3)                                                                                                \
    X(q5_0, Q5_0, 6, 8)                                                                                                \
    X(q5_1, Q5_1, 7, 9)                                                                                                \
    X(q8_0, Q8_0, 8, 7)                                                                                                \
    X(q2_k, Q2_K, 10, 10)                                                                                              \
    X(q3_k, Q3_K, 11, 12)                                                                                              \
    X(q4_k, Q4_K, 12, 15)                                                                                              \
    X(q5_k, Q5_K, 13, 17)                                                                                              \
    X(q6_k, Q6_K, 14, 18)                                                                                              \
    X(iq4_nl, IQ4_NL, 20, 25)                                                                                          \
    X(bf16, BF16, 30, 32)                                                                                              \
    X(tq1_0, TQ1_0, 34, 36)                                                                                            \
    X(tq2_0, TQ2_0, 35, 37)                                                                                            \
    X(i2_s, I2_S, 36, 40)                                                                                              \
    X(mxfp4, MXFP4, 39, 38)                                                                                            \
    X(q1_0, Q1_0, 41, 40)                                                                                              \
    X(q2_0, Q2_0, 42, 41)                                                                                              \
    X(pq2_0, PQ2_0, 142, 141)                                                                                          \
    X(ptq1_0, PTQ1_0, 143, 143)                                                                                        \
    X(t160, T160, 160, 160)

/* F(X, name, NAME, elements, bytes): the encodings of numbers in blocks with scales of their own, and what a block has.
 * A row here gives an encoding its place in the tables of kernels, of trials and of pipelines; X is handed on to F.
 * Those of the first list have products with activations that are int8 by blocks (ops/ref/blocks.h). */
#define TERN_ENCODING_INT8_LIST(F, X)                                                                                  \
    F(X, q8_0, Q8_0, 32, 34)                                                                                           \
    F(X, q6_k, Q6_K, 256, 210)                                                                                         \
    F(X, q5_k, Q5_K, 256, 176)                                                                                         \
    F(X, q4_k, Q4_K, 256, 144)                                                                                         \
    F(X, q5_1, Q5_1, 32, 24)                                                                                           \
    F(X, q5_0, Q5_0, 32, 22)                                                                                           \
    F(X, q4_1, Q4_1, 32, 20)                                                                                           \
    F(X, q4_0, Q4_0, 32, 18)                                                                                           \
    F(X, iq4_nl, IQ4_NL, 32, 18)                                                                                       \
    F(X, mxfp4, MXFP4, 32, 17)                                                                                         \
    F(X, q2_0, Q2_0, 64, 18)                                                                                           \
    F(X, pq2_0, PQ2_0, 128, 34)                                                                                        \
    F(X, ptq1_0, PTQ1_0, 128, 28)                                                                                      \
    F(X, q1_0, Q1_0, 128, 18)
#define TERN_ENCODING_BLOCK_LIST(F, X)                                                                                 \
    TERN_ENCODING_INT8_LIST(F, X)                                                                                      \
    F(X, q3_k, Q3_K, 256, 110)                                                                                         \
    F(X, q2_k, Q2_K, 256, 84)

/* The names of the table's encodings, for help texts and messages. */
#define TERN_ENCODING_TERNARY_NAMES "i2_s, tq2_0, tq1_0, t160"
#define TERN_ENCODING_DENSE_NAMES                                                                                      \
    "f16, bf16, f32, q8_0, q6_k, q5_k, q4_k, q3_k, q2_k, q5_1, q5_0, q4_1, q4_0, iq4_nl, mxfp4, q2_0, pq2_0, ptq1_0, " \
    "q1_0"

typedef enum tern_encoding_id {
#define TERN_ENCODING_ENUM(name, NAME, id, file_type) TERN_ENC_##NAME = (id),
    TERN_ENCODING_LIST(TERN_ENCODING_ENUM)
#undef TERN_ENCODING_ENUM
} tern_encoding_id;

#endif
