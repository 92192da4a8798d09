/* A model cut for several ranks: which rows of each matrix a rank has (docs/decisions/0053-mpi.md).
 *
 * Every matrix is cut by rows, its outputs, so that each number is computed whole by one rank, whatever the encoding
 * and the number of ranks. Q, K and V are cut by heads, with the keys and values of a head where its queries are. */
#ifndef TERN_MODEL_CUT_H
#define TERN_MODEL_CUT_H

#include "model/model.h"
#include "ranks/ranks.h"

/* Which rank of how many; n 0 or 1: the whole model. */
typedef struct tern_cut {
    uint32_t rank, n;
} tern_cut;

/* Heads of a rank: of queries, and of keys and values, a whole number of the first to each of the second. Where there
 * are more ranks than heads of keys and values, several ranks have the same one. */
typedef struct tern_cut_heads {
    tern_share q, kv;
} tern_cut_heads;

tern_cut_heads tern_cut_heads_of(const tern_config *config, tern_cut cut);
/* Rows of a role's matrix (of each expert's) that a rank has, or columns of its vector; *whole: those of all. A tensor
 * that is not cut has them all. */
tern_share tern_cut_rows(const tern_config *config, tern_role role, uint32_t layer, tern_cut cut, uint32_t *whole);
/* INVALID_ARGUMENT: more ranks than heads go around. */
tern_status tern_cut_check(const tern_config *config, uint32_t n_ranks, tern_error *err);

/* The cut of an opened model. */
tern_cut tern_model_cut(const tern_model *model);

/* Runs of layers, as even by bytes as whole layers are: the embedding goes with the first, the last norm and the output
 * table, whose bytes count, with the last. */
typedef struct tern_stages {
    uint32_t stage, n;             /* which of how many; n 0: the model is not cut by layers */
    uint32_t ends[TERN_MAX_RANKS]; /* one past the last layer of each */
} tern_stages;

const tern_stages *tern_model_stages(const tern_model *model);
tern_share tern_stage_layers(const tern_stages *stages, uint32_t n_layers);
/* Which stage a layer is in. */
uint32_t tern_stage_of(const tern_stages *stages, uint32_t layer);
/* Whether a weight is one that the opened model's stage has. */
bool tern_model_is_own(const tern_model *model, tern_role role, uint32_t layer);

#endif
