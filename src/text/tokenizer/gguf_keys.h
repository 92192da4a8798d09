/* Metadata keys under which a tokenizer lies in a GGUF file. */
#ifndef TERN_TEXT_TOKENIZER_GGUF_KEYS_H
#define TERN_TEXT_TOKENIZER_GGUF_KEYS_H

#define KEY_MODEL        "tokenizer.ggml.model"
#define KEY_PRE          "tokenizer.ggml.pre"
#define KEY_TOKENS       "tokenizer.ggml.tokens"
#define KEY_TYPES        "tokenizer.ggml.token_type"
#define KEY_SCORES       "tokenizer.ggml.scores"
#define KEY_MERGES       "tokenizer.ggml.merges"
#define KEY_BOS          "tokenizer.ggml.bos_token_id"
#define KEY_EOS          "tokenizer.ggml.eos_token_id"
#define KEY_EOT          "tokenizer.ggml.eot_token_id"
#define KEY_EOM          "tokenizer.ggml.eom_token_id"
#define KEY_UNK          "tokenizer.ggml.unknown_token_id"
#define KEY_PAD          "tokenizer.ggml.padding_token_id"
#define KEY_FIM_PRE      "tokenizer.ggml.fim_pre_token_id"
#define KEY_FIM_SUF      "tokenizer.ggml.fim_suf_token_id"
#define KEY_FIM_MID      "tokenizer.ggml.fim_mid_token_id"
#define KEY_FIM_PAD      "tokenizer.ggml.fim_pad_token_id"
#define KEY_FIM_REP      "tokenizer.ggml.fim_rep_token_id"
#define KEY_FIM_SEP      "tokenizer.ggml.fim_sep_token_id"
#define KEY_OLD_FIM_PRE  "tokenizer.ggml.prefix_token_id" /* before October 2024 */
#define KEY_OLD_FIM_SUF  "tokenizer.ggml.suffix_token_id"
#define KEY_OLD_FIM_MID  "tokenizer.ggml.middle_token_id"
#define KEY_ADD_BOS      "tokenizer.ggml.add_bos_token"
#define KEY_ADD_EOS      "tokenizer.ggml.add_eos_token"
#define KEY_ADD_SPACE    "tokenizer.ggml.add_space_prefix"
#define KEY_REMOVE_EXTRA "tokenizer.ggml.remove_extra_whitespaces"
#define KEY_CHARSMAP     "tokenizer.ggml.precompiled_charsmap"
#define KEY_TEMPLATE     "tokenizer.chat_template"
#define KEY_RERANK       "tokenizer.chat_template.rerank"

/* Properties that the keys above cannot express. */
#define KEY_RULE          "tern.tokenizer.merge_rule" /* "pairs", "ranks" or "scores" where the model implies another */
#define KEY_IGNORE_MERGES "tern.tokenizer.ignore_merges"
#define KEY_PATTERNS      "tern.tokenizer.patterns" /* the stages of a pre-tokenizer without a name */
#define KEY_BEHAVIORS     "tern.tokenizer.behaviors"
#define KEY_PREFIX        "tern.tokenizer.space_prefix" /* tern_prefix */
#define KEY_PREFIX_ONCE   "tern.tokenizer.space_prefix_once"
#define KEY_SUFFIX        "tern.tokenizer.space_suffix"
#define KEY_ESCAPE        "tern.tokenizer.escape_whitespaces"
#define KEY_BYTE_FALLBACK "tern.tokenizer.byte_fallback"
#define KEY_FUSE_UNK      "tern.tokenizer.fuse_unknown"
#define KEY_NFC           "tern.tokenizer.nfc"
#define KEY_FLAGS         "tern.tokenizer.added_flags" /* pairs of token id and TERN_ADDED_* */
#define KEY_ENDS          "tern.tokenizer.end_token_ids"

#endif
