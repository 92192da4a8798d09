/* Sessions whose layers with a window keep a ring of pages, beside sessions that keep the whole context. */
#ifndef TERN_TESTS_INFER_RING_CASES_H
#define TERN_TESTS_INFER_RING_CASES_H

#include "base/rng.h"
#include "infer/support.h"
#include "support/gpu_model.h"

enum { RING_CTX = 256, RING_BATCH = 8, RING_POSITIONS = 64, RING_IDS = 512 };

/* One model with a window of 16: the session under test, whose ring has RING_POSITIONS, on the backend under test; on
 * the CPU one that keeps all of RING_CTX. */
typedef struct ring_pair {
    tern_engine *engine, *cpu;
    tern_session *ring, *whole;
    uint32_t n_vocab;
} ring_pair;

/* A fixture by its name, f32 caches; on a GPU as many of the last layers as gpu_layers. */
void ring_open_split(ring_pair *p, const char *name, uint32_t gpu_layers);
/* All of them. */
void ring_open(ring_pair *p, const char *name);
void ring_close(ring_pair *p);
/* A session on an engine that takes steps of n_batch tokens. */
tern_session *ring_session(tern_engine *engine, uint32_t n_batch);
/* Appends to both. */
void ring_append(ring_pair *p, const int32_t *ids, uint32_t n);
/* Both hold the same tokens and logits of the last one: the same bits on the CPU, else within the budget of goldens. */
void ring_check(ring_pair *p, const char *what);
void ring_fill_ids(tern_rng *rng, const ring_pair *p, int32_t *ids, uint32_t n);
/* Runs of the backend under test so far. */
uint64_t ring_runs(const ring_pair *p);

#endif
