/* A trainer on the backend under test against PyTorch (fixtures: README): what its tests share.
 *
 * The int8 quantiser is a step function: two or three elements of a forward lie so near to a step that PyTorch, which
 * adds its floats in another order, rounds them the other way, and each moves gradients of so small a model by 1 %. So
 * the model of the definitions is asked which ones (support/reference_flips.h), and the weights of the norms before
 * them are changed by some 1e-6, so that these elements fall on PyTorch's side; and, where the backend's own floats
 * differ from the definitions, those that it rounds otherwise a little further. What is compared is then the trainer
 * itself. */
#ifndef TERN_TESTS_TRAIN_GOLDEN_TRAINER_H
#define TERN_TESTS_TRAIN_GOLDEN_TRAINER_H

#include "support/reference_flips.h"
#include "support/trainer_case.h"
#include "train/goldens.h"

extern ref_model model;  /* of the definitions */
extern test_batch batch; /* of the golden file */

/* Whether the floats of the backend are those of the definitions to the bit. */
bool exact(void);

/* How far from a boundary elements are put, and how near to one they may go either way. */
ref_nudges golden_nudges(void);
ref_nudges own_nudges(void);
enum { MOST_ROUNDS = 6 };

/* At most, of |difference| / |golden|: some times what docs/decisions/0020-trainers.md prints, on a backend
 * with the floats of the definitions, and on others. */
typedef struct golden_bounds {
    double loss, norm, gradients, logits; /* of one step, or one forward */
    double losses, parameters;            /* of 30 steps of AdamW */
} golden_bounds;
golden_bounds golden_most(void);

/* Says the distance, and fails where it is larger. */
void check(const char *name, double found, double most);
/* What the run of the definitions is held against: a golden file, or a trainer. */
typedef struct target {
    const tern_safetensors *golden;
    const float *logits;
    const int32_t *ids, *labels;
    double loss;
    const float *gradients[REF_PARAMS];
} target;

target golden_target(const tern_safetensors *golden);
/* The weights of norms as the definitions have them. */
void write_gains(tern_trainer *trainer);
/* What the golden files were made with. */
tern_trainer_params golden_params(void);
/* How far the logits of the definitions are from those of a target (a callback of ref_nudge_*). */
double logits_error(void *context);

#endif
