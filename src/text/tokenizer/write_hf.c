/* Byte-level tokenizers as tokenizer.json, tokenizer_config.json and generation_config.json (Hugging Face tokenizers,
 * transformers' PreTrainedTokenizerFast). */
#include "text/tokenizer/internal.h"

/* A document under construction: jansson reports a lack of memory by NULL, and passes it on, so one look at the end
 * is enough. */
static json_t *text_of(tern_span s)
{
    return json_stringn((const char *)s.data, s.size);
}

static json_t *piece_of(const tern_tokenizer *t, int32_t id)
{
    return text_of(tern_token_piece(t, id));
}

static bool is_added(const tern_vocab_entry *e)
{
    return e->type == TERN_TOKEN_CONTROL || e->type == TERN_TOKEN_USER;
}

static json_t *added_tokens(const tern_tokenizer *t)
{
    json_t *list = json_array();
    for (uint32_t id = 0; id < t->vocab.n; id++) {
        const tern_vocab_entry *e = &t->vocab.entries[id];
        if (!is_added(e)) continue;
        json_array_append_new(
            list, json_pack("{s:i, s:o, s:b, s:b, s:b, s:b, s:b}", "id", (int)id, "content", piece_of(t, (int32_t)id),
                            "single_word", (e->flags & TERN_ADDED_SINGLE_WORD) != 0, "lstrip",
                            (e->flags & TERN_ADDED_LSTRIP) != 0, "rstrip", (e->flags & TERN_ADDED_RSTRIP) != 0,
                            "normalized", 0, "special", e->type == TERN_TOKEN_CONTROL));
    }
    return list;
}

static json_t *vocab(const tern_tokenizer *t)
{
    json_t *object = json_object();
    for (uint32_t id = 0; id < t->vocab.n; id++) {
        tern_span piece = tern_vocab__piece(&t->vocab, id);
        if (piece.size == 0 || is_added(&t->vocab.entries[id])) continue;
        json_object_setn_new(object, (const char *)piece.data, piece.size, json_integer(id));
    }
    return object;
}

/* The parts that a list of merges is made of. */
typedef struct merge_list {
    const tern_tokenizer *t;
    json_t *list;
} merge_list;

static tern_status add_merge(void *user, int32_t left, int32_t right, tern_error *err)
{
    const merge_list *m = user;
    if (json_array_append_new(m->list, json_pack("[o, o]", piece_of(m->t, left), piece_of(m->t, right))) == 0)
        return TERN_OK;
    return tern_fail_alloc(err, sizeof(json_t));
}

static const char *behavior_of(tern_split_behavior behavior)
{
    switch (behavior) {
    case TERN_SPLIT_REMOVED:
    case TERN_SPLIT_MATCHES: return "Removed";
    case TERN_SPLIT_MERGED_PREVIOUS: return "MergedWithPrevious";
    case TERN_SPLIT_MERGED_NEXT: return "MergedWithNext";
    case TERN_SPLIT_CONTIGUOUS: return "Contiguous";
    case TERN_SPLIT_ISOLATED:
    case TERN_SPLIT_PREFIX_SPACE: break;
    }
    return "Isolated";
}

static json_t *pre_tokenizer(const tern_tokenizer *t)
{
    json_t *list = json_array();
    bool prefix = false;
    for (size_t i = 0; i < t->pre.n; i++) {
        tern_split_behavior behavior = tern_splitter__behavior(t->pre.stages[i]);
        prefix |= behavior == TERN_SPLIT_PREFIX_SPACE;
        if (behavior == TERN_SPLIT_PREFIX_SPACE) continue;
        json_array_append_new(list, json_pack("{s:s, s:{s:o}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                                              text_of(tern_splitter__pattern(t->pre.stages[i])), "behavior",
                                              behavior_of(behavior), "invert", behavior == TERN_SPLIT_MATCHES));
    }
    json_array_append_new(list, json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", prefix,
                                          "trim_offsets", 1, "use_regex", 0));
    return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", list);
}

