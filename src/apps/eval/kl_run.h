/* Log-probabilities of a text's second halves of windows: saved to a file, or compared with one (apps/eval/kl_base.h).
 */
#ifndef TERN_APPS_EVAL_KL_RUN_H
#define TERN_APPS_EVAL_KL_RUN_H

#include "apps/eval/kl_stats.h"
#include "apps/progress.h"

/* The session that evaluates: max_outputs rows and at least a window of positions. */
typedef struct tern_kl_reader {
    tern_session *session;
    const tern_engine_info *model;
    tern_progress *progress;
} tern_kl_reader;

/* The saved file. */
typedef struct tern_kl_saved {
    uint64_t n_scored;
    uint32_t n_windows;
    double nll; /* mean */
} tern_kl_saved;

/* Cuts the ids into whole windows, what is left over aside, and writes the file, whole or not at all. Errors:
 * INVALID_ARGUMENT (too few ids for one window, a window below 4), CANCELLED, those of append and of writing. */
tern_status tern_kl_save(const tern_kl_reader *reader, const tern_tokens *ids, uint32_t window, const char *path,
                         tern_kl_saved *saved, tern_error *err);
/* All tokens of the base into *tokens, [*n] of tern_alloc, the caller's to free. Errors: INVALID_ARGUMENT (another
 * vocabulary, windows above the session's context), CANCELLED, OUT_OF_MEMORY, those of append. */
tern_status tern_kl_read(const tern_kl_reader *reader, const tern_kl_base *base, tern_kl_token **tokens, size_t *n,
                         tern_error *err);

#endif
