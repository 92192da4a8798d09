/* Reading training data files: every byte is untrusted. */
#include "train/data/file.h"

#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "train/data/layout.h"

struct tern_train_data {
    tern_file_map map; /* closed when the bytes are borrowed */
    tern_train_data_info info;
    const uint8_t *ids, *mask, *offsets;
    size_t width; /* bytes of an id */
};

static tern_status read_header(tern_cursor *c, tern_train_data *d, tern_error *err)
{
    const uint8_t *magic = tern_cursor_take(c, 8);
    if (!magic || memcmp(magic, TERN_TRAIN_DATA_MAGIC, 8) != 0)
        return tern_fail(err, TERN_MALFORMED,
                         "not a training data file (\"%s\" expected at its start); "
                         "`tern data -m MODEL FILE ... -o OUT` makes one",
                         TERN_TRAIN_DATA_MAGIC);
    uint32_t version = tern_cursor_u32(c), flags = tern_cursor_u32(c);
    if (!c->bad && version != TERN_TRAIN_DATA_VERSION)
        return tern_fail(err, TERN_UNSUPPORTED, "version %u: %d expected", version, TERN_TRAIN_DATA_VERSION);
    if (flags & ~(uint32_t)(TERN_TRAIN_DATA_WIDE | TERN_TRAIN_DATA_SEQUENCES))
        return tern_fail(err, TERN_UNSUPPORTED, "flags %#x: only bits 0 and 1 expected", flags);
    d->width = flags & TERN_TRAIN_DATA_WIDE ? 4 : 2;
    d->info.sequences = (flags & TERN_TRAIN_DATA_SEQUENCES) != 0;
    d->info.n_vocab = tern_cursor_u32(c);
    tern_cursor_take(c, 4);
    d->info.tokenizer = tern_cursor_u64(c);
    d->info.n_documents = tern_cursor_u64(c);
    d->info.n_tokens = tern_cursor_u64(c);
    d->info.n_loss = tern_cursor_u64(c);
    d->info.fingerprint = tern_cursor_u64(c);
    tern_cursor_take(c, TERN_TRAIN_DATA_HEADER - 64);
    if (c->bad)
        return tern_fail(err, TERN_MALFORMED, "%zu bytes: a header of %d expected", c->size, TERN_TRAIN_DATA_HEADER);
    return TERN_OK;
}

static tern_status check_header(const tern_train_data *d, size_t size, tern_error *err)
{
    const tern_train_data_info *i = &d->info;
    if (i->n_vocab < 1 || i->n_vocab > (uint32_t)INT32_MAX + 1)
        return tern_fail(err, TERN_MALFORMED, "a vocabulary of %u tokens: 1 to 2^31 expected", i->n_vocab);
    if ((i->n_vocab > 65536) != (d->width == 4))
        return tern_fail(err, TERN_MALFORMED, "ids of %zu bytes: %d expected for a vocabulary of %u", d->width,
                         i->n_vocab > 65536 ? 4 : 2, i->n_vocab);
    if (i->n_tokens > size || i->n_documents > size / 8)
        return tern_fail(err, TERN_MALFORMED, "%llu documents of %llu tokens: too many for %zu bytes",
                         (unsigned long long)i->n_documents, (unsigned long long)i->n_tokens, size);
    if (i->n_documents < 1 || i->n_tokens / 2 < i->n_documents || i->n_loss > i->n_tokens - i->n_documents)
        return tern_fail(err, TERN_MALFORMED,
                         "%llu documents of %llu tokens, %llu of them labels: at least one document, two tokens in "
                         "each, and no first token among the labels expected",
                         (unsigned long long)i->n_documents, (unsigned long long)i->n_tokens,
                         (unsigned long long)i->n_loss);
    return TERN_OK;
}

static const uint8_t *take_section(tern_cursor *c, size_t bytes)
{
    tern_cursor_take(c, (TERN_TRAIN_DATA_ALIGN - c->at % TERN_TRAIN_DATA_ALIGN) % TERN_TRAIN_DATA_ALIGN);
    return tern_cursor_take(c, bytes);
}