static void add_special(const tern_tokenizer *t, json_t *list, json_t *known, int32_t id, int type)
{
    if (id < 0) return;
    json_t *piece = piece_of(t, id);
    json_array_append_new(list, json_pack("{s:{s:O, s:i}}", "SpecialToken", "id", piece, "type_id", type));
    json_object_set_new(known, json_string_value(piece),
                        json_pack("{s:O, s:[i], s:[O]}", "id", piece, "ids", (int)id, "tokens", piece));
    json_decref(piece);
}

/* One sequence, and what goes before and after it. */
static void add_framed(const tern_tokenizer *t, json_t *list, json_t *known, const char *sequence, int type)
{
    add_special(t, list, known, t->adds_bos ? t->bos : -1, type);
    json_array_append_new(list, json_pack("{s:{s:s, s:i}}", "Sequence", "id", sequence, "type_id", type));
    add_special(t, list, known, t->closing, type);
}

static json_t *post_processor(const tern_tokenizer *t)
{
    if (!t->adds_bos && t->closing < 0) return json_null();
    json_t *single = json_array(), *pair = json_array(), *known = json_object();
    add_framed(t, single, known, "A", 0);
    add_framed(t, pair, known, "A", 0);
    add_framed(t, pair, known, "B", 1);
    return json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair", pair,
                     "special_tokens", known);
}

static json_t *tokenizer_json(const tern_tokenizer *t, json_t *merges)
{
    json_t *model =
        json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
                  "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "ignore_merges",
                  t->ignore_merges || t->rule == TERN_MERGE_RANKS, "vocab", vocab(t), "merges", merges);
    json_t *decoder = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1,
                                "use_regex", 1);
    json_t *normalizer = t->nfc ? json_pack("{s:s}", "type", "NFC") : json_null();
    return json_pack("{s:s, s:n, s:n, s:o, s:o, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation", "padding",
                     "added_tokens", added_tokens(t), "normalizer", normalizer, "pre_tokenizer", pre_tokenizer(t),
                     "post_processor", post_processor(t), "decoder", decoder, "model", model);
}

static json_t *tokenizer_config(const tern_tokenizer *t)
{
    json_t *config = json_pack("{s:s, s:b, s:b}", "tokenizer_class", "PreTrainedTokenizerFast", "add_bos_token",
                               t->adds_bos, "clean_up_tokenization_spaces", 0);
    if (t->bos >= 0) json_object_set_new(config, "bos_token", piece_of(t, t->bos));
    if (t->eos >= 0) json_object_set_new(config, "eos_token", piece_of(t, t->eos));
    if (t->pad >= 0) json_object_set_new(config, "pad_token", piece_of(t, t->pad));
    if (t->chat_template) json_object_set_new(config, "chat_template", json_string(t->chat_template));
    return config;
}

static json_t *generation_config(const tern_tokenizer *t)
{
    json_t *config = json_object(), *ends = json_array();
    for (size_t i = 0; i < t->n_ends; i++) json_array_append_new(ends, json_integer(t->ends[i]));
    if (t->bos >= 0) json_object_set_new(config, "bos_token_id", json_integer(t->bos));
    json_object_set_new(config, "eos_token_id", ends);
    return config;
}

tern_status tern_tokenizer_write_hf(const tern_tokenizer *t, const char *dir, tern_error *err)
{
    if (t->vocab.alphabet != TERN_ALPHABET_GPT2)
        return tern_fail(
            err, TERN_UNSUPPORTED,
            "a SentencePiece tokenizer as tokenizer.json: byte-level BPE expected; its tokenizer.model can "
            "be copied");
    tern_json_use_allocator();
    json_t *merges = json_array();
    tern_status status = merges ? TERN_OK : tern_fail_alloc(err, sizeof *merges);
    if (status == TERN_OK) status = tern_tokenizer__each_merge(t, add_merge, &(merge_list){t, merges}, err);
    if (status != TERN_OK) {
        json_decref(merges);
        return status;
    }
    TERN_TRY(tern_json_write_in(tokenizer_json(t, merges), dir, "tokenizer.json", JSON_INDENT(2), err));
    TERN_TRY(tern_json_write_in(tokenizer_config(t), dir, "tokenizer_config.json", JSON_INDENT(2), err));
    return tern_json_write_in(generation_config(t), dir, "generation_config.json", JSON_INDENT(2), err);
}
