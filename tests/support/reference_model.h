/* A whole small BitNet model assembled from the definitions of every op and of every backward (ops/ref): what
 * training kernels are held against. */
#ifndef TERN_TESTS_SUPPORT_REFERENCE_MODEL_H
#define TERN_TESTS_SUPPORT_REFERENCE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

/* The shapes of fixtures/bitnet-train, and of its one batch: two sequences, packed behind each other as two
 * documents. */
enum {
    REF_LAYERS = 2,
    REF_HIDDEN = 128,
    REF_HEADS = 4,
    REF_KV_HEADS = 2,
    REF_HEAD_DIM = 32,
    REF_KV = REF_KV_HEADS * REF_HEAD_DIM,
    REF_FFN = 256,
    REF_VOCAB = 256,
    REF_SEQUENCE = 32,
    REF_TOKENS = 2 * REF_SEQUENCE,
    REF_MAX_RANK = 16
};

/* Parameters: those of each layer in this order, then the embedding and the final norm. */
enum ref_name {
    REF_INPUT_NORM,
    REF_Q,
    REF_K,
    REF_V,
    REF_ATTN_SUB_NORM,
    REF_O,
    REF_POST_NORM,
    REF_GATE,
    REF_UP,
    REF_FFN_SUB_NORM,
    REF_DOWN,
    REF_LAYER_PARAMS
};
enum { REF_EMBED = REF_LAYERS * REF_LAYER_PARAMS, REF_FINAL_NORM, REF_PARAMS };

typedef struct ref_lora {
    uint32_t rank; /* 0: none */
    float scale;
    float *a, *b, *da, *db;
    float *u, *du; /* [tokens][rank] */
} ref_lora;

typedef struct ref_param {
    char name[96]; /* as in the model's file */
    uint32_t rows, cols;
    bool is_norm; /* [cols] */
    size_t n;
    float *w, *grad;
    float *m, *v;    /* AdamW */
    uint8_t *packed; /* i2_s rows of the ternary matrices, else NULL */
    float scale;
    ref_lora lora;
} ref_param;

/* The input of a ternary layer as rows of int8. */
typedef struct ref_q8 {
    int8_t *q; /* [tokens][cols] */
    float *inv_scales;
    int32_t *sums;
} ref_q8;

/* What the forward leaves of one layer for the backward. */
typedef struct ref_acts {
    float *x, *normed, *q, *k, *v, *attention, *m, *l, *sub_normed, *mid, *mid_normed, *gate, *up, *product, *down_in;
    ref_q8 normed_q8, sub_q8, mid_q8, down_q8;
} ref_acts;

/* An element of an int8 row that lies within `tie_width` of a rounding boundary. PyTorch adds its floats in another
 * order, so that it may have rounded this one the other way (support/flips.h); the elements of `flipped` are. */
enum { REF_MAX_TIES = 512, REF_MAX_FLIPS = 4 };

typedef struct ref_ties {
    float width;
    uint32_t n, found[REF_MAX_TIES]; /* of the last forward: where each is, as (site * tokens + t) * ffn + c */
    float values[REF_MAX_TIES];      /* before rounding */
    uint32_t n_flipped, flipped[REF_MAX_FLIPS];
} ref_ties;

typedef struct ref_model {
    tern_arena arena;
    ref_param params[REF_PARAMS];
    ref_acts acts[REF_LAYERS];
    float *last, *last_normed; /* [tokens][hidden]: before and after the final norm */
    float *logits;             /* [tokens][vocab]; their gradients after ref_loss */
    float rope[REF_SEQUENCE * REF_HEAD_DIM];
    uint32_t starts[REF_TOKENS];
    ref_ties ties;
} ref_model;

/* Reads the parameters of the hub folder at `path`; ref_free it. */
void ref_open(ref_model *model, const char *path);
void ref_free(ref_model *model);
/* Packs every ternary matrix from its master weights. */
void ref_requantise(ref_model *model);
void ref_zero_grads(ref_model *model);
void ref_forward(ref_model *model, const int32_t *ids);
/* Mean loss over the unmasked labels; logits become gradients. */
double ref_loss(ref_model *model, const int32_t *labels);
/* Adds to every gradient, after ref_forward and ref_loss. */
void ref_backward(ref_model *model, const int32_t *ids);

#endif
