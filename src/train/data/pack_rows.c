/* Pieces into rows, and rows into arrays. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "train/data/pack_internal.h"

enum { MAX_OPEN = 64 }; /* rows that may still take a piece */

typedef struct open_row {
    uint32_t row, left; /* number; positions free */
} open_row;

typedef struct packing {
    open_row open[MAX_OPEN];
    size_t n_open;
    uint32_t seq, n_rows;
    bool sequences;
} packing;

/* The open row with the least room that is enough; n_open when there is none. */
static size_t find_fit(const packing *p, uint32_t n)
{
    size_t best = p->n_open;
    for (size_t i = 0; i < p->n_open; i++)
        if (p->open[i].left >= n && (best == p->n_open || p->open[i].left < p->open[best].left)) best = i;
    return best;
}

static void close_row(packing *p, size_t i)
{
    p->open[i] = p->open[--p->n_open];
}

/* Opens a row; of too many, the fullest is closed. */
static size_t open_next(packing *p)
{
    if (p->n_open == MAX_OPEN) {
        size_t fullest = 0;
        for (size_t i = 1; i < p->n_open; i++)
            if (p->open[i].left < p->open[fullest].left) fullest = i;
        close_row(p, fullest);
    }
    p->open[p->n_open] = (open_row){.row = p->n_rows++, .left = p->seq};
    return p->n_open++;
}

/* The row of the next piece. */
static uint32_t choose_row(packing *p, uint32_t n)
{
    size_t at = find_fit(p, n);
    if (at == p->n_open) at = open_next(p);
    const uint32_t row = p->open[at].row;
    p->open[at].left -= n;
    if (p->open[at].left == 0 || p->sequences) close_row(p, at);
    return row;
}

/* Sorts pieces by row, keeping their order within one. rows: [n_rows + 1] zeros. */
static void sort_by_row(tern_train_pack *pack, const tern_train_scan *s, const uint32_t *row_of)
{
    uint32_t *rows = pack->rows, sum = 0;
    for (size_t i = 0; i < s->n; i++) rows[row_of[i]]++;
    for (uint32_t r = 0; r <= pack->info.n_rows; r++) {
        uint32_t n = r < pack->info.n_rows ? rows[r] : 0;
        rows[r] = sum;
        sum += n;
    }
    for (size_t i = 0; i < s->n; i++)
        pack->pieces[rows[row_of[i]]++] = (tern_train_placed){s->pieces[i].document, s->pieces[i].part};
    for (uint32_t r = pack->info.n_rows; r > 0; r--) rows[r] = rows[r - 1];
    rows[0] = 0;
}

tern_status tern_train__place_pieces(tern_train_pack *pack, const tern_train_scan *s, tern_error *err)
{
    packing p = {.seq = pack->info.seq, .sequences = tern_train_data_about(s->data)->sequences};
    uint32_t *row_of = tern_calloc(s->n, sizeof *row_of);
    pack->pieces = tern_calloc(s->n, sizeof *pack->pieces);
    if (!row_of || !pack->pieces) {
        tern_free(row_of);
        return tern_fail_alloc(err, s->n * (sizeof *row_of + sizeof *pack->pieces));
    }
    for (size_t i = 0; i < s->n; i++) row_of[i] = choose_row(&p, s->pieces[i].n);
    pack->info.n_rows = p.n_rows;
    pack->rows = tern_calloc((size_t)p.n_rows + 1, sizeof *pack->rows);
    if (pack->rows) sort_by_row(pack, s, row_of);
    tern_free(row_of);
    return pack->rows ? TERN_OK : tern_fail_alloc(err, ((size_t)p.n_rows + 1) * sizeof *pack->rows);
}

/* Writes one piece at position `at`: its labels are the tokens shifted by one. The mask passes through `starts`, which
 * is written last. */
static tern_status fill_piece(const tern_train_pack *pack, tern_train_placed p, tern_train_row *out, tern_error *err)
{
    const uint32_t at = out->n_used, seq = pack->info.seq;
    const uint64_t first = (uint64_t)p.part * seq, left = tern_train_data_document(pack->data, p.document) - 1 - first;
    const uint32_t n = left < seq ? (uint32_t)left : seq;
    uint8_t *in_loss = (uint8_t *)(out->starts + at);
    assert(n <= seq - at);
    TERN_TRY(tern_train_data_read(pack->data, p.document, first, n, out->ids + at, NULL, err));
    TERN_TRY(tern_train_data_read(pack->data, p.document, first + 1, n, out->labels + at, in_loss, err));
    for (uint32_t i = 0; i < n; i++) {
        if (in_loss[i]) out->n_labels++;
        else out->labels[at + i] = TERN_TRAIN_NO_LABEL;
    }
    for (uint32_t i = 0; i < n; i++) out->starts[at + i] = at;
    out->n_used += n;
    return TERN_OK;
}

tern_status tern_train_pack_row(const tern_train_pack *pack, uint32_t row, tern_train_row *out, tern_error *err)
{
    out->n_used = out->n_labels = 0;
    for (uint32_t i = pack->rows[row]; i < pack->rows[row + 1]; i++)
        TERN_TRY(fill_piece(pack, pack->pieces[i], out, err));
    for (uint32_t i = out->n_used; i < pack->info.seq; i++) {
        out->ids[i] = 0;
        out->labels[i] = TERN_TRAIN_NO_LABEL;
        out->starts[i] = i;
    }
    return TERN_OK;
}
