/* Writing training data files. */
#include <string.h>

#include "train/data/file.h"
#include "train/data/layout.h"

enum { PIECE = 512 }; /* ids encoded at once */

static bool is_wide(const tern_train_data_info *info)
{
    return info->n_vocab > 65536;
}

/* path NULL: to `out`. */
static tern_status open_writer(tern_train_data_writer *w, const char *path, tern_buf *out,
                               const tern_train_data_info *info, tern_error *err)
{
    static const uint8_t header[TERN_TRAIN_DATA_HEADER];
    *w = (tern_train_data_writer){.hash = TERN_HASH_START};
    if (info->n_vocab < 1 || info->n_vocab > (uint32_t)INT32_MAX + 1)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "a vocabulary of %u tokens: 1 to 2^31 expected", info->n_vocab);
    w->info =
        (tern_train_data_info){.n_vocab = info->n_vocab, .tokenizer = info->tokenizer, .sequences = info->sequences};
    TERN_TRY(path ? tern_file_writer_open(&w->file, path, err)
                  : tern_file_writer_open_memory(&w->file, out, "data in memory", err));
    tern_file_writer_add(&w->file, header, sizeof header);
    return TERN_OK;
}

tern_status tern_train_data_writer_open(tern_train_data_writer *w, const char *path, const tern_train_data_info *info,
                                        tern_error *err)
{
    return open_writer(w, path, NULL, info, err);
}

tern_status tern_train_data_writer_open_memory(tern_train_data_writer *w, tern_buf *out,
                                               const tern_train_data_info *info, tern_error *err)
{
    return open_writer(w, NULL, out, info, err);
}

static tern_status check_ids(const tern_train_data_writer *w, const int32_t *ids, size_t n, tern_error *err)
{
    if (n < 2) return tern_fail(err, TERN_INVALID_ARGUMENT, "a document of %zu tokens: at least 2 expected", n);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= w->info.n_vocab)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "token %zu is id %d: 0 to %u expected", i, ids[i],
                             w->info.n_vocab - 1);
    return TERN_OK;
}

static void add_ids(tern_train_data_writer *w, const int32_t *ids, size_t n)
{
    const size_t width = is_wide(&w->info) ? 4 : 2;
    uint8_t bytes[PIECE * 4];
    for (size_t done = 0; done < n;) {
        size_t step = n - done < PIECE ? n - done : PIECE;
        for (size_t i = 0; i < step; i++) {
            if (width == 4) tern_store_u32(bytes + 4 * i, (uint32_t)ids[done + i]);
            else tern_store_u16(bytes + 2 * i, (uint16_t)ids[done + i]);
        }
        tern_file_writer_add(&w->file, bytes, step * width);
        done += step;
    }
}

/* Bits are appended to the last byte while it has room. */
static tern_status add_mask(tern_train_data_writer *w, const uint8_t *in_loss, size_t n, tern_error *err)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t at = w->info.n_tokens + i;
        if (at % 8 == 0) TERN_TRY(tern_buf_add(&w->mask, "", 1, err));
        bool counts = i > 0 && (!in_loss || in_loss[i]);
        if (counts) w->mask.data[at / 8] = (char)((uint8_t)w->mask.data[at / 8] | 1u << at % 8);
        w->info.n_loss += counts;
    }
    return TERN_OK;
}

tern_status tern_train_data_writer_add(tern_train_data_writer *w, const int32_t *ids, const uint8_t *in_loss, size_t n,
                                       tern_error *err)
{
    uint8_t offset[8];
    TERN_TRY(check_ids(w, ids, n, err));
    tern_store_u64(offset, w->info.n_tokens);
    TERN_TRY(tern_buf_add(&w->offsets, offset, sizeof offset, err));
    TERN_TRY(add_mask(w, in_loss, n, err));
    for (size_t i = 0; i < n; i++) {
        uint8_t id[4];
        tern_store_u32(id, (uint32_t)ids[i]);
        w->hash = tern_hash(w->hash, id, sizeof id);
    }
    add_ids(w, ids, n);
    w->info.n_documents++;
    w->info.n_tokens += n;
    return TERN_OK;
}

static void encode_header(const tern_train_data_info *info, uint8_t out[TERN_TRAIN_DATA_HEADER])
{
    memset(out, 0, TERN_TRAIN_DATA_HEADER);
    memcpy(out, TERN_TRAIN_DATA_MAGIC, 8);
    tern_store_u32(out + 8, TERN_TRAIN_DATA_VERSION);
    tern_store_u32(out + 12,
                   (is_wide(info) ? TERN_TRAIN_DATA_WIDE : 0u) | (info->sequences ? TERN_TRAIN_DATA_SEQUENCES : 0u));
    tern_store_u32(out + 16, info->n_vocab);
    tern_store_u64(out + 24, info->tokenizer);
    tern_store_u64(out + 32, info->n_documents);
    tern_store_u64(out + 40, info->n_tokens);
    tern_store_u64(out + 48, info->n_loss);
    tern_store_u64(out + 56, info->fingerprint);
}

tern_status tern_train_data_writer_commit(tern_train_data_writer *w, tern_error *err)
{
    uint8_t header[TERN_TRAIN_DATA_HEADER], end[8];
    if (w->info.n_documents == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: no document to write", w->file.path);
    tern_store_u64(end, w->info.n_tokens);
    TERN_TRY(tern_buf_add(&w->offsets, end, sizeof end, err));
    w->hash = tern_hash(w->hash, w->mask.data, w->mask.size);
    w->info.fingerprint = tern_hash(w->hash, w->offsets.data, w->offsets.size);
    tern_file_writer_pad(&w->file, TERN_TRAIN_DATA_ALIGN);
    tern_file_writer_add(&w->file, w->mask.data, w->mask.size);
    tern_file_writer_pad(&w->file, TERN_TRAIN_DATA_ALIGN);
    tern_file_writer_add(&w->file, w->offsets.data, w->offsets.size);
    encode_header(&w->info, header);
    tern_file_writer_put(&w->file, 0, header, sizeof header);
    return tern_file_writer_commit(&w->file, err);
}

void tern_train_data_writer_abort(tern_train_data_writer *w)
{
    tern_file_writer_abort(&w->file);
    tern_buf_deinit(&w->mask);
    tern_buf_deinit(&w->offsets);
}
