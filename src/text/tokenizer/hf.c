/* Tokenizers from model folders in the Hugging Face layout, or from one of their files. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"
#include "text/tokenizer/internal.h"

enum { MAX_CONFIG_BYTES = 4 << 20 };

/* The ids and names that the files around the vocabulary give; later files only fill what is still missing. */
static tern_status set_id_of(tern_tokenizer *t, const json_t *object, const char *key, int32_t *out)
{
    const json_t *value = json_object_get(object, key);
    const char *name = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
    if (!name || *out >= 0) return TERN_OK;
    *out = tern_vocab__find_piece(&t->vocab, name, strlen(name));
    return TERN_OK;
}

/* One id, a list of them, or null. The first one becomes *main when that is missing; with `ends` all of them end a
 * text. */
static tern_status read_ids(tern_tokenizer *t, const json_t *object, const char *key, int32_t *main, bool ends,
                            tern_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!tern_json_has(object, key)) return TERN_OK;
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t i = 0; i < n; i++) {
        int64_t id;
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        if (!tern_json_int(item, &id))
            return tern_fail(err, TERN_MALFORMED, "%s: %s found, a token id below %u, a list of them or null expected",
                             key, json_is_number(item) ? "another number" : tern_json_kind(item), t->vocab.n);
        if (id < 0 || id >= t->vocab.n)
            return tern_fail(err, TERN_MALFORMED, "%s: token id %lld, below %u expected", key, (long long)id,
                             t->vocab.n);
        if (*main < 0) *main = (int32_t)id;
        if (ends) TERN_TRY(tern_tokenizer__add_end(t, id, err));
    }
    return TERN_OK;
}

/* A string, or a list of {"name", "template"} of which "default" counts. */
static tern_status read_template(tern_tokenizer *t, const json_t *config, tern_error *err)
{
    const json_t *value = json_object_get(config, "chat_template");
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        const char *name = json_string_value(json_object_get(item, "name"));
        if (!name || strcmp(name, "default") != 0) continue;
        value = json_object_get(item, "template");
        break;
    }
    return json_is_string(value)
               ? tern_tokenizer_set_chat_template(t, json_string_value(value), json_string_length(value), err)
               : TERN_OK;
}

/* "128000": {"content": "<|begin_of_text|>", "special": true, ...} */
static tern_status read_added(tern_tokenizer *t, const json_t *config, tern_error *err)
{
    json_t *added = json_object_get(config, "added_tokens_decoder");
    const char *key;
    json_t *token;
    if (!added || json_object_size(added) == 0) return TERN_OK;
    json_object_foreach(added, key, token)
    {
        char *end;
        unsigned long id = strtoul(key, &end, 10);
        if (end == key || *end || id > INT32_MAX)
            return tern_fail(err, TERN_MALFORMED, "added_tokens_decoder: \"%s\" is not a token id",
                             tern_show_z(key).text);
        const char *content = json_string_value(json_object_get(token, "content"));
        bool there = content && id < t->vocab.n && strlen(content) == t->vocab.entries[id].piece_size &&
                     !memcmp(tern_vocab__piece(&t->vocab, (uint32_t)id).data, content, strlen(content));
        if (there && t->vocab.entries[id].type != TERN_TOKEN_NORMAL && t->vocab.entries[id].type != TERN_TOKEN_USER)
            continue;
        TERN_TRY(tern_tokenizer__add_token(t, (uint32_t)id, token, err));
    }
    return tern_tokenizer__index(t, err);
}

static tern_status read_tokenizer_config(tern_tokenizer *t, const json_t *config, tern_error *err)
{
    const json_t *add_bos = json_object_get(config, "add_bos_token");
    TERN_TRY(read_added(t, config, err));
    TERN_TRY(set_id_of(t, config, "bos_token", &t->bos));
    TERN_TRY(set_id_of(t, config, "eos_token", &t->eos));
    TERN_TRY(set_id_of(t, config, "unk_token", &t->unk));
    TERN_TRY(set_id_of(t, config, "pad_token", &t->pad));
    if (json_is_boolean(add_bos)) {
        t->adds_bos = json_is_true(add_bos);
        t->bos_decided = true;
    }
    if (json_is_true(json_object_get(config, "add_eos_token"))) t->closing = t->eos;
    return read_template(t, config, err);
}

static tern_status read_special_map(tern_tokenizer *t, const json_t *map, tern_error *err)
{
    (void)err;
    TERN_TRY(set_id_of(t, map, "bos_token", &t->bos));
    return set_id_of(t, map, "eos_token", &t->eos);
}

