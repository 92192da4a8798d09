/* Declarations that the files that make random models share. */
#ifndef TERN_MODEL_SYNTH_INTERNAL_H
#define TERN_MODEL_SYNTH_INTERNAL_H

#include "model/model_internal.h"

/* Writes the metadata of a byte-level BPE vocabulary of n_vocab tokens in the manner of LLaMA 3. It has the 256 bytes,
 * then tokens made by merges (all pairs of bytes, common ones first, then triples), then n_special special tokens. The
 * first two special tokens are BOS and EOS. n_vocab - n_special is at least 256 and at most 129,792. */
tern_status tern_synth__vocab(uint32_t n_vocab, uint32_t n_special, tern_gguf_writer *w, tern_error *err);

/* The configuration of a preset, and whether its layers are ternary. Errors: INVALID_ARGUMENT, with those there are. */
tern_status tern_synth__preset(const char *name, tern_config *config, bool *ternary, tern_error *err);
/* The columns that are transformed together, in presets with a rotated basis; 0 in others. */
uint32_t tern_synth__rotation_block(const char *name);
/* The metadata of a rotated basis with signs by the seed, of all matrices and the embedding table; nothing for 0. */
tern_status tern_synth__rotation(const tern_config *config, uint32_t block, uint64_t seed, tern_gguf_writer *w,
                                 tern_error *err);

#endif
