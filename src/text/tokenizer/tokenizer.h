/* Text to token ids and back: byte-level BPE, SentencePiece BPE with byte fallback, and their special tokens. */
#ifndef TERN_TEXT_TOKENIZER_TOKENIZER_H
#define TERN_TEXT_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tern/text.h"

typedef struct tern_span tern_span; /* base/bytes.h */
typedef struct tern_gguf tern_gguf; /* format/gguf.h, which few readers of this page need */
typedef struct tern_gguf_writer tern_gguf_writer;

/* From GGUF metadata (tokenizer.ggml.*); a gpt2 model without tokenizer.ggml.pre means LLaMA-3 when the architecture is
 * bitnet-b1.58 or bitnet-25, else the GPT-2 pattern. Copies what it needs. */
tern_status tern_tokenizer_open_gguf(tern_tokenizer **t, const tern_gguf *gguf, tern_error *err);
/* From a folder in the HF layout: tokenizer.json, else tokenizer.model (SentencePiece, or tiktoken ranks when it is
 * text); tokenizer_config.json, config.json, generation_config.json and special_tokens_map.json add BOS, EOS and chat
 * template. `dir` may also be one such vocabulary file, told apart by what it holds. */
tern_status tern_tokenizer_open_hf(tern_tokenizer **t, const char *dir, tern_error *err);
/* From one file's bytes: for tests and fuzzers. `pattern` NULL takes LLaMA-3's. */
tern_status tern_tokenizer_parse_json(tern_tokenizer **t, const void *data, size_t size, tern_error *err);
tern_status tern_tokenizer_parse_sentencepiece(tern_tokenizer **t, const void *data, size_t size, tern_error *err);
tern_status tern_tokenizer_parse_tiktoken(tern_tokenizer **t, const void *data, size_t size, const char *pattern,
                                          tern_error *err);

/* Marks of a text with a gap (fill in the middle). */
typedef enum tern_fim_token {
    TERN_FIM_PREFIX,
    TERN_FIM_SUFFIX,
    TERN_FIM_MIDDLE,
    TERN_FIM_PAD,
    TERN_FIM_REPOSITORY, /* before the name of a repository */
    TERN_FIM_FILE,       /* before a file of it */
    TERN_FIM_TOKENS
} tern_fim_token;

/* The token ids of n bytes of text (any bytes: invalid UTF-8 and NUL included), appended to *ids (storage of
 * tern_grow). allow_special: text that spells a special token becomes that token; false treats it as plain text (a
 * user's words). No BOS is added. */
tern_status tern_tokenize(const tern_tokenizer *t, const void *text, size_t n, bool allow_special, tern_tokens *out,
                          tern_error *err);
/* As above with special tokens, except those that have a byte i in them with untrusted[i] not 0: that is plain text. */
tern_status tern_tokenize_marked(const tern_tokenizer *t, const void *text, const uint8_t *untrusted, size_t n,
                                 tern_tokens *out, tern_error *err);

/* The bytes of one token, as they go into the text (borrowed; not NUL-terminated; may be part of a UTF-8 sequence).
 * Special (control) tokens give an empty span unless `special`. INVALID ids give an empty span. */
tern_span tern_token_bytes(const tern_tokenizer *t, int32_t id, bool special);
/* The token as it stands in the vocabulary ("Ġthe", "▁the", "<0x0A>"). */
tern_span tern_token_piece(const tern_tokenizer *t, int32_t id);
/* The id of exactly this vocabulary entry, or -1. */
int32_t tern_token_find(const tern_tokenizer *t, const char *piece, size_t n);

/* Appends the text of n ids. `special` shows special tokens. */
tern_status tern_detokenize(const tern_tokenizer *t, const int32_t *ids, size_t n, bool special, tern_buf *out,
                            tern_error *err);

/* Streaming: yields only whole UTF-8 sequences; bytes that can never complete become U+FFFD. Zero-initialised is a
 * start of text. */
typedef struct tern_text_stream {
    uint8_t pending[8];
    size_t n_pending;
    bool started; /* the leading space that SentencePiece adds has been dealt with */
} tern_text_stream;

/* Appends to out what can be shown now. No allocation when out has room. */
tern_status tern_text_stream_add(tern_text_stream *s, const tern_tokenizer *t, int32_t id, bool special, tern_buf *out,
                                 tern_error *err);
tern_status tern_text_stream_finish(tern_text_stream *s, tern_buf *out, tern_error *err);

/* Properties. Ids are -1 where the tokenizer has none. */
uint32_t tern_tokenizer_size(const tern_tokenizer *t);
int32_t tern_tokenizer_bos(const tern_tokenizer *t);
int32_t tern_tokenizer_eos(const tern_tokenizer *t);
bool tern_tokenizer_adds_bos(const tern_tokenizer *t);
/* The token after a text that is not to be continued (of embedding models EOS), or -1. */
int32_t tern_tokenizer_closing(const tern_tokenizer *t);
/* EOS, EOT, EOM, <end_of_turn>, ...: generation stops there. */
bool tern_token_is_end(const tern_tokenizer *t, int32_t id);
/* All of them: *n ids, borrowed. */
const int32_t *tern_tokenizer_ends(const tern_tokenizer *t, size_t *n);
/* The token of a part of a text with a gap, or -1. */
int32_t tern_tokenizer_fim(const tern_tokenizer *t, tern_fim_token which);
/* Whether it has those that a gap needs: prefix, suffix and middle. */
bool tern_tokenizer_fills(const tern_tokenizer *t);
bool tern_token_is_special(const tern_tokenizer *t, int32_t id);
/* The model's Jinja chat template, or NULL. */
const char *tern_tokenizer_chat_template(const tern_tokenizer *t);
/* The prompt of a reranker, with {query} and {document} in it, or NULL. */
const char *tern_tokenizer_rerank_template(const tern_tokenizer *t);
/* Takes a copy of n bytes of Jinja in its place. Errors: OUT_OF_MEMORY. */
tern_status tern_tokenizer_set_chat_template(tern_tokenizer *t, const void *text, size_t n, tern_error *err);

/* Makes `text` a special token: an ordinary one that is spelled so becomes it, else it goes behind the last. One with
 * an end token's name (<|im_end|>) ends texts from now on. On failure the tokenizer is good for closing alone. Errors:
 * INVALID_ARGUMENT (an empty one, a long one, one that is special already), MALFORMED, LIMIT, OUT_OF_MEMORY. */
tern_status tern_tokenizer_add_special(tern_tokenizer *t, const char *text, tern_error *err);

/* Writes the tokenizer.ggml.* keys that open_gguf reads back to the same tokenizer. A model whose tables have more rows
 * (n_rows) gets unused tokens "[PADn]" for the others, as llama.cpp's converter writes them: llama.cpp expects a token
 * for each row. */
tern_status tern_tokenizer_write_gguf(const tern_tokenizer *t, uint32_t n_rows, tern_gguf_writer *w, tern_error *err);
/* Writes tokenizer.json, tokenizer_config.json and generation_config.json into the folder `dir`, which must be there,
 * for open_hf and for transformers. A rank list (tiktoken) becomes merges. Errors: UNSUPPORTED (SentencePiece), IO,
 * OUT_OF_MEMORY. */
tern_status tern_tokenizer_write_hf(const tern_tokenizer *t, const char *dir, tern_error *err);

#endif
