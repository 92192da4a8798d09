/* Cutting documents into pieces, choosing those held out, and placing them into rows. */
#include "train/data/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "train/data/layout.h"
#include "train/data/pack_internal.h"

/* Positions of piece `part` of a document with n tokens, of which there are seq in a row at most. */
static uint32_t piece_positions(uint64_t n, uint32_t part, uint32_t seq)
{
    uint64_t left = n - 1 - (uint64_t)part * seq;
    return left < seq ? (uint32_t)left : seq;
}

static tern_status fail_many(tern_error *err)
{
    return tern_fail(err, TERN_LIMIT, "2^32 pieces of documents or more: fewer expected");
}

/* Pieces of the data before some are left out. */
static tern_status count_pieces(const tern_train_data *data, uint32_t seq, size_t *out, tern_error *err)
{
    const uint64_t n = tern_train_data_about(data)->n_documents;
    uint64_t pieces = 0;
    for (uint64_t d = 0; d < n; d++) {
        pieces += (tern_train_data_document(data, d) - 2) / seq + 1;
        if (pieces >= UINT32_MAX) return fail_many(err);
    }
    *out = (size_t)pieces;
    return TERN_OK;
}

/* Hash of a piece's tokens with those that follow, and its labels that count. */
static tern_status hash_piece(tern_train_scan *s, uint64_t d, uint32_t part, uint32_t n, tern_error *err)
{
    const uint64_t at = (uint64_t)part * s->params->seq;
    TERN_TRY(tern_train_data_read(s->data, d, at, (size_t)n + 1, s->ids, s->in_loss, err));
    s->hash = tern_hash(TERN_HASH_START, &s->params->seed, sizeof s->params->seed);
    s->hash = tern_hash(s->hash, s->ids, ((size_t)n + 1) * sizeof *s->ids);
    s->hash = tern_train__mix(s->hash);
    s->n_labels = 0;
    for (uint32_t i = 1; i <= n; i++) s->n_labels += s->in_loss[i];
    return TERN_OK;
}

static void add_piece(tern_train_scan *s, uint64_t d, uint32_t part, uint32_t n)
{
    if (s->n_labels == 0) {
        s->n_unlabelled++;
        return;
    }
    s->hashes[s->n] = s->hash;
    s->pieces[s->n++] = (tern_train_piece){.document = (uint32_t)d, .part = part, .n = n, .n_labels = s->n_labels};
}

static tern_status scan_pieces(tern_train_scan *s, tern_error *err)
{
    const uint64_t n_documents = tern_train_data_about(s->data)->n_documents;
    size_t cap = 0;
    TERN_TRY(count_pieces(s->data, s->params->seq, &cap, err));
    s->pieces = tern_calloc(cap, sizeof *s->pieces);
    s->hashes = tern_calloc(cap, sizeof *s->hashes);
    s->ids = tern_calloc((size_t)s->params->seq + 1, sizeof *s->ids);
    s->in_loss = tern_calloc((size_t)s->params->seq + 1, 1);
    if (!s->pieces || !s->hashes || !s->ids || !s->in_loss)
        return tern_fail_alloc(err, cap * (sizeof *s->pieces + sizeof *s->hashes));
    for (uint64_t d = 0; d < n_documents; d++) {
        const uint64_t n = tern_train_data_document(s->data, d);
        for (uint32_t part = 0; (uint64_t)part * s->params->seq < n - 1; part++) {
            const uint32_t positions = piece_positions(n, part, s->params->seq);
            TERN_TRY(hash_piece(s, d, part, positions, err));
            add_piece(s, d, part, positions);
        }
    }
    return TERN_OK;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The largest hash that is held out. Like pieces have like hashes, so that what is at the border goes out together; all
 * of them alike leave nothing to train on. */
static tern_status find_border(const tern_train_scan *s, uint64_t *out, tern_error *err)
{
    if (s->n < 2)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "%zu pieces of at most %u tokens: at least 2 expected to hold some out; shorten the sequences "
                         "or give data for validation by themselves",
                         s->n, s->params->seq);
    size_t k = (size_t)(s->params->held_out * (double)s->n + 0.5);
    k = k < 1 ? 1 : k > s->n - 1 ? s->n - 1 : k;
    uint64_t *sorted = tern_calloc(s->n, sizeof *sorted);
    if (!sorted) return tern_fail_alloc(err, s->n * sizeof *sorted);
    memcpy(sorted, s->hashes, s->n * sizeof *sorted);
    qsort(sorted, s->n, sizeof *sorted, by_value);
    while (k > 1 && sorted[k - 1] == sorted[s->n - 1]) k--;
    const bool alike = sorted[k - 1] == sorted[s->n - 1];
    *out = sorted[k - 1];
    tern_free(sorted);
    if (alike) return tern_fail(err, TERN_INVALID_ARGUMENT, "all %zu pieces are alike: none can be held out", s->n);
    return TERN_OK;
}

