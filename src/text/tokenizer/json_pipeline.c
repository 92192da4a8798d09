/* The normalizer and the pre-tokenizer of a tokenizer.json: trees of nodes that have a type. */
#include <string.h>

#include "base/show.h"
#include "text/tokenizer/json_internal.h"

const char *tern_json__text(const json_t *node, const char *key)
{
    const char *text = json_string_value(json_object_get(node, key));
    return text ? text : "";
}

bool tern_json__flag(const json_t *node, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(node, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

const json_t *tern_json__members(const json_t *node, const char *key)
{
    return strcmp(tern_json__text(node, "type"), "Sequence") == 0 ? json_object_get(node, key) : NULL;
}

static tern_status fail_node(const char *what, const json_t *node, tern_error *err)
{
    return tern_fail(err, TERN_UNSUPPORTED, "tokenizer.json: %s \"%s\" is not supported", what,
                     tern_show_z(tern_json__text(node, "type")).text);
}

static bool is_type(const json_t *node, const char *type)
{
    return strcmp(tern_json__text(node, "type"), type) == 0;
}

/* NFC; "▁" in front, and for each space. */
static tern_status read_normalizer(tern_tokenizer *t, const json_t *node, tern_error *err)
{
    if (!node || json_is_null(node)) return TERN_OK;
    const json_t *members = tern_json__members(node, "normalizers");
    for (size_t i = 0; i < json_array_size(members); i++) TERN_TRY(read_normalizer(t, json_array_get(members, i), err));
    if (is_type(node, "Sequence")) return TERN_OK;
    bool chars = t->vocab.alphabet == TERN_ALPHABET_BYTES;
    if (is_type(node, "NFC")) {
        t->nfc = true;
        return TERN_OK;
    }
    if (chars && is_type(node, "Prepend") && !strcmp(tern_json__text(node, "prepend"), "▁")) {
        t->norm.prefix = TERN_PREFIX_ALWAYS;
        return TERN_OK;
    }
    if (chars && is_type(node, "Replace") && !strcmp(tern_json__text(node, "content"), "▁") &&
        !strcmp(tern_json__text(json_object_get(node, "pattern"), "String"), " ")) {
        t->norm.escape = true;
        return TERN_OK;
    }
    return fail_node("normalizer", node, err);
}

static tern_status read_behavior(const json_t *node, tern_split_behavior *out, tern_error *err)
{
    static const struct {
        const char *name;
        tern_split_behavior plain, inverted;
    } BEHAVIORS[] = {{"Isolated", TERN_SPLIT_ISOLATED, TERN_SPLIT_ISOLATED},
                     {"Removed", TERN_SPLIT_REMOVED, TERN_SPLIT_MATCHES},
                     {"MergedWithPrevious", TERN_SPLIT_MERGED_PREVIOUS, TERN_SPLIT_ISOLATED},
                     {"MergedWithNext", TERN_SPLIT_MERGED_NEXT, TERN_SPLIT_ISOLATED},
                     {"Contiguous", TERN_SPLIT_CONTIGUOUS, TERN_SPLIT_CONTIGUOUS}};
    const char *name = tern_json__text(node, "behavior");
    bool invert = tern_json__flag(node, "invert", false);
    for (size_t i = 0; i < sizeof BEHAVIORS / sizeof BEHAVIORS[0]; i++) {
        if (strcmp(name, BEHAVIORS[i].name) != 0) continue;
        if (invert && strncmp(name, "Merged", 6) == 0) break;
        *out = invert ? BEHAVIORS[i].inverted : BEHAVIORS[i].plain;
        return TERN_OK;
    }
    return tern_fail(err, TERN_UNSUPPORTED, "tokenizer.json: split behavior \"%s\"%s is not supported",
                     tern_show_z(name).text, invert ? " with invert" : "");
}

static tern_status add_stage(tern_tokenizer *t, const char *pattern, size_t n, tern_split_behavior behavior,
                             tern_error *err)
{
    return tern_pretokenizer__add(&t->pre, (tern_span){(const uint8_t *)pattern, n}, behavior, err);
}

/* A literal string as a pattern: every ASCII character that is not a letter or digit is escaped. */
static tern_status add_literal(tern_tokenizer *t, const char *text, size_t n, tern_split_behavior behavior,
                               tern_error *err)
{
    tern_buf pattern = {0};
    tern_status status = tern_buf_add(&pattern, "", 0, err);
    for (size_t i = 0; status == TERN_OK && i < n; i++) {
        uint8_t c = (uint8_t)text[i], lower = c | 0x20;
        bool plain = c >= 0x80 || (c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'z');
        status = c ? tern_buf_addf(&pattern, err, plain ? "%c" : "\\%c", c) : tern_buf_addf(&pattern, err, "\\x00");
    }
    if (status == TERN_OK) status = add_stage(t, pattern.data, pattern.size, behavior, err);
    tern_buf_deinit(&pattern);
    return status;
}

static tern_status read_split(tern_tokenizer *t, const json_t *node, tern_error *err)
{
    const json_t *pattern = json_object_get(node, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex"), *string = json_object_get(pattern, "String");
    tern_split_behavior behavior;
    TERN_TRY(read_behavior(node, &behavior, err));
    if (json_is_string(regex)) {
        tern_span text = {(const uint8_t *)json_string_value(regex), json_string_length(regex)};
        if (behavior == TERN_SPLIT_MATCHES && tern_pretokenizer__covers(text)) behavior = TERN_SPLIT_ISOLATED;
        return tern_pretokenizer__add(&t->pre, text, behavior, err);
    }
    if (json_is_string(string))
        return add_literal(t, json_string_value(string), json_string_length(string), behavior, err);
    return tern_fail(err, TERN_MALFORMED, "tokenizer.json: Split has neither a Regex nor a String pattern");
}

static tern_status read_byte_level(tern_tokenizer *t, const json_t *node, tern_error *err)
{
    if (tern_json__flag(node, "add_prefix_space", true)) TERN_TRY(add_stage(t, "", 0, TERN_SPLIT_PREFIX_SPACE, err));
    if (!tern_json__flag(node, "use_regex", true)) return TERN_OK;
    return tern_pretokenizer__add_row(&t->pre, tern_pretokenizer__find("gpt-2", 5), err);
}

static tern_status read_metaspace(tern_tokenizer *t, const json_t *node, tern_error *err)
{
    if (t->vocab.alphabet != TERN_ALPHABET_BYTES || strcmp(tern_json__text(node, "replacement"), "▁") != 0)
        return fail_node("pre-tokenizer", node, err);
    const char *scheme = tern_json__text(node, "prepend_scheme");
    bool always = !strcmp(scheme, "always") || (!*scheme && tern_json__flag(node, "add_prefix_space", true));
    t->norm.escape = t->norm.prefix_once = true;
    t->norm.prefix = always ? TERN_PREFIX_ALWAYS : !strcmp(scheme, "first") ? TERN_PREFIX_FIRST : TERN_PREFIX_NEVER;
    if (!tern_json__flag(node, "split", true)) return TERN_OK;
    return add_stage(t, "▁", strlen("▁"), TERN_SPLIT_MERGED_NEXT, err);
}

static tern_status add_z(tern_tokenizer *t, const char *pattern, tern_split_behavior behavior, tern_error *err)
{
    return add_stage(t, pattern, strlen(pattern), behavior, err);
}

static tern_status read_pre_tokenizer(tern_tokenizer *t, const json_t *node, tern_error *err)
{
    if (!node || json_is_null(node)) return TERN_OK;
    const json_t *members = tern_json__members(node, "pretokenizers");
    for (size_t i = 0; i < json_array_size(members); i++)
        TERN_TRY(read_pre_tokenizer(t, json_array_get(members, i), err));
    if (is_type(node, "Sequence")) return TERN_OK;
    if (is_type(node, "ByteLevel")) return read_byte_level(t, node, err);
    if (is_type(node, "Split")) return read_split(t, node, err);
    if (is_type(node, "Metaspace")) return read_metaspace(t, node, err);
    if (is_type(node, "Digits"))
        return add_z(t, tern_json__flag(node, "individual_digits", false) ? "\\p{N}" : "\\p{N}+", TERN_SPLIT_ISOLATED,
                     err);
    if (is_type(node, "Whitespace")) return add_z(t, "\\w+|[^\\w\\s]+", TERN_SPLIT_MATCHES, err);
    if (is_type(node, "WhitespaceSplit")) return add_z(t, "\\s", TERN_SPLIT_REMOVED, err);
    if (!is_type(node, "Punctuation")) return fail_node("pre-tokenizer", node, err);
    tern_split_behavior behavior = TERN_SPLIT_ISOLATED;
    if (json_object_get(node, "behavior")) TERN_TRY(read_behavior(node, &behavior, err));
    return add_z(t, "[\\p{P}$+<=>^`|~]", behavior, err);
}

/* True when the node or one inside it is of this type. */
static bool has_type(const json_t *node, const char *type)
{
    const json_t *members = tern_json__members(node, "pretokenizers");
    for (size_t i = 0; i < json_array_size(members); i++)
        if (has_type(json_array_get(members, i), type)) return true;
    return is_type(node, type);
}

tern_status tern_tokenizer__read_pipeline(tern_tokenizer *t, const json_t *normalizer, const json_t *pre,
                                          tern_error *err)
{
    t->vocab.alphabet = has_type(pre, "ByteLevel") ? TERN_ALPHABET_GPT2 : TERN_ALPHABET_BYTES;
    TERN_TRY(read_normalizer(t, normalizer, err));
    return read_pre_tokenizer(t, pre, err);
}
