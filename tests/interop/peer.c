/* What the tests of tests/interop ask of Tern: one JSON object a line on standard input, one a line on standard output.
 *
 *   {"open": PATH}                    the tokenizer of a GGUF file or a Hugging Face folder  {"seconds", "size", "bos"}
 *   {"encode": TEXT, "special": BOOL} token ids                                              {"ids"}
 *   {"encode_hex": HEX}               the same for any bytes, none of them special           {"ids"}
 *   {"decode": IDS, "special": BOOL}  the bytes of their text                                {"hex"}
 *   {"gguf": PATH}                    writes a GGUF file of the vocabulary alone             {}
 *   {"template": JINJA, "bos": TEXT, "eos": TEXT, "variables": OBJECT}  the rendered text    {"hex"}
 *   {"document": OBJECT, "template": JINJA}  what is learned of a line of training data, by the open tokenizer: its
 *                                     text in parts, of which each is in the loss or not     {"parts": [[TEXT, BOOL]]}
 *   {"builtin": NAME}                 the Jinja text of a well-known template                {"text"}
 *   {"family": ARCHITECTURE}          its template's name, by the open tokenizer, or null    {"name"}
 *
 * What fails answers {"error": MESSAGE}. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "format/gguf.h"
#include "format/json.h"
#include "tern.h"
#include "text/chat/template.h"
#include "train/data/document.h"

enum { MAX_LINE = 64 << 20, NOW = 1750000000 };

static tern_tokenizer *tokenizer;

static tern_status need_tokenizer(tern_error *err)
{
    return tokenizer ? TERN_OK : tern_fail(err, TERN_INVALID_ARGUMENT, "no tokenizer is open");
}

static double seconds_now(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static json_t *hex_of(const char *bytes, size_t n)
{
    static const char DIGITS[] = "0123456789abcdef";
    char *text = tern_alloc(2 * n + 1);
    if (!text) return NULL;
    for (size_t i = 0; i < n; i++) {
        text[2 * i] = DIGITS[(uint8_t)bytes[i] >> 4];
        text[2 * i + 1] = DIGITS[(uint8_t)bytes[i] & 15];
    }
    json_t *made = json_stringn(text, 2 * n);
    tern_free(text);
    return made;
}

static tern_status bytes_of(const char *hex, tern_buf *out, tern_error *err)
{
    TERN_TRY(tern_buf_add(out, "", 0, err));
    for (unsigned value; sscanf(hex, "%2x", &value) == 1; hex += 2) {
        char byte = (char)(uint8_t)value;
        TERN_TRY(tern_buf_add(out, &byte, 1, err));
    }
    return TERN_OK;
}

static tern_status answer_open(const json_t *ask, json_t *answer, tern_error *err)
{
    double start = seconds_now();
    tern_tokenizer_close(tokenizer);
    tokenizer = NULL;
    TERN_TRY(tern_tokenizer_load(&tokenizer, json_string_value(json_object_get(ask, "open")), err));
    json_object_set_new(answer, "seconds", json_real(seconds_now() - start));
    json_object_set_new(answer, "size", json_integer(tern_tokenizer_size(tokenizer)));
    json_object_set_new(answer, "bos", json_integer(tern_tokenizer_bos(tokenizer)));
    return TERN_OK;
}

static tern_status encode(const char *text, size_t n, bool special, json_t *answer, tern_error *err)
{
    tern_tokens tokens = {0};
    double start = seconds_now();
    tern_status status = tern_tokenize(tokenizer, text, n, special, &tokens, err);
    json_t *ids = json_array();
    for (size_t i = 0; i < tokens.n; i++) json_array_append_new(ids, json_integer(tokens.ids[i]));
    json_object_set_new(answer, "ids", ids);
    json_object_set_new(answer, "seconds", json_real(seconds_now() - start));
    tern_tokens_deinit(&tokens);
    return status;
}

static tern_status answer_encode(const json_t *ask, json_t *answer, tern_error *err)
{
    const json_t *text = json_object_get(ask, "encode");
    TERN_TRY(need_tokenizer(err));
    return encode(json_string_value(text), json_string_length(text), json_is_true(json_object_get(ask, "special")),
                  answer, err);
}

static tern_status answer_encode_hex(const json_t *ask, json_t *answer, tern_error *err)
{
    tern_buf bytes = {0};
    tern_status status;
    TERN_GOTO(need_tokenizer(err));
    TERN_GOTO(bytes_of(json_string_value(json_object_get(ask, "encode_hex")), &bytes, err));
    TERN_GOTO(encode(bytes.data, bytes.size, false, answer, err));
fail:
    tern_buf_deinit(&bytes);
    return status;
}

static tern_status answer_decode(const json_t *ask, json_t *answer, tern_error *err)
{
    const json_t *list = json_object_get(ask, "decode");
    tern_tokens tokens = {0};
    tern_buf out = {0};
    tern_status status;
    TERN_GOTO(need_tokenizer(err));
    for (size_t i = 0; i < json_array_size(list); i++)
        TERN_GOTO(tern_tokens_add(&tokens, (int32_t)json_number_value(json_array_get(list, i)), err));
    TERN_GOTO(
        tern_detokenize(tokenizer, tokens.ids, tokens.n, json_is_true(json_object_get(ask, "special")), &out, err));
    json_object_set_new(answer, "hex", hex_of(out.data, out.size));
fail:
    tern_buf_deinit(&out);
    tern_tokens_deinit(&tokens);
    return status;
}

/* What llama.cpp asks of a file before its vocabulary: an architecture and its sizes. */
static tern_status add_sizes(tern_gguf_writer *w, tern_error *err)
{
    static const struct {
        const char *key;
        uint32_t value;
    } SIZES[] = {{"llama.context_length", 64},      {"llama.embedding_length", 64},
                 {"llama.block_count", 1},          {"llama.feed_forward_length", 64},
                 {"llama.attention.head_count", 1}, {"llama.rope.dimension_count", 64}};
    TERN_TRY(tern_gguf_add_string(w, "general.architecture", "llama", 5, err));
    TERN_TRY(tern_gguf_add_string(w, "general.name", "vocabulary", 10, err));
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++)
        TERN_TRY(tern_gguf_add_u32(w, SIZES[i].key, SIZES[i].value, err));
    return tern_gguf_add_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f, err);
}