/* The counts are below the file's size, so that nothing here can wrap. */
static tern_status find_sections(tern_cursor *c, tern_train_data *d, tern_error *err)
{
    const size_t n = (size_t)d->info.n_tokens, n_documents = (size_t)d->info.n_documents;
    d->ids = take_section(c, n * d->width);
    d->mask = take_section(c, (n + 7) / 8);
    d->offsets = take_section(c, (n_documents + 1) * 8);
    if (c->bad || tern_cursor_left(c) != 0)
        return tern_fail(err, TERN_MALFORMED, "%zu bytes: %s expected for %zu documents of %zu tokens", c->size,
                         c->bad ? "more" : "fewer", n_documents, n);
    return TERN_OK;
}

static uint64_t offset(const tern_train_data *d, uint64_t i)
{
    return tern_load_u64(d->offsets + 8 * i);
}

static tern_status check_offsets(const tern_train_data *d, tern_error *err)
{
    const uint64_t n = d->info.n_documents;
    if (offset(d, 0) != 0 || offset(d, n) != d->info.n_tokens)
        return tern_fail(err, TERN_MALFORMED, "documents from token %llu to %llu: 0 to %llu expected",
                         (unsigned long long)offset(d, 0), (unsigned long long)offset(d, n),
                         (unsigned long long)d->info.n_tokens);
    for (uint64_t i = 0; i < n; i++)
        if (offset(d, i + 1) <= offset(d, i) || offset(d, i + 1) - offset(d, i) < 2)
            return tern_fail(err, TERN_MALFORMED, "document %llu is tokens %llu to %llu: at least 2 expected",
                             (unsigned long long)i, (unsigned long long)offset(d, i),
                             (unsigned long long)offset(d, i + 1));
    return TERN_OK;
}

static tern_status parse(tern_train_data *d, const void *bytes, size_t size, tern_error *err)
{
    tern_cursor c = tern_cursor_open(bytes, size);
    TERN_TRY(read_header(&c, d, err));
    TERN_TRY(check_header(d, size, err));
    TERN_TRY(find_sections(&c, d, err));
    return check_offsets(d, err);
}

tern_status tern_train_data_open_memory(tern_train_data **data, const void *bytes, size_t size, tern_error *err)
{
    *data = NULL;
    tern_train_data *d = tern_calloc(1, sizeof *d);
    if (!d) return tern_fail_alloc(err, sizeof *d);
    tern_status status = parse(d, bytes, size, err);
    if (status == TERN_OK) *data = d;
    else tern_free(d);
    return status;
}

tern_status tern_train_data_open(tern_train_data **data, const char *path, tern_error *err)
{
    tern_file_map map;
    *data = NULL;
    TERN_TRY(tern_file_map_open(&map, path, err));
    tern_status status = tern_train_data_open_memory(data, map.data, map.size, err);
    if (status == TERN_OK) {
        (*data)->map = map;
        return TERN_OK;
    }
    tern_file_map_close(&map);
    return tern_error_prefix(err, "%s", tern_show_z(path).text);
}

void tern_train_data_close(tern_train_data *data)
{
    if (!data) return;
    tern_file_map_close(&data->map);
    tern_free(data);
}

const tern_train_data_info *tern_train_data_about(const tern_train_data *data)
{
    return &data->info;
}

tern_status tern_train_data_match(const tern_train_data *data, uint32_t n_vocab, const tern_tokenizer *tokenizer,
                                  tern_error *err)
{
    const tern_train_data_info *i = &data->info;
    const uint64_t want = tern_train_data_tokenizer(tokenizer);
    if (i->n_vocab != n_vocab)
        return tern_fail(err, TERN_MALFORMED, "the data is for a vocabulary of %u: %u, the model's, expected",
                         i->n_vocab, n_vocab);
    if (i->tokenizer != 0 && i->tokenizer != want)
        return tern_fail(
            err, TERN_MALFORMED,
            "the data's tokenizer is %016llx: %016llx, the model's, expected; make it again with tern data",
            (unsigned long long)i->tokenizer, (unsigned long long)want);
    return TERN_OK;
}