/* Keeps the pieces of the wanted side. */
static tern_status choose_side(tern_train_scan *s, tern_error *err)
{
    uint64_t border = 0;
    size_t kept = 0;
    if (s->params->held_out > 0) {
        TERN_TRY(find_border(s, &border, err));
        for (size_t i = 0; i < s->n; i++)
            if ((s->hashes[i] <= border) == s->params->validation) s->pieces[kept++] = s->pieces[i];
        s->n = kept;
    }
    return TERN_OK;
}

static tern_status check_params(const tern_train_pack_params *p, tern_error *err)
{
    if (p->seq < 1 || p->seq > 1u << 30)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "rows of %u positions: 1 to 2^30 expected", p->seq);
    if (!(p->held_out >= 0 && p->held_out < 1))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "a share of %g held out: 0 to less than 1 expected", p->held_out);
    if (p->validation && p->held_out == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "nothing is held out: a share above 0 expected");
    return TERN_OK;
}

static tern_status open_pack(tern_train_pack *pack, tern_train_scan *s, tern_error *err)
{
    TERN_TRY(scan_pieces(s, err));
    TERN_TRY(choose_side(s, err));
    if (s->n == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "no piece of the data has a label that counts in the loss");
    pack->info = (tern_train_pack_info){.seq = s->params->seq, .n_pieces = s->n, .n_unlabelled = s->n_unlabelled};
    for (size_t i = 0; i < s->n; i++) {
        pack->info.n_positions += s->pieces[i].n;
        pack->info.n_labels += s->pieces[i].n_labels;
    }
    return tern_train__place_pieces(pack, s, err);
}

tern_status tern_train_pack_open(tern_train_pack **pack, const tern_train_data *data,
                                 const tern_train_pack_params *params, tern_error *err)
{
    *pack = NULL;
    TERN_TRY(check_params(params, err));
    tern_train_pack *made = tern_calloc(1, sizeof *made);
    if (!made) return tern_fail_alloc(err, sizeof *made);
    made->data = data;
    tern_train_scan s = {.data = data, .params = params};
    tern_status status = open_pack(made, &s, err);
    tern_free(s.pieces);
    tern_free(s.hashes);
    tern_free(s.ids);
    tern_free(s.in_loss);
    if (status == TERN_OK) *pack = made;
    else tern_train_pack_close(made);
    return status;
}

void tern_train_pack_close(tern_train_pack *pack)
{
    if (!pack) return;
    tern_free(pack->pieces);
    tern_free(pack->rows);
    tern_free(pack);
}

const tern_train_pack_info *tern_train_pack_about(const tern_train_pack *pack)
{
    return &pack->info;
}

double tern_train_pack_default_held_out(uint32_t n_rows)
{
    enum { LEAST_ROWS = 20, MOST_ROWS = 64 };
    if (n_rows < LEAST_ROWS) return 0;
    return n_rows > 10 * MOST_ROWS ? (double)MOST_ROWS / n_rows : 0.1;
}
