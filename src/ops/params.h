/* The parameter values of a graph: what the host writes before each run. */
#ifndef TERN_OPS_PARAMS_H
#define TERN_OPS_PARAMS_H

#include <stdint.h>

/* The parameter values that every graph has, filled before each run (u32 each unless said):
 *   COUNTS     [3]  tokens in this step, outputs in this step, how many of the highest logits are needed (0: all)
 *   IDS        [batch] i32 token ids
 *   POSITIONS  [batch] position of each token in its sequence
 *   SEQUENCES  [batch] which row of PAGES the token's sequence uses
 *   OUTPUTS    [batch] rows whose logits are wanted
 *   PAGES      [sequences][max_pages] physical page of each 32 positions
 *   SAMPLER    tern_sample_params, or tern_sample_row [outputs]; only graphs that sample have it
 *   SEQ_STARTS [batch] the first row of each row's document, never decreasing; positions[t] = t - seq_starts[t]. This
 *              and the next two: training
 *   LABELS     [batch] i32 the token that follows, or below 0: not in the loss
 *   TRAINING   tern_train_params
 *   RING_PAGES [sequences][max_pages] as PAGES, of layers whose caches are rings: entry i is a page of i modulo
 *              n_ring_pages, so that new positions take the place of those that no window reaches
 *   GROUPS     tern_row_group [groups]: the rows of ops that are for some of a step's sequences alone
 *   WANTED     tern_wanted: which logits are needed beside the highest of COUNTS; only graphs with a screened head
 *   STATES     [sequences] which row of RECURRENT values the sequence goes on from, then [batch] the row that what a
 *              token leaves is written to, or TERN_NO_STATE; only graphs with layers that recur have it
 *   HIDDEN     [batch][cols] f32 rows of another graph's last norm; only graphs of a block that drafts tokens have it
 * They lie in one buffer, each at its value's offset (a multiple of TERN_PARAM_ALIGNMENT). */
typedef enum tern_param {
    TERN_PARAM_COUNTS,
    TERN_PARAM_IDS,
    TERN_PARAM_POSITIONS,
    TERN_PARAM_SEQUENCES,
    TERN_PARAM_OUTPUTS,
    TERN_PARAM_PAGES,
    TERN_PARAM_SAMPLER,
    TERN_PARAM_SEQ_STARTS,
    TERN_PARAM_LABELS,
    TERN_PARAM_TRAINING,
    TERN_PARAM_RING_PAGES,
    TERN_PARAM_GROUPS,
    TERN_PARAM_WANTED,
    TERN_PARAM_STATES,
    TERN_PARAM_HIDDEN,
    TERN_PARAM_COUNT
} tern_param;

enum { TERN_PARAM_ALIGNMENT = 256, TERN_SAMPLE_MAX_STEPS = 128, TERN_SAMPLE_MAX_ENDS = 16, TERN_SAMPLE_MAX_TOP_K = 64 };

#define TERN_NO_STATE UINT32_MAX

enum { TERN_WANTED_MAX_PINNED = 1020 };

/* The logits that a screened LINEAR gives when COUNTS asks for the n_top highest. It gives those of `pinned`, the
 * n_top highest of the others, and all that are at most `reach` below the highest, m. With a tail above 0 it gives so
 * many that the sum of e^((logit - m) * sharpness) over those left out is at most `tail`. All zero: the n_top
 * highest. */
typedef struct tern_wanted {
    uint32_t n_pinned;
    float reach, sharpness, tail;            /* >= 0 */
    uint32_t pinned[TERN_WANTED_MAX_PINNED]; /* rows, in any order, also twice */
} tern_wanted;

/* Rows of a step that follow each other; of a group of none no op is run. */
typedef struct tern_row_group {
    uint32_t first_token, n_tokens, first_output, n_outputs;
} tern_row_group;

/* The result of SAMPLE for a token where a logit is NaN or infinite: the run's last. */
#define TERN_SAMPLE_NOT_FINITE UINT32_MAX

/* The parameters of SAMPLE, written by the host before each run, and its results for the next step of the same run. It
 * draws from the top_k highest logits (1: greedy, the lowest index of the maximum) as tern_sampler_next does:
 * temperature, top-k, top-p, min-p, softmax, draws[n_done]. Then tokens[1 + n_done] = the token; n_done and tokens[0]
 * count it; ids[0] = the token and positions[0] grows by one. After one of end_ids, or n_tokens tokens, counts[0] and
 * counts[1] become 0: further steps do nothing. So do they after TERN_SAMPLE_NOT_FINITE, which leaves ids[0] as it was.
 */
typedef struct tern_sample_params {
    uint32_t n_done, n_tokens;
    uint32_t top_k; /* 1 .. TERN_SAMPLE_MAX_TOP_K */
    float temperature, top_p, min_p;
    uint32_t n_ends, reserved;
    uint32_t end_ids[TERN_SAMPLE_MAX_ENDS];
    float draws[TERN_SAMPLE_MAX_STEPS]; /* uniform in [0, 1) */
} tern_sample_params;

/* The parameters of SAMPLE with each_row for a row of logits: it chooses tokens[row] as one step does from
 * tern_sample_params, and writes nothing else. Its words are those that tern_sample_params begins with. */
typedef struct tern_sample_row {
    uint32_t zeros[2];
    uint32_t top_k; /* 0: no token of this row */
    float temperature, top_p, min_p;
    uint32_t zero;
    float draw;
} tern_sample_row;

typedef enum tern_optimizer { TERN_OPTIMIZER_SGD, TERN_OPTIMIZER_ADAMW } tern_optimizer;

/* The parameters of the ops of training. Factors as in ops/ref/update.h, made in f64 by the host. */
typedef struct tern_train_params {
    float loss_weight; /* 1 / the labels of all rows of the step, so that gradients are those of the mean */
    float blend;       /* how much of the quantisers is in effect, 0 .. 1 */
    uint32_t seed;     /* of this run's UPDATE: stream s draws tern_ref_random_bits(seed + s * 0x9e3779b9, i) */
    float clip;        /* gradients count times this */
    float keep, blend1, beta2, blend2, root, eps, pace; /* tern_adamw_factors; keep counts for ops that decay */
    float lr, momentum, decay;                          /* tern_sgd; decay for ops that decay */
    uint32_t dropout_seed;                              /* of this run's DROPOUT, as `seed` */
    float next_blend;                                   /* of REQUANTIZE, whose weights the next run reads */
} tern_train_params;

#endif