static tern_status answer_gguf(const json_t *ask, json_t *answer, tern_error *err)
{
    tern_gguf_writer *w;
    tern_status status;
    (void)answer;
    TERN_TRY(need_tokenizer(err));
    TERN_TRY(tern_gguf_writer_open(&w, json_string_value(json_object_get(ask, "gguf")), err));
    TERN_GOTO(add_sizes(w, err));
    TERN_GOTO(tern_tokenizer_write_gguf(tokenizer, 0, w, err));
    TERN_GOTO(tern_gguf_writer_begin_data(w, err));
    return tern_gguf_writer_commit(w, err);
fail:
    tern_gguf_writer_abort(w);
    return status;
}

static tern_status answer_template(const json_t *ask, json_t *answer, tern_error *err)
{
    const json_t *source = json_object_get(ask, "template");
    tern_chat_template *t = NULL;
    tern_buf out = {0};
    tern_status status;
    TERN_GOTO(tern_chat_template_parse(&t, json_string_value(source), json_string_length(source), err));
    tern_chat_template_set_now(t, NOW);
    TERN_GOTO(tern_chat_template_json(t, json_string_value(json_object_get(ask, "bos")),
                                      json_string_value(json_object_get(ask, "eos")), json_object_get(ask, "variables"),
                                      &out, err));
    json_object_set_new(answer, "hex", hex_of(out.data, out.size));
fail:
    tern_buf_deinit(&out);
    tern_chat_template_close(t);
    return status;
}

