/* tiktoken rank files: one line for each token, its bytes in base64 and its rank. */
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "text/tokenizer/internal.h"

static int base64_digit(uint8_t c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes into out (room for n); SIZE_MAX when it is not base64 with its padding. */
static size_t decode_base64(uint8_t *out, tern_span in)
{
    size_t size = 0, padding = 0;
    if (in.size == 0 || in.size % 4) return SIZE_MAX;
    while (padding < 2 && in.data[in.size - 1 - padding] == '=') padding++;
    uint32_t bits = 0;
    for (size_t i = 0; i < in.size; i++) {
        int digit = i >= in.size - padding ? 0 : base64_digit(in.data[i]);
        if (digit < 0) return SIZE_MAX;
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4 != 3) continue;
        out[size++] = (uint8_t)(bits >> 16);
        out[size++] = (uint8_t)(bits >> 8);
        out[size++] = (uint8_t)bits;
    }
    return size - padding;
}

static bool parse_rank(tern_span digits, uint32_t *rank)
{
    uint64_t value = 0;
    if (digits.size == 0 || digits.size > 9) return false;
    for (size_t i = 0; i < digits.size; i++) {
        if (digits.data[i] < '0' || digits.data[i] > '9') return false;
        value = value * 10 + (digits.data[i] - '0');
    }
    *rank = (uint32_t)value;
    return true;
}

static bool next_line(tern_span *rest, tern_span *line)
{
    if (rest->size == 0) return false;
    const uint8_t *end = memchr(rest->data, '\n', rest->size);
    size_t n = end ? (size_t)(end - rest->data) : rest->size;
    *line = (tern_span){rest->data, n};
    rest->data += n + (end != NULL);
    rest->size -= n + (end != NULL);
    if (line->size && line->data[line->size - 1] == '\r') line->size--;
    return true;
}

static size_t count_lines(tern_span text)
{
    size_t n = 0;
    for (tern_span line; next_line(&text, &line);) n += line.size > 0;
    return n;
}

static tern_status add_line(tern_vocab *v, tern_span line, size_t number, tern_buf *scratch, tern_error *err)
{
    const uint8_t *space = memchr(line.data, ' ', line.size);
    if (!space)
        return tern_fail(err, TERN_MALFORMED, "line %zu \"%s\": base64, a space and a rank expected", number,
                         tern_show(line).text);
    tern_span code = {line.data, (size_t)(space - line.data)}, digits = {space + 1, line.size - code.size - 1};
    uint32_t rank;
    if (!parse_rank(digits, &rank) || rank >= v->n)
        return tern_fail(err, TERN_MALFORMED, "line %zu: rank \"%s\", a number below %u expected", number,
                         tern_show(digits).text, v->n);
    scratch->size = 0;
    TERN_TRY(tern_buf_add(scratch, code.data, code.size, err));
    size_t size = decode_base64((uint8_t *)scratch->data, code);
    if (size == SIZE_MAX || size == 0)
        return tern_fail(err, TERN_MALFORMED, "line %zu: \"%s\" is not base64", number, tern_show(code).text);
    tern_status status = tern_vocab__set_text(v, rank, scratch->data, size, TERN_TOKEN_NORMAL, err);
    return status == TERN_OK ? TERN_OK : (tern_error_prefix(err, "line %zu", number), status);
}

static tern_status add_lines(tern_vocab *v, tern_span text, tern_error *err)
{
    tern_buf scratch = {0};
    tern_status status = TERN_OK;
    tern_span line;
    for (size_t number = 1; status == TERN_OK && next_line(&text, &line); number++)
        if (line.size) status = add_line(v, line, number, &scratch, err);
    tern_buf_deinit(&scratch);
    return status;
}

static tern_status add_special(tern_vocab *v, const char *name, tern_error *err)
{
    TERN_TRY(tern_vocab__resize(v, v->n + 1, err));
    return tern_vocab__set(v, v->n - 1, name, strlen(name), TERN_TOKEN_CONTROL, 0, err);
}

/* The 256 special tokens that follow LLaMA-3's ranks. Source: Meta's llama3 release, tokenizer.py. */
static tern_status add_llama3_specials(tern_tokenizer *t, tern_error *err)
{
    static const char *const NAMES[10] = {"<|begin_of_text|>",   "<|end_of_text|>",   NULL, NULL,        NULL, NULL,
                                          "<|start_header_id|>", "<|end_header_id|>", NULL, "<|eot_id|>"};
    int32_t first = (int32_t)t->vocab.n;
    for (int i = 0, reserved = 0; i < 256; i++) {
        char name[48];
        if (i < 10 && NAMES[i]) snprintf(name, sizeof name, "%s", NAMES[i]);
        else snprintf(name, sizeof name, "<|reserved_special_token_%d|>", reserved++);
        TERN_TRY(add_special(&t->vocab, name, err));
    }
    t->bos = first;
    t->eos = first + 1;
    t->eot = first + 9;
    t->bos_decided = t->adds_bos = true;
    return TERN_OK;
}

static tern_status check_bytes(const tern_vocab *v, tern_error *err)
{
    for (int byte = 0; byte < 256; byte++)
        if (v->byte_ids[byte] < 0) return tern_fail(err, TERN_MALFORMED, "no token for the single byte 0x%02X", byte);
    return TERN_OK;
}

static tern_status build(tern_tokenizer *t, tern_span text, const char *pattern, tern_error *err)
{
    t->vocab.alphabet = TERN_ALPHABET_GPT2;
    t->rule = TERN_MERGE_RANKS;
    t->ignore_merges = true;
    TERN_TRY(tern_vocab__resize(&t->vocab, count_lines(text), err));
    TERN_TRY(tern_vocab__reserve(&t->vocab, text.size, err));
    TERN_TRY(add_lines(&t->vocab, text, err));
    if (!pattern) TERN_TRY(add_llama3_specials(t, err));
    TERN_TRY(tern_tokenizer__index(t, err));
    TERN_TRY(check_bytes(&t->vocab, err));
    if (pattern)
        TERN_TRY(tern_pretokenizer__add(&t->pre, (tern_span){(const uint8_t *)pattern, strlen(pattern)},
                                        TERN_SPLIT_ISOLATED, err));
    else TERN_TRY(tern_pretokenizer__add_row(&t->pre, tern_pretokenizer__find("llama-bpe", 9), err));
    return tern_tokenizer__finish(t, err);
}

tern_status tern_tokenizer_parse_tiktoken(tern_tokenizer **t, const void *data, size_t size, const char *pattern,
                                          tern_error *err)
{
    tern_tokenizer *made = NULL;
    TERN_TRY(tern_tokenizer__alloc(&made, err));
    tern_status status = build(made, (tern_span){data, size}, pattern, err);
    if (status == TERN_OK) *t = made;
    else tern_tokenizer_close(made);
    return status;
}
