/* Log-probabilities of a model over a text, in the file of llama.cpp's perplexity (--save-all-logits,
 * --kl-divergence-base), so that either program compares with what the other has saved:
 *
 *     "_logits_", u32 window, i32 vocabulary, i32 windows, i32 ids[windows][window]
 *     for each window, for each of its positions window / 2 .. window - 2, a row: f32 scale, f32 lowest,
 *         u16 code[vocabulary, rounded up to even];  log p(token) = scale * code + lowest
 *
 * Little-endian. A window's first token is evaluated as BOS where the tokenizer begins texts with one; a row is of the
 * token that follows. Source: tools/perplexity of llama.cpp. */
#ifndef TERN_APPS_EVAL_KL_BASE_H
#define TERN_APPS_EVAL_KL_BASE_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "tern/status.h"

enum { TERN_KL_MAX_WINDOW = 1 << 20, TERN_KL_HEAD_BYTES = 20 };

/* Borrows the file's bytes. */
typedef struct tern_kl_base {
    uint32_t window, n_vocab, n_windows;
    const uint8_t *ids, *rows;
} tern_kl_base;

/* The first position of a window that has a row, and how many have one. */
static inline uint32_t tern_kl_first(uint32_t window)
{
    return window / 2;
}

static inline uint32_t tern_kl_rows(uint32_t window)
{
    return window - 1 - window / 2;
}

static inline size_t tern_kl_row_bytes(uint32_t n_vocab)
{
    return 8 + 2 * (size_t)tern_round_up(n_vocab, 2);
}

/* A pure function of the bytes; every id is within the vocabulary. Errors: MALFORMED. */
tern_status tern_kl_base_read(tern_kl_base *base, const void *data, size_t size, tern_error *err);
/* out[window]. */
void tern_kl_base_ids(const tern_kl_base *base, uint32_t number, int32_t *out);
const uint8_t *tern_kl_base_row(const tern_kl_base *base, uint32_t window, uint32_t row);
/* The first bytes of a file. */
void tern_kl_base_head(const tern_kl_base *base, uint8_t out[TERN_KL_HEAD_BYTES]);

/* A row of the logits, log-softmaxed: 65536 steps from the highest down to 16 below it or to the lowest, whichever is
 * nearer; what is lower is code 0. out[tern_kl_row_bytes(n_vocab)]. Returns the logarithm of the sum of e^logit. */
double tern_kl_encode(const float *logits, uint32_t n_vocab, uint8_t *out);
/* log p of a token. */
static inline float tern_kl_decode(const uint8_t *row, uint32_t id)
{
    return tern_load_f32(row) * (float)tern_load_u16(row + 8 + 2 * (size_t)id) + tern_load_f32(row + 4);
}

#endif
