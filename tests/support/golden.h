/* Golden files of whole models (tests/data/goldens/README.md: how they were made, and what "equal" means). */
#ifndef TERN_TESTS_SUPPORT_GOLDEN_H
#define TERN_TESTS_SUPPORT_GOLDEN_H

#include "format/safetensors.h"
#include "infer/session/session.h"
#include "text/tokenizer/tokenizer.h"

typedef struct test_golden {
    tern_safetensors *file;
    uint32_t n_inputs;
} test_golden;

/* Loads golden.safetensors (or golden_logits.safetensors) of a model folder. */
void test_golden_open(test_golden *golden, const char *path);
void test_golden_close(test_golden *golden);
/* The i32 ids of input i; *n gets their number. Borrowed. */
const int32_t *test_golden_ids(const test_golden *golden, uint32_t i, uint32_t *n);

/* The golden logits of input i, n of them. Borrowed. */
const float *test_golden_logits(const test_golden *golden, uint32_t i, size_t n);

/* rms(got - want) / std(want); NaN when anything is NaN. */
double test_rms_error(const float *got, const float *want, size_t n);
/* The index of the largest of n logits; *margin (or NULL) gets how far the next one is below. */
uint32_t test_top(const float *logits, uint32_t n, float *margin);

/* A margin between the two highest logits that no rounding tie of ternary layers bridges
 * (tests/data/goldens/README.md), and one that rounding f32 does not where no layer rounds its inputs. */
#define TEST_CLEAR_MARGIN       0.05f
#define TEST_CLEAR_MARGIN_DENSE 1e-3f

/* Fails the test when [n][n_vocab] logits differ by more than max_rms, or in a clear top token. */
void test_check_rows(const float *got, const float *want, uint32_t n, uint32_t n_vocab, double max_rms,
                     const char *what);
/* Compares the greedy text of the file with what the session generates after each of its beginnings, as far as margins
 * are clear: tokens that the device chooses, several to a step, where it can. */
void test_golden_check_greedy(const test_golden *golden, tern_session *session);

/* Opens an engine on a model path with `features` (NULL: all) and no tokenizer; fails the test on error. */
tern_engine *test_engine(const char *path, const char *features);
/* The same as `params` say, but for one thread (NULL: the defaults). */
tern_engine *test_engine_with(const char *path, const tern_engine_params *params);
tern_session *test_session(tern_engine *engine, bool keep_hidden);

/* Compares the logits of every input (and hidden states and greedy text where the file has them) with what the model at
 * `path` computes, opened by `params`. Fails the test when rms > max_rms or a clear top token differs. */
void test_golden_check(const char *path, const char *golden_path, const tern_engine_params *params, double max_rms);

/* The same of a family of tests/data/models, for a model converted from it (NULL: itself). */
void test_golden_check_made(const char *family, const char *path);

/* The held-out text of the tiny-stories-bitnet model: its path, its ids, the caller's to deinit, and the mean of -log p
 * over the first 4096 of them that PyTorch computes (windows of 512). */
const char *test_heldout_file(void);
tern_tokens test_heldout(const tern_engine *engine);
double test_heldout_nll(void);

#endif