/* Adds the tokens [from, to), which all count in the loss or all do not. */
static tern_status add_part(const tern_train_document *d, size_t from, size_t to, json_t *parts, tern_error *err)
{
    tern_buf text = {0};
    tern_status status;
    TERN_GOTO(tern_buf_add(&text, "", 0, err));
    for (size_t i = from; i < to; i++) {
        const tern_span bytes = tern_token_bytes(tokenizer, d->ids.ids[i], true);
        TERN_GOTO(tern_buf_add(&text, bytes.data, bytes.size, err));
    }
    json_array_append_new(parts, json_pack("[s%, b]", text.data, text.size, d->in_loss.data[from]));
fail:
    tern_buf_deinit(&text);
    return status;
}

static tern_status add_parts(const tern_train_document *d, json_t *parts, tern_error *err)
{
    for (size_t from = 0, to; from < d->ids.n; from = to) {
        for (to = from + 1; to < d->ids.n && d->in_loss.data[to] == d->in_loss.data[from];) to++;
        TERN_TRY(add_part(d, from, to, parts, err));
    }
    return TERN_OK;
}

static tern_status answer_document(const json_t *ask, json_t *answer, tern_error *err)
{
    const json_t *source = json_object_get(ask, "template");
    tern_train_document d = {0};
    tern_chat_template *t = NULL;
    json_t *parts = json_array();
    tern_status status;
    TERN_GOTO(need_tokenizer(err));
    TERN_GOTO(tern_chat_template_parse(&t, json_string_value(source), json_string_length(source), err));
    tern_chat_template_set_now(t, NOW);
    const tern_train_maker maker = {.n_vocab = tern_tokenizer_size(tokenizer), .tokenizer = tokenizer, .template = t};
    TERN_GOTO(tern_train_document_value(&maker, json_object_get(ask, "document"), "line", &d, err));
    TERN_GOTO(add_parts(&d, parts, err));
    json_object_set(answer, "parts", parts);
fail:
    json_decref(parts);
    tern_train_document_deinit(&d);
    tern_chat_template_close(t);
    return status;
}

static tern_status answer_builtin(const json_t *ask, json_t *answer, tern_error *err)
{
    const char *name = json_string_value(json_object_get(ask, "builtin"));
    const char *text = tern_chat_template_builtin(name);
    if (!text) return tern_fail(err, TERN_NOT_FOUND, "no template \"%s\"", name);
    json_object_set_new(answer, "text", json_string(text));
    return TERN_OK;
}

static tern_status answer_family(const json_t *ask, json_t *answer, tern_error *err)
{
    TERN_TRY(need_tokenizer(err));
    const char *name = tern_chat_template_of_family(tokenizer, json_string_value(json_object_get(ask, "family")));
    json_object_set_new(answer, "name", name ? json_string(name) : json_null());
    return TERN_OK;
}

static tern_status answer_line(const char *line, json_t *answer, tern_error *err)
{
    static const struct {
        const char *key;
        tern_status (*answer)(const json_t *, json_t *, tern_error *);
    } ASKS[] = {{"open", answer_open},         {"encode", answer_encode},   {"encode_hex", answer_encode_hex},
                {"decode", answer_decode},     {"gguf", answer_gguf},       {"document", answer_document},
                {"template", answer_template}, {"builtin", answer_builtin}, {"family", answer_family}};
    json_t *ask = NULL;
    TERN_TRY(tern_json_parse(&ask, line, strlen(line), "request", err));
    tern_status status;
    size_t i = 0, n = sizeof ASKS / sizeof ASKS[0];
    while (i < n && !json_object_get(ask, ASKS[i].key)) i++;
    if (i < n) status = ASKS[i].answer(ask, answer, err);
    else status = tern_fail(err, TERN_INVALID_ARGUMENT, "an unknown request");
    tern_json_free(ask);
    return status;
}

int main(void)
{
    char *line = tern_alloc(MAX_LINE);
    if (!line) return 1;
    tern_json_use_allocator();
    while (fgets(line, MAX_LINE, stdin)) {
        tern_error err = {0};
        json_t *answer = json_object();
        if (answer_line(line, answer, &err) != TERN_OK) json_object_set_new(answer, "error", json_string(err.message));
        json_dumpf(answer, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(answer);
    }
    tern_tokenizer_close(tokenizer);
    tern_free(line);
    return 0;
}
