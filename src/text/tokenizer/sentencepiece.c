/* SentencePiece model files (tokenizer.model): a protobuf message, read field by field. */
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "text/tokenizer/internal.h"

/* One field of a protobuf message. */
typedef struct field {
    uint32_t number;
    unsigned wire; /* 0 varint, 1 eight bytes, 2 bytes, 5 four bytes */
    uint64_t value;
    tern_span bytes;
} field;

static uint64_t read_varint(tern_cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = tern_cursor_u8(c);
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) return value;
    }
    c->bad = true;
    return 0;
}

/* The next field; false at the end, and when the message is cut or malformed (then the cursor is bad). */
static bool next_field(tern_cursor *c, field *f)
{
    if (tern_cursor_left(c) == 0) return false;
    uint64_t tag = read_varint(c);
    *f = (field){.number = (uint32_t)(tag >> 3), .wire = (unsigned)(tag & 7)};
    switch (f->wire) {
    case 0: f->value = read_varint(c); break;
    case 1: f->value = tern_cursor_u64(c); break;
    case 5: f->value = tern_cursor_u32(c); break;
    case 2: {
        uint64_t n = read_varint(c);
        f->bytes.size = n > SIZE_MAX ? SIZE_MAX : (size_t)n;
        f->bytes.data = tern_cursor_take(c, f->bytes.size);
        break;
    }
    default: c->bad = true;
    }
    if (tag >> 3 == 0 || tag >> 32) c->bad = true;
    return !c->bad;
}

static tern_status fail_message(const char *what, size_t at, tern_error *err)
{
    return tern_fail(err, TERN_MALFORMED, "SentencePiece model: %s is not a protobuf message, at its byte %zu", what,
                     at);
}

static tern_status read_piece(tern_vocab *v, tern_span message, tern_error *err)
{
    tern_cursor c = tern_cursor_open(message.data, message.size);
    tern_span piece = {(const uint8_t *)"", 0};
    float score = 0;
    uint64_t type = TERN_TOKEN_NORMAL;
    for (field f; next_field(&c, &f);) {
        if (f.number == 1 && f.wire == 2) piece = f.bytes;
        if (f.number == 2 && f.wire == 5) {
            uint32_t bits = (uint32_t)f.value;
            memcpy(&score, &bits, sizeof score);
        }
        if (f.number == 3 && f.wire == 0) type = f.value;
    }
    if (c.bad) return fail_message("a piece", c.at, err);
    if (type > TERN_TOKEN_BYTE) type = 0;
    TERN_TRY(tern_vocab__resize(v, (size_t)v->n + 1, err));
    return tern_vocab__set(v, v->n - 1, piece.data, piece.size, (tern_token_type)type, score, err);
}

/* The trainer's settings about the model, with the format's defaults. */
typedef struct trainer {
    uint64_t model_type; /* 1 unigram, 2 BPE, 3 word, 4 char */
    uint64_t byte_fallback, suffix;
    uint64_t unk, bos, eos, pad; /* as 64-bit two's complement */
} trainer;

static tern_status read_trainer(trainer *out, tern_span message, tern_error *err)
{
    tern_cursor c = tern_cursor_open(message.data, message.size);
    for (field f; next_field(&c, &f);) {
        if (f.wire != 0) continue;
        switch (f.number) {
        case 3: out->model_type = f.value; break;
        case 24: out->suffix = f.value; break;
        case 35: out->byte_fallback = f.value; break;
        case 40: out->unk = f.value; break;
        case 41: out->bos = f.value; break;
        case 42: out->eos = f.value; break;
        case 43: out->pad = f.value; break;
        default: break;
        }
    }
    return c.bad ? fail_message("trainer_spec", c.at, err) : TERN_OK;
}

static tern_status read_normalizer(tern_normalizer *norm, tern_span message, tern_error *err)
{
    tern_cursor c = tern_cursor_open(message.data, message.size);
    for (field f; next_field(&c, &f);) {
        if (f.number == 2 && f.wire == 2) {
            tern_charsmap__deinit(&norm->charsmap);
            TERN_TRY(tern_charsmap__open(&norm->charsmap, f.bytes, err));
        }
        if (f.wire != 0) continue;
        if (f.number == 3) norm->prefix = f.value ? TERN_PREFIX_ALWAYS : TERN_PREFIX_NEVER;
        if (f.number == 4) norm->remove_extra = f.value != 0;
        if (f.number == 5) norm->escape = f.value != 0;
    }
    return c.bad ? fail_message("normalizer_spec", c.at, err) : TERN_OK;
}

static tern_status check_model_type(const trainer *spec, tern_error *err)
{
    static const char *const NAMES[] = {"0", "unigram", "BPE", "word", "char"};
    if (spec->model_type == 2) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "SentencePiece model of type %s: BPE expected",
                     NAMES[spec->model_type <= 4 ? spec->model_type : 0]);
}

static tern_status read_model(tern_tokenizer *t, trainer *spec, tern_span file, tern_error *err)
{
    tern_cursor c = tern_cursor_open(file.data, file.size);
    for (field f; next_field(&c, &f);) {
        if (f.wire != 2) continue;
        if (f.number == 1) TERN_TRY(read_piece(&t->vocab, f.bytes, err));
        if (f.number == 2) TERN_TRY(read_trainer(spec, f.bytes, err));
        if (f.number == 3) TERN_TRY(read_normalizer(&t->norm, f.bytes, err));
    }
    return c.bad ? fail_message("the file", c.at, err) : TERN_OK;
}

/* -1 where there is none; ids beyond the vocabulary are refused later, with their name. */
static int32_t to_id(uint64_t value)
{
    int64_t id = (int64_t)value;
    return id < 0 ? -1 : id > INT32_MAX ? INT32_MAX : (int32_t)id;
}

static tern_status build(tern_tokenizer *t, tern_span file, tern_error *err)
{
    trainer spec = {.model_type = 1, .unk = 0, .bos = 1, .eos = 2, .pad = UINT64_MAX};
    t->vocab.alphabet = TERN_ALPHABET_BYTES;
    t->rule = TERN_MERGE_SCORES;
    t->norm = (tern_normalizer){.prefix = TERN_PREFIX_ALWAYS, .escape = true, .remove_extra = true};
    TERN_TRY(read_model(t, &spec, file, err));
    TERN_TRY(check_model_type(&spec, err));
    t->norm.suffix = spec.suffix != 0;
    t->byte_fallback = spec.byte_fallback != 0;
    t->fuse_unk = true;
    t->unk = to_id(spec.unk);
    t->bos = to_id(spec.bos);
    t->eos = to_id(spec.eos);
    t->pad = to_id(spec.pad);
    t->adds_bos = t->bos_decided = true;
    TERN_TRY(tern_tokenizer__index(t, err));
    return tern_tokenizer__finish(t, err);
}

tern_status tern_tokenizer_parse_sentencepiece(tern_tokenizer **t, const void *data, size_t size, tern_error *err)
{
    tern_tokenizer *made = NULL;
    TERN_TRY(tern_tokenizer__alloc(&made, err));
    tern_status status = build(made, (tern_span){data, size}, err);
    if (status == TERN_OK) *t = made;
    else tern_tokenizer_close(made);
    return status;
}
