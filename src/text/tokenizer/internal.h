/* Declarations that the files that build, run and write a tokenizer share. */
#ifndef TERN_TEXT_TOKENIZER_INTERNAL_H
#define TERN_TEXT_TOKENIZER_INTERNAL_H

#include "format/json.h"
#include "text/tokenizer/added.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/normal/normalize.h"
#include "text/tokenizer/pretokenize.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocab.h"

enum { TERN_MAX_END_TOKENS = 32 };

struct tern_tokenizer {
    tern_vocab vocab;
    tern_merge_rule rule;
    tern_pairs pairs;
    bool ignore_merges;
    tern_added added;  /* cut out of the text first */
    tern_added frozen; /* TERN_MERGE_SCORES: user-defined symbols, which stay part of the text around them */
    tern_pretokenizer pre;
    bool nfc;             /* text is brought to NFC first */
    tern_normalizer norm; /* TERN_ALPHABET_BYTES only */
    bool byte_fallback, fuse_unk;
    int32_t bos, eos, eot, eom, unk, pad; /* or -1 */
    bool adds_bos, bos_decided;           /* the file says whether a BOS goes in front */
    int32_t closing;                      /* what follows a text that is embedded, or -1 */
    int32_t ends[TERN_MAX_END_TOKENS];
    size_t n_ends;
    int32_t fim[TERN_FIM_TOKENS]; /* or -1 */
    char *chat_template;
    char *rerank_template; /* NULL: none */
};

/* A tokenizer without tokens, all ids -1. */
tern_status tern_tokenizer__alloc(tern_tokenizer **t, tern_error *err);
/* After the entries are set: gives markup its type, and builds the tables. May be called again after changes. */
tern_status tern_tokenizer__index(tern_tokenizer *t, tern_error *err);
/* After everything: end-of-text tokens by their ids and well-known names, BOS. Errors: MALFORMED (ids out of range). */
tern_status tern_tokenizer__finish(tern_tokenizer *t, tern_error *err);
tern_status tern_tokenizer__add_end(tern_tokenizer *t, int64_t id, tern_error *err);
/* Looks for the tokens of fill in the middle that no key has named by their well-known texts; those that no text goes
 * on after end texts. Errors: MALFORMED (ids out of range), LIMIT. */
tern_status tern_tokenizer__find_fim(tern_tokenizer *t, tern_error *err);
/* Whether a piece is the well-known text of such a token. */
bool tern_tokenizer__is_fim_name(tern_span piece);
/* A tokenizer.json, not yet finished, so that the files beside it can add to it. */
tern_status tern_tokenizer__read_json(tern_tokenizer **t, tern_span file, tern_error *err);
/* One of added_tokens (tokenizer.json) or added_tokens_decoder (tokenizer_config.json). Errors: MALFORMED. */
tern_status tern_tokenizer__add_token(tern_tokenizer *t, uint32_t id, const json_t *token, tern_error *err);
/* Adds the merge `index` of left and right pieces. Errors: MALFORMED, naming index and the piece that is not a
 * token. */
tern_status tern_tokenizer__add_merge(tern_tokenizer *t, uint32_t index, tern_span left, tern_span right,
                                      tern_error *err);
/* "a b" at its first space that is not its first byte. Errors: MALFORMED. */
tern_status tern_tokenizer__split_merge(tern_span merge, uint32_t index, tern_span *left, tern_span *right,
                                        tern_error *err);
/* Calls fn for each merge in its order; those of a rank list (tiktoken) are all ways to make each token of two. */
typedef tern_status (*tern_merge_fn)(void *user, int32_t left, int32_t right, tern_error *err);
tern_status tern_tokenizer__each_merge(const tern_tokenizer *t, tern_merge_fn fn, void *user, tern_error *err);

#endif
