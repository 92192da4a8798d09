/* Learning a byte-level BPE vocabulary from text (Sennrich et al., arXiv:1508.07909; on bytes as in GPT-2). */
#ifndef TERN_TEXT_TOKENIZER_BPE_TRAIN_H
#define TERN_TEXT_TOKENIZER_BPE_TRAIN_H

#include "text/tokenizer/tokenizer.h"

enum { TERN_BPE_N_SPECIAL = 5, TERN_BPE_MIN_VOCAB = 256 + TERN_BPE_N_SPECIAL, TERN_BPE_MAX_VOCAB = 1 << 18 };

typedef struct tern_bpe_trainer tern_bpe_trainer; /* one thread at a time */

tern_status tern_bpe_trainer_open(tern_bpe_trainer **trainer, tern_error *err);
void tern_bpe_trainer_close(tern_bpe_trainer *trainer);

/* Counts the pieces of n bytes of text, any bytes, cut as LLaMA 3 cuts them. Keeps no more than one copy of each piece.
 * Errors: OUT_OF_MEMORY, LIMIT (2^32 - 1 different pieces). */
tern_status tern_bpe_trainer_add(tern_bpe_trainer *trainer, const void *text, size_t n, tern_error *err);

/* How many different pieces there were so far. */
size_t tern_bpe_trainer_n_pieces(const tern_bpe_trainer *trainer);

/* Joins the most frequent pair of neighbours, again and again, until there are n_vocab tokens; of pairs equally
 * frequent the one with the lowest ids. The 256 bytes come first, then the merges in their order, and last the special
 * tokens by LLaMA 3's names: begin and end of text, header start and end, end of turn. Text that is too small for so
 * many merges (a pair must occur twice) gives fewer tokens. Equal texts give equal tokenizers.
 *
 *   n_vocab  TERN_BPE_MIN_VOCAB .. TERN_BPE_MAX_VOCAB        progress  may be NULL; false: CANCELLED
 *
 * Errors: INVALID_ARGUMENT (n_vocab), OUT_OF_MEMORY, CANCELLED. *tokenizer is the caller's to close. */
tern_status tern_bpe_trainer_finish(tern_bpe_trainer *trainer, uint32_t n_vocab,
                                    bool (*progress)(void *context, float done), void *context,
                                    tern_tokenizer **tokenizer, tern_error *err);

#endif