static tern_status read_config(tern_tokenizer *t, const json_t *config, tern_error *err)
{
    const json_t *text = json_object_get(config, "text_config");
    TERN_TRY(read_ids(t, config, "bos_token_id", &t->bos, false, err));
    TERN_TRY(read_ids(t, config, "eos_token_id", &t->eos, true, err));
    return json_is_object(text) ? read_ids(t, text, "eos_token_id", &t->eos, true, err) : TERN_OK;
}

/* Reads one JSON file of the folder when it is there. */
static tern_status with_file(tern_tokenizer *t, const char *dir, const char *name,
                             tern_status (*read)(tern_tokenizer *, const json_t *, tern_error *), tern_error *err)
{
    json_t *root = NULL;
    tern_status status = tern_json_read_last_in(&root, dir, name, MAX_CONFIG_BYTES, err);
    if (status == TERN_NOT_FOUND) return TERN_OK;
    if (status == TERN_OK) {
        status = read(t, root, err);
        if (status != TERN_OK) tern_error_prefix(err, "%s/%s", dir, name);
    }
    tern_json_free(root);
    return status;
}

static tern_status read_template_file(tern_tokenizer *t, const char *dir, tern_error *err)
{
    tern_buf text = {0};
    char *path = tern_path_join(dir, "chat_template.jinja");
    if (!path) return tern_fail_alloc(err, strlen(dir));
    tern_status status = TERN_OK;
    if (tern_file_exists(path)) {
        status = tern_file_read(&text, path, MAX_CONFIG_BYTES, err);
        if (status == TERN_OK) status = tern_tokenizer_set_chat_template(t, text.data ? text.data : "", text.size, err);
    }
    tern_buf_deinit(&text);
    tern_free(path);
    return status;
}

/* The files beside the vocabulary. */
static tern_status read_around(tern_tokenizer *t, const char *dir, tern_error *err)
{
    TERN_TRY(with_file(t, dir, "tokenizer_config.json", read_tokenizer_config, err));
    TERN_TRY(with_file(t, dir, "special_tokens_map.json", read_special_map, err));
    TERN_TRY(with_file(t, dir, "config.json", read_config, err));
    TERN_TRY(with_file(t, dir, "generation_config.json", read_config, err));
    return read_template_file(t, dir, err);
}

/* A rank file is lines of base64; SentencePiece models begin with a field tag, which is not such a character. */
static bool is_tiktoken(tern_span file)
{
    size_t at = 0;
    while (at < file.size && at < 4096 && file.data[at] > 0x20 && file.data[at] < 0x7F) at++;
    return at >= 4 && at + 1 < file.size && file.data[at] == ' ' && file.data[at + 1] >= '0' &&
           file.data[at + 1] <= '9';
}

static bool is_json(tern_span file)
{
    size_t at = 0;
    while (at < file.size && memchr(" \t\r\n", file.data[at], 4)) at++;
    return at < file.size && file.data[at] == '{';
}

static tern_status parse_any(tern_tokenizer **t, tern_span file, tern_error *err)
{
    if (is_json(file)) return tern_tokenizer__read_json(t, file, err);
    if (is_tiktoken(file)) return tern_tokenizer_parse_tiktoken(t, file.data, file.size, NULL, err);
    return tern_tokenizer_parse_sentencepiece(t, file.data, file.size, err);
}

static tern_status open_file(tern_tokenizer **t, const char *path, tern_error *err)
{
    tern_file_map map = {0};
    TERN_TRY(tern_file_map_open(&map, path, err));
    tern_status status = parse_any(t, (tern_span){map.data, map.size}, err);
    if (status != TERN_OK) tern_error_prefix(err, "%s", path);
    tern_file_map_close(&map);
    return status;
}

static tern_status open_vocab(tern_tokenizer **t, const char *dir, tern_error *err)
{
    if (!tern_file_is_dir(dir)) return open_file(t, dir, err);
    static const char *const NAMES[] = {"tokenizer.json", "tokenizer.model"};
    for (int i = 0; i < 2; i++) {
        char *path = tern_path_join(dir, NAMES[i]);
        if (!path) return tern_fail_alloc(err, strlen(dir));
        bool there = tern_file_exists(path);
        tern_status status = there ? open_file(t, path, err) : TERN_OK;
        tern_free(path);
        if (there) return status;
    }
    return tern_fail(err, TERN_NOT_FOUND, "%s: neither tokenizer.json nor tokenizer.model is there", dir);
}

tern_status tern_tokenizer_open_hf(tern_tokenizer **t, const char *dir, tern_error *err)
{
    tern_tokenizer *made = NULL;
    TERN_TRY(open_vocab(&made, dir, err));
    tern_status status;
    TERN_GOTO(tern_file_is_dir(dir) ? read_around(made, dir, err) : TERN_OK);
    TERN_GOTO(tern_tokenizer__finish(made, err));
    *t = made;
    return TERN_OK;
fail:
    tern_tokenizer_close(made);
    return status;
}
