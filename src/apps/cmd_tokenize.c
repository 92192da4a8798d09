/* tern tokenize: text to token ids, and back. */
#include <string.h>

#include "apps/open.h"
#include "base/bytes.h"

static const tern_flag flags[] = {
    {"prompt", 'p', TERN_FLAG_TEXT, "TEXT", offsetof(tern_options, prompt), 0, 0,
     "The text (or the ids, with --decode)"},
    {"file", 'f', TERN_FLAG_TEXT, "FILE", offsetof(tern_options, file), 0, 0,
     "The text from a file; standard input when nothing is given"},
    {"ids", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, show_ids), 0, 0, "Print only the ids, on one line"},
    {"decode", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, decode), 0, 0, "Turn ids into text"},
    {"special", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, special), 0, 0,
     "Special tokens are read in text, and shown by --decode"},
    {"json", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, json), 0, 0, "Print JSON"},
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
    size_t n;
    const char *piece = tern_tokenizer_piece(t, id, &n);
    return json_pack("{s:i, s:o}", "id", (int)id, "piece", tern_app_json_text(piece, n));
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
        size_t n;
        const char *piece = tern_tokenizer_piece(t, tokens->ids[i], &n);
        printf("%7d  ", tokens->ids[i]);
        tern_app_write_text(piece, n);
        putchar('\n');
    }
}

static tern_status encode(const tern_tokenizer *t, const tern_options *o, const tern_buf *text, tern_error *err)
{
    tern_tokens tokens = {0};
    tern_status status;
    TERN_GOTO(tern_tokenizer_encode(t, text->data, text->size, o->special ? TERN_TOKENIZE_SPECIAL : 0, &tokens, err));
    if (o->json) status = print_tokens_json(t, &tokens, err);
    else print_tokens(t, &tokens, o->show_ids);
fail:
    tern_tokens_deinit(&tokens);
    return status;
}

static tern_status decode(const tern_tokenizer *t, const tern_options *o, const tern_buf *text, tern_error *err)
{
    tern_tokens tokens = {0};
    tern_buf out = {0};
    tern_status status;
    TERN_GOTO(tern_app_parse_ids(text->data ? text->data : "", &tokens, err));
    TERN_GOTO(tern_tokenizer_decode(t, tokens.ids, tokens.n, o->special, &out, err));
    if (o->json)
        status = tern_app_print_json(
            json_pack("{s:i, s:o}", "count", (int)tokens.n, "text", tern_app_json_text(out.data, out.size)), err);
    else tern_app_write_text(out.data, out.size);
fail:
    tern_buf_deinit(&out);
    tern_tokens_deinit(&tokens);
    return status;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    tern_tokenizer *t = NULL;
    tern_app_path path;
    tern_buf text = {0};
    tern_status status;
    TERN_GOTO(read_text(o, &text, err));
    TERN_GOTO(tern_app_find_model(o, &path, err));
    TERN_GOTO(tern_tokenizer_load(&t, path.text, err));
    status = o->decode ? decode(t, o, &text, err) : encode(t, o, &text, err);
fail:
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
