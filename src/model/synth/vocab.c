/* A made-up vocabulary: valid byte-level BPE of any size, without anyone's data. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "format/gguf.h"
#include "model/synth/internal.h"

enum { N_BYTES = 256, N_PAIRS = N_BYTES * N_BYTES, N_COMMON = 40, MAX_PIECE = 48 };

static const char common[N_COMMON + 1] = " etaoinshrdlucmfwygpbvkxqjzETAOIS.,'!?\n\"";

/* A vocabulary while it is made. Spans point into `text`, which must not grow any more when they are taken. */
typedef struct vocab {
    uint8_t order[N_BYTES]; /* bytes, common ones first */
    tern_buf text;
    size_t *ends; /* [n_vocab + n_merges] where each piece and each merge ends in text */
    size_t n;
    tern_span *spans;
    int32_t *types;
} vocab;

static void order_bytes(vocab *v)
{
    bool seen[N_BYTES] = {false};
    size_t n = 0;
    for (size_t i = 0; i < N_COMMON; i++) {
        v->order[n++] = (uint8_t)common[i];
        seen[(uint8_t)common[i]] = true;
    }
    for (int b = 0; b < N_BYTES; b++)
        if (!seen[b]) v->order[n++] = (uint8_t)b;
}

/* GPT-2's alphabet: printable Latin-1 bytes stand for themselves, the others for the characters from 256 on. Source:
 * openai/gpt-2. */
static unsigned add_byte(char *out, uint8_t byte)
{
    unsigned code = 256;
    bool plain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    for (unsigned b = 0; !plain && b < byte; b++) code += !((b >= 33 && b <= 126) || (b >= 161 && b != 173));
    if (plain) code = byte;
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3f));
    return 2;
}

/* The k-th pair of places in `order`, such that both are below s for k < s * s. */
static void pair_places(uint32_t k, uint32_t *left, uint32_t *right)
{
    uint32_t s = 0;
    while ((s + 1) * (s + 1) <= k) s++;
    uint32_t rest = k - s * s;
    *left = rest < s ? rest : s;
    *right = rest < s ? s : rest - s;
}

/* The bytes of token `id` that are not special: one, two or three. */
static unsigned token_bytes(const vocab *v, uint32_t id, uint8_t out[3])
{
    uint32_t left, right, merge = id - N_BYTES;
    out[0] = (uint8_t)id;
    if (id < N_BYTES) return 1;
    uint32_t triple = merge - N_PAIRS;
    bool is_pair = merge < N_PAIRS;
    pair_places(is_pair ? merge : triple / N_COMMON, &left, &right);
    out[0] = v->order[left];
    out[1] = v->order[right];
    if (is_pair) return 2;
    out[2] = v->order[triple % N_COMMON];
    return 3;
}

static tern_status add_text(vocab *v, const char *text, size_t n, tern_error *err)
{
    TERN_TRY(tern_buf_add(&v->text, text, n, err));
    v->ends[v->n++] = v->text.size;
    return TERN_OK;
}

/* The piece of a token; `split` writes it as its merge: a space before its last byte. */
static tern_status add_piece(vocab *v, uint32_t id, bool split, tern_error *err)
{
    uint8_t bytes[3];
    char text[MAX_PIECE];
    size_t size = 0;
    unsigned n = token_bytes(v, id, bytes);
    for (unsigned i = 0; i < n; i++) {
        if (split && i == n - 1) text[size++] = ' ';
        size += add_byte(text + size, bytes[i]);
    }
    return add_text(v, text, size, err);
}

/* Names as LLaMA 3 has them; the ids between hold reserved tokens. */
static tern_status add_special(vocab *v, uint32_t i, tern_error *err)
{
    static const char *const named[] = {[0] = "<|begin_of_text|>",
                                        [1] = "<|end_of_text|>",
                                        [6] = "<|start_header_id|>",
                                        [7] = "<|end_header_id|>",
                                        [9] = "<|eot_id|>"};
    char text[MAX_PIECE];
    bool has_name = i < sizeof named / sizeof *named && named[i];
    if (has_name) snprintf(text, sizeof text, "%s", named[i]);
    else snprintf(text, sizeof text, "<|reserved_special_token_%u|>", i);
    return add_text(v, text, strlen(text), err);
}

static tern_status fill(vocab *v, uint32_t n_vocab, uint32_t n_special, tern_error *err)
{
    uint32_t n_plain = n_vocab - n_special;
    order_bytes(v);
    for (uint32_t id = 0; id < n_plain; id++) TERN_TRY(add_piece(v, id, false, err));
    for (uint32_t i = 0; i < n_special; i++) TERN_TRY(add_special(v, i, err));
    for (uint32_t id = N_BYTES; id < n_plain; id++) TERN_TRY(add_piece(v, id, true, err));
    for (size_t i = 0; i < v->n; i++) {
        size_t start = i ? v->ends[i - 1] : 0;
        v->spans[i] = (tern_span){(const uint8_t *)v->text.data + start, v->ends[i] - start};
    }
    for (uint32_t id = 0; id < n_vocab; id++) v->types[id] = id < n_plain ? 1 : 3; /* normal, control */
    return TERN_OK;
}

static tern_status write_keys(const vocab *v, uint32_t n_vocab, uint32_t n_special, tern_gguf_writer *w,
                              tern_error *err)
{
    TERN_TRY(tern_gguf_add_string(w, "tokenizer.ggml.model", "gpt2", 4, err));
    TERN_TRY(tern_gguf_add_string(w, "tokenizer.ggml.pre", "llama-bpe", 9, err));
    TERN_TRY(tern_gguf_add_array(w, "tokenizer.ggml.tokens", TERN_GGUF_STRING, v->spans, n_vocab, err));
    TERN_TRY(tern_gguf_add_array(w, "tokenizer.ggml.token_type", TERN_GGUF_I32, v->types, n_vocab, err));
    TERN_TRY(
        tern_gguf_add_array(w, "tokenizer.ggml.merges", TERN_GGUF_STRING, v->spans + n_vocab, v->n - n_vocab, err));
    TERN_TRY(tern_gguf_add_u32(w, "tokenizer.ggml.bos_token_id", n_vocab - n_special, err));
    TERN_TRY(tern_gguf_add_u32(w, "tokenizer.ggml.eos_token_id", n_vocab - n_special + 1, err));
    return tern_gguf_add_bool(w, "tokenizer.ggml.add_bos_token", true, err);
}

tern_status tern_synth__vocab(uint32_t n_vocab, uint32_t n_special, tern_gguf_writer *w, tern_error *err)
{
    size_t n = (size_t)n_vocab * 2;
    vocab v = {.ends = tern_calloc(n, sizeof *v.ends),
               .spans = tern_calloc(n, sizeof *v.spans),
               .types = tern_calloc(n_vocab, sizeof *v.types)};
    tern_status status = TERN_OK;
    if (!v.ends || !v.spans || !v.types) status = tern_fail_alloc(err, n * sizeof *v.spans);
    if (status == TERN_OK) status = fill(&v, n_vocab, n_special, err);
    if (status == TERN_OK) status = write_keys(&v, n_vocab, n_special, w, err);
    tern_buf_deinit(&v.text);
    tern_free(v.ends);
    tern_free(v.spans);
    tern_free(v.types);
    return status;
}