uint64_t tern_train_data_document(const tern_train_data *data, uint64_t d)
{
    return offset(data, d + 1) - offset(data, d);
}

static uint32_t id_at(const tern_train_data *d, uint64_t i)
{
    return d->width == 4 ? tern_load_u32(d->ids + 4 * i) : tern_load_u16(d->ids + 2 * i);
}

static uint8_t mask_at(const tern_train_data *d, uint64_t i)
{
    return d->mask[i / 8] >> i % 8 & 1;
}

tern_status tern_train_data_read(const tern_train_data *data, uint64_t d, uint64_t at, size_t n, int32_t *ids,
                                 uint8_t *in_loss, tern_error *err)
{
    const uint64_t first = offset(data, d) + at;
    for (size_t i = 0; i < n; i++) {
        uint32_t id = id_at(data, first + i);
        if (id >= data->info.n_vocab)
            return tern_fail(err, TERN_MALFORMED, "document %llu: token %llu is id %u: 0 to %u expected",
                             (unsigned long long)d, (unsigned long long)(at + i), id, data->info.n_vocab - 1);
        ids[i] = (int32_t)id;
        if (in_loss) in_loss[i] = at + i > 0 && mask_at(data, first + i);
    }
    return TERN_OK;
}

static tern_status check_document(const tern_train_data *data, uint64_t d, uint64_t *hash, uint64_t *n_loss,
                                  tern_error *err)
{
    const uint64_t n = tern_train_data_document(data, d), first = offset(data, d);
    for (uint64_t i = 0; i < n; i++) {
        uint8_t bytes[4], in_loss = 0;
        int32_t id = 0;
        TERN_TRY(tern_train_data_read(data, d, i, 1, &id, &in_loss, err));
        if (i == 0 && mask_at(data, first))
            return tern_fail(err, TERN_MALFORMED, "document %llu: its first token is marked as a label",
                             (unsigned long long)d);
        *n_loss += in_loss;
        tern_store_u32(bytes, (uint32_t)id);
        *hash = tern_hash(*hash, bytes, sizeof bytes);
    }
    return TERN_OK;
}

tern_status tern_train_data_check(const tern_train_data *data, tern_error *err)
{
    const tern_train_data_info *info = &data->info;
    uint64_t hash = TERN_HASH_START, n_loss = 0;
    for (uint64_t d = 0; d < info->n_documents; d++) TERN_TRY(check_document(data, d, &hash, &n_loss, err));
    hash = tern_hash(hash, data->mask, ((size_t)info->n_tokens + 7) / 8);
    hash = tern_hash(hash, data->offsets, ((size_t)info->n_documents + 1) * 8);
    if (n_loss != info->n_loss)
        return tern_fail(err, TERN_MALFORMED, "%llu labels: %llu, as the header says, expected",
                         (unsigned long long)n_loss, (unsigned long long)info->n_loss);
    if (hash != info->fingerprint)
        return tern_fail(err, TERN_MALFORMED, "the fingerprint is %016llx: %016llx, as the header says, expected",
                         (unsigned long long)hash, (unsigned long long)info->fingerprint);
    return TERN_OK;
}

uint64_t tern_train_data_tokenizer(const tern_tokenizer *tokenizer)
{
    if (!tokenizer) return 0;
    const uint32_t n = tern_tokenizer_size(tokenizer);
    uint64_t hash = TERN_HASH_START;
    for (uint32_t id = 0; id < n; id++) {
        tern_span piece = tern_token_piece(tokenizer, (int32_t)id);
        uint8_t mark = tern_token_is_special(tokenizer, (int32_t)id) ? 1 : 0;
        hash = tern_hash(hash, piece.data, piece.size);
        hash = tern_hash(hash, &mark, 1);
    }
    return hash ? hash : 1;
}
