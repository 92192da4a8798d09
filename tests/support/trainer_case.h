/* Trainers in tests: batches, states as f32, and a backend that counts what it is asked for. */
#ifndef TERN_TESTS_SUPPORT_TRAINER_CASE_H
#define TERN_TESTS_SUPPORT_TRAINER_CASE_H

#include "support/test.h"
#include "train/trainer/trainer.h"

enum { TEST_BATCH_POSITIONS = 1024, TEST_BATCH_ROWS = 16 };

/* Rows of a batch and their storage. */
typedef struct test_batch {
    int32_t ids[TEST_BATCH_POSITIONS], labels[TEST_BATCH_POSITIONS];
    uint32_t starts[TEST_BATCH_POSITIONS];
    tern_train_row rows[TEST_BATCH_ROWS];
} test_batch;

/* n_rows rows of seq random ids that predict their successors, some in two documents, some labels masked. */
void test_batch_random(test_batch *batch, uint64_t seed, uint32_t n_rows, uint32_t seq, uint32_t n_vocab);
/* The batch of a golden file: ids and labels [2][32]. */
void test_batch_fill(test_batch *batch, const int32_t *ids, const int32_t *labels, uint32_t n_rows, uint32_t seq);

/* Opens a trainer; fails the test on error. */
tern_trainer *test_trainer(tern_backend *backend, const tern_model *model, const tern_trainer_params *params);
/* The tensor of this name; fails the test when there is none. */
size_t test_trainer_find(const tern_trainer *trainer, const char *name);
/* A state as f32 (of 8-bit ones as they are unpacked), or its bytes; the caller's to free. */
float *test_trainer_floats(tern_trainer *trainer, size_t i, tern_state state);
uint8_t *test_trainer_bytes(tern_trainer *trainer, size_t i, tern_state state, size_t *n_bytes);
/* Whether masters, moments and gradients of two trainers are the same bits; the first that differs in `what` [128]. */
bool test_trainer_same(tern_trainer *a, tern_trainer *b, char *what);

/* Removes a folder and the files in it, which may still be mapped. */
void test_remove_folder(const char *path);

/* A backend that passes everything on to another and counts bytes of buffers and weights. */
typedef struct test_counting {
    tern_backend base; /* give this one away; close the other one yourself */
    tern_backend *inner;
    uint64_t buffer_bytes, weight_bytes;
    uint32_t n_live;
} test_counting;

void test_counting_open(test_counting *counting, tern_backend *inner);

#endif
