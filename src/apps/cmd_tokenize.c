/* tern tokenize: text to token ids, and back. */
#include <string.h>

#include "apps/app.h"
#include "base/file.h"
#include "base/show.h"
#include "format/gguf.h"
#include "model/package.h"

static const tern_flag flags[] = {
    {"prompt", 'p', TERN_FLAG_TEXT, "TEXT", offsetof(tern_options, prompt), 0, 0,
     "The text (or the ids, with --decode)"},
    {"file", 'f', TERN_FLAG_TEXT, "FILE", offsetof(tern_options, file), 0, 0,
     "The text from a file; standard input when nothing is given"},
    {"ids", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, show_ids), 0, 0, "Ids alone, on one line"},
    {"decode", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, decode), 0, 0, "Ids to text"},
    {"special", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, special), 0, 0,
     "Special tokens are read in text, and shown by --decode"},
    {"json", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, json), 0, 0, "JSON"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags}, {"Model", tern_flags_model}, {0}};

static tern_status read_text(const tern_options *o, tern_buf *text, tern_error *err)
{
    const char *given = o->prompt ? o->prompt : o->args.n ? o->args.items[0] : NULL;
    if (given && (o->file || (o->prompt && o->args.n)))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "the text is given twice: one of TEXT, --prompt and --file expected");
    if (given) return tern_buf_add(text, given, strlen(given), err);
    return tern_app_read_text(o->file ? o->file : "-", text, err);
}

static json_t *token_json(const tern_tokenizer *t, int32_t id)
{
    tern_span piece = tern_token_piece(t, id);
    return json_pack("{s:i, s:o}", "id", (int)id, "piece", tern_app_json_text(piece.data, piece.size));
}

static tern_status print_tokens_json(const tern_tokenizer *t, const tern_tokens *tokens, tern_error *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < tokens->n; i++) json_array_append_new(list, token_json(t, tokens->ids[i]));
    return tern_app_print_json(json_pack("{s:i, s:o}", "count", (int)tokens->n, "tokens", list), err);
}

static void print_tokens(const tern_tokenizer *t, const tern_tokens *tokens, bool ids_only)
{
    for (size_t i = 0; i < tokens->n && ids_only; i++) printf("%s%d", i ? " " : "", tokens->ids[i]);
    if (ids_only) putchar('\n');
    for (size_t i = 0; i < tokens->n && !ids_only; i++) {
        tern_span piece = tern_token_piece(t, tokens->ids[i]);
        printf("%7d  %.*s\n", tokens->ids[i], (int)piece.size, (const char *)piece.data);
    }
}

static tern_status encode(const tern_tokenizer *t, const tern_options *o, const tern_buf *text, tern_error *err)
{
    tern_tokens tokens = {0};
    tern_status status = tern_tokenize(t, text->data, text->size, o->special, &tokens, err);
    if (status == TERN_OK && o->json) status = print_tokens_json(t, &tokens, err);
    else if (status == TERN_OK) print_tokens(t, &tokens, o->show_ids);
    tern_tokens_deinit(&tokens);
    return status;
}

static tern_status check_ids(const tern_tokenizer *t, const tern_tokens *tokens, tern_error *err)
{
    uint32_t n = tern_tokenizer_size(t);
    for (size_t i = 0; i < tokens->n; i++)
        if ((uint32_t)tokens->ids[i] >= n)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "token %zu is id %d: 0 to %u expected", i, tokens->ids[i],
                             n - 1);
    return TERN_OK;
}

static tern_status decode(const tern_tokenizer *t, const tern_options *o, const tern_buf *text, tern_error *err)
{
    tern_tokens tokens = {0};
    tern_buf out = {0};
    tern_status status = tern_app_parse_ids(text->data ? text->data : "", &tokens, err);
    if (status == TERN_OK) status = check_ids(t, &tokens, err);
    if (status == TERN_OK) status = tern_detokenize(t, tokens.ids, tokens.n, o->special, &out, err);
    if (status == TERN_OK && o->json)
        status = tern_app_print_json(
            json_pack("{s:i, s:o}", "count", (int)tokens.n, "text", tern_app_json_text(out.data, out.size)), err);
    else if (status == TERN_OK) tern_app_write(out.data, out.size);
    tern_buf_deinit(&out);
    tern_tokens_deinit(&tokens);
    return status;
}

typedef struct head {
    tern_tokenizer **tokenizer;
    uint64_t file_bytes;
} head;

static tern_status take_head(void *context, const void *bytes, size_t n, uint64_t *wanted, tern_error *err)
{
    const head *h = context;
    tern_gguf *gguf = NULL;
    TERN_TRY(tern_gguf_parse_head(&gguf, bytes, n, h->file_bytes, wanted, err));
    tern_status status = tern_tokenizer_open_gguf(h->tokenizer, gguf, err);
    tern_gguf_close(gguf);
    return status;
}

static tern_status open_package(const char *path, tern_tokenizer **t, tern_error *err)
{
    tern_package *p;
    TERN_TRY(tern_package_open(&p, path, NULL, err));
    head h = {t, tern_package_manifest(p)->bytes};
    tern_status status = tern_package_head(p, take_head, &h, err);
    tern_package_close(p);
    return status;
}

/* The tokenizer alone, without the weights: a file may hold nothing else. */
static tern_status open_tokenizer(const tern_options *o, tern_tokenizer **t, tern_error *err)
{
    tern_app_path path;
    tern_file_map map = {0};
    tern_gguf *gguf = NULL;
    TERN_TRY(tern_app_find_model(o, &path, err));
    if (tern_package_is(path.text)) return open_package(path.text, t, err);
    if (tern_file_is_dir(path.text)) return tern_tokenizer_open_hf(t, path.text, err);
    TERN_TRY(tern_file_map_open(&map, path.text, err));
    tern_status status = tern_gguf_parse(&gguf, map.data, map.size, err);
    if (status == TERN_OK) status = tern_tokenizer_open_gguf(t, gguf, err);
    if (status != TERN_OK) tern_error_prefix(err, "%s", tern_show_z(path.text).text);
    tern_gguf_close(gguf);
    tern_file_map_close(&map);
    return status;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    tern_tokenizer *t = NULL;
    tern_buf text = {0};
    tern_status status = read_text(o, &text, err);
    if (status == TERN_OK) status = open_tokenizer(o, &t, err);
    if (status == TERN_OK) status = o->decode ? decode(t, o, &text, err) : encode(t, o, &text, err);
    tern_tokenizer_close(t);
    tern_buf_deinit(&text);
    return status;
}

const tern_command tern_command_tokenize = {
    .name = "tokenize",
    .usage = "-m MODEL [TEXT] [--ids] [--decode]",
    .summary = "Turn text into token ids, and ids into text",
    .detail = "Without --special every byte is text: what spells a special token is not one. No BOS is added.",
    .groups = groups,
    .max_args = 1,
    .run = run,
};
