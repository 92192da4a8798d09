/* Trainers of small models on the backend under test (test_backend_here): what their tests share. */
#ifndef TERN_TESTS_TRAIN_TRAINERS_H
#define TERN_TESTS_TRAIN_TRAINERS_H

#include "support/micro_model.h"
#include "support/op_case.h"
#include "support/trainer_case.h"

enum { SEQ = 16, N_VOCAB = 8 };

typedef struct micro {
    tern_buf bytes;
    tern_model *model;
} micro;

micro open_micro(uint32_t width);
void close_micro(micro *m);
tern_trainer_params small_params(void);
/* n steps with random batches, from number `first` on; their losses unless NULL. */

void steps(tern_trainer *trainer, uint64_t first, uint32_t n, double *losses);
/* All states of two trainers. */

void assert_same(tern_trainer *a, tern_trainer *b);
/* All gradients of two trainers, within rounding. */

void assert_same_gradients(tern_trainer *a, tern_trainer *b);
/* Ways to train, for what must hold for all of them. */
struct way {
    const char *name;
    tern_dtype master, m, v;
    bool sgd, blend, lora, cut;
    uint32_t sync_every;
};
enum { N_WAYS = 8 };
extern const struct way ways[N_WAYS];

tern_trainer_params way_params(const struct way *way);

#endif
