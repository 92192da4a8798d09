/* The encodings by name and number: the lists of which tables of kernels, tests and messages are made. */
#ifndef TERN_QUANT_ENCODING_ID_H
#define TERN_QUANT_ENCODING_ID_H

/* X(NAME, GGUF type id). Ids are those of GGUF files; PQ2_0's is of PrismML's programs, T160 is Tern's own. */
#define TERN_ENCODING_LIST(X)                                                                                          \
    X(F32, 0)                                                                                                          \
    X(F16, 1)                                                                                                          \
    X(Q4_0, 2)                                                                                                         \
    X(Q4_1, 3)                                                                                                         \
    X(Q5_0, 6)                                                                                                         \
    X(Q5_1, 7)                                                                                                         \
    X(Q8_0, 8)                                                                                                         \
    X(Q2_K, 10)                                                                                                        \
    X(Q3_K, 11)                                                                                                        \
    X(Q4_K, 12)                                                                                                        \
    X(Q5_K, 13)                                                                                                        \
    X(Q6_K, 14)                                                                                                        \
    X(IQ4_NL, 20)                                                                                                      \
    X(BF16, 30)                                                                                                        \
    X(TQ1_0, 34)                                                                                                       \
    X(TQ2_0, 35)                                                                                                       \
    X(I2_S, 36)                                                                                                        \
    X(MXFP4, 39)                                                                                                       \
    X(Q1_0, 41)                                                                                                        \
    X(Q2_0, 42)                                                                                                        \
    X(PQ2_0, 142)                                                                                                      \
    X(T160, 160)

/* F(X, name, NAME, elements, bytes): the encodings of numbers in blocks with scales of their own, and what a block has.
 * A row here gives an encoding its place in the tables of kernels, of trials and of pipelines; X is handed on to F. */
#define TERN_ENCODING_BLOCK_LIST(F, X)                                                                                 \
    F(X, q8_0, Q8_0, 32, 34)                                                                                           \
    F(X, q6_k, Q6_K, 256, 210)                                                                                         \
    F(X, q5_k, Q5_K, 256, 176)                                                                                         \
    F(X, q4_k, Q4_K, 256, 144)                                                                                         \
    F(X, q3_k, Q3_K, 256, 110)                                                                                         \
    F(X, q2_k, Q2_K, 256, 84)                                                                                          \
    F(X, q5_1, Q5_1, 32, 24)                                                                                           \
    F(X, q5_0, Q5_0, 32, 22)                                                                                           \
    F(X, q4_1, Q4_1, 32, 20)                                                                                           \
    F(X, q4_0, Q4_0, 32, 18)                                                                                           \
    F(X, iq4_nl, IQ4_NL, 32, 18)                                                                                       \
    F(X, mxfp4, MXFP4, 32, 17)                                                                                         \
    F(X, q2_0, Q2_0, 64, 18)                                                                                           \
    F(X, pq2_0, PQ2_0, 128, 34)                                                                                        \
    F(X, q1_0, Q1_0, 128, 18)

/* The names of the table's encodings, for help texts and messages. */
#define TERN_ENCODING_TERNARY_NAMES "i2_s, tq2_0, tq1_0, t160"
#define TERN_ENCODING_DENSE_NAMES                                                                                      \
    "f16, bf16, f32, q8_0, q6_k, q5_k, q4_k, q3_k, q2_k, q5_1, q5_0, q4_1, q4_0, iq4_nl, mxfp4, q2_0, pq2_0, q1_0"

typedef enum tern_encoding_id {
#define TERN_ENCODING_ENUM(name, id) TERN_ENC_##name = (id),
    TERN_ENCODING_LIST(TERN_ENCODING_ENUM)
#undef TERN_ENCODING_ENUM
} tern_encoding_id;

#endif
