/* The pieces of a stream: how a tensor is cut, and what is done with a piece that has come. */
#include <string.h>

#include "base/alloc.h"
#include "model/open/i2s_evidence.h"
#include "model/stream/internal.h"
#include "quant/encoding.h"

/* The fewest rows that begin and end at a byte: encodings that run on across row ends have blocks in several. */
static uint32_t row_unit(const tern_weight *w)
{
    uint32_t a = w->encoding->linear ? w->encoding->block_elements : 1, b = w->cols;
    while (b) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return w->encoding->linear ? w->encoding->block_elements / a : 1;
}

/* Bytes of n of its rows, without a tail. */
static size_t bytes_of_rows(const tern_weight *w, uint32_t n)
{
    const tern_encoding *e = w->encoding;
    if (e->linear) return (size_t)((uint64_t)n * w->cols / e->block_elements * e->block_bytes);
    return (w->bytes - e->tail_bytes) / w->rows * n;
}

static uint32_t rows_of_piece(const item *i)
{
    const tern_weight *w = i->weight;
    const uint32_t unit = row_unit(w), left = w->rows - i->rows_done;
    if (left <= unit) return left;
    const size_t unit_bytes = bytes_of_rows(w, unit);
    size_t units = unit_bytes ? (TERN_MODEL_PIECE_BYTES - w->encoding->tail_bytes) / unit_bytes : 0;
    if (units > left / unit) return left;
    return units ? (uint32_t)units * unit : unit;
}

static tern_status reserve(tern_model_stream *s, size_t bytes, tern_error *err)
{
    if (bytes <= s->staging_bytes) return TERN_OK;
    tern_free_aligned(s->staging);
    s->staging_bytes = 0;
    s->staging = tern_alloc_aligned(bytes, 64);
    if (!s->staging) return tern_fail_alloc(err, bytes);
    s->staging_bytes = bytes;
    return TERN_OK;
}

/* A tensor whose bytes lie at `data` in the end. */
static tern_status begin_bytes(tern_model_stream *s, const item *i, uint8_t *data, tern_model_piece *piece)
{
    size_t left = i->bytes - i->done;
    piece->bytes = left < TERN_MODEL_PIECE_BYTES ? left : TERN_MODEL_PIECE_BYTES;
    piece->into = data + i->done;
    s->piece_bytes = piece->bytes;
    return TERN_OK;
}

static tern_status begin_rows(tern_model_stream *s, const item *i, tern_model_piece *piece, tern_error *err)
{
    const size_t tail = i->weight->encoding->tail_bytes;
    const uint32_t n = rows_of_piece(i);
    const size_t bytes = bytes_of_rows(i->weight, n);
    TERN_TRY(reserve(s, bytes + tail, err));
    bool last = i->rows_done + n == i->weight->rows;
    piece->bytes = bytes + (last ? tail : 0);
    piece->into = s->staging;
    s->piece_bytes = piece->bytes;
    s->piece_rows = n;
    return TERN_OK;
}

static tern_status begin_gathered(tern_model_stream *s, const item *i, tern_model_piece *piece, tern_error *err)
{
    if (!i->done) TERN_TRY(reserve(s, i->bytes, err));
    return begin_bytes(s, i, s->staging, piece);
}

tern_status tern_model_stream_next(tern_model_stream *s, tern_model_piece *piece, tern_error *err)
{
    if (s->at == s->n_items) return tern_fail(err, TERN_NOT_FOUND, "no piece is missing");
    const item *i = &s->items[s->at];
    *piece = (tern_model_piece){.offset = i->offset + i->done};
    if (i->gathered) return begin_gathered(s, i, piece, err);
    return i->data ? begin_bytes(s, i, i->data, piece) : begin_rows(s, i, piece, err);
}

/* The weight's factors, or NULL; with `scales`: the weight itself. */
static const item *partner(const tern_model_stream *s, const item *i)
{
    for (size_t k = 0; k < s->n_items; k++)
        if (&s->items[k] != i && s->items[k].weight == i->weight) return &s->items[k];
    return NULL;
}

/* A weight that was passed on is whole, with its factors. */
static tern_status end_rows(tern_model_stream *s, const item *i, const item *scales, tern_error *err)
{
    tern_weight *w = i->weight;
    w->row_scales = i->row_scales; /* before, there may have been room for factors */
    if (scales) TERN_TRY(tern_model__multiply(s->model, w, scales->data, scales->bytes / sizeof(float), err));
    TERN_TRY(tern_model__check_scales(w, err));
    return tern_model__added(s->model, w, err);
}

/* All bytes of a tensor are there. */
static tern_status end_item(tern_model_stream *s, const item *i, tern_error *err)
{
    if (!i->weight) return tern_model__set_rope_factors(s->model, i->factors, i->data, err);
    const item *other = partner(s, i), *weight = i->scales ? other : i, *scales = i->scales ? i : other;
    if (!weight || (other && other->done < other->bytes)) return TERN_OK;
    if (!weight->data) return end_rows(s, weight, scales, err);
    weight->weight->data = weight->data;
    return tern_model__fill(s->model, weight->role, weight->weight, scales ? scales->data : NULL,
                            scales ? scales->bytes / sizeof(float) : 0, err);
}

/* The tail behind the last rows has the scale; behind others there is none, and decoders want one. */
static void read_tail(const item *i, uint8_t *tail, bool last)
{
    const size_t bytes = i->weight->encoding->tail_bytes;
    if (bytes && last) i->weight->scale = tern_load_f32(tail);
    if (!bytes || last) return;
    memset(tail, 0, bytes);
    tern_store_f32(tail, 1.0f);
}

/* The weight's first bytes, and its last ones so far. */
static void keep_ends(const item *i, const uint8_t *bytes, size_t n)
{
    const size_t all = i->weight->bytes, end = all < TERN_WEIGHT_END_BYTES ? all : TERN_WEIGHT_END_BYTES;
    uint8_t *last = i->ends + TERN_WEIGHT_END_BYTES;
    if (i->done < end) memcpy(i->ends + i->done, bytes, n < end - i->done ? n : end - i->done);
    const size_t more = n < end ? n : end;
    memmove(last, last + more, end - more);
    memcpy(last + end - more, bytes + n - more, more);
}

static tern_status accept_rows(tern_model_stream *s, item *i, tern_model_part *part, tern_error *err)
{
    tern_weight *w = i->weight;
    const tern_encoding *e = w->encoding;
    const size_t bytes = bytes_of_rows(w, s->piece_rows);
    keep_ends(i, s->staging, s->piece_bytes);
    read_tail(i, s->staging + bytes, i->rows_done + s->piece_rows == w->rows);
    *part = (tern_model_part){.weight = w, .first = i->rows_done, .rows = *w};
    part->rows.rows = s->piece_rows;
    part->rows.data = s->staging;
    part->rows.bytes = bytes + e->tail_bytes;
    part->rows.row_scales = NULL;
    TERN_TRY(tern_i2s_evidence_see(s->model, w, i->rows_done, s->piece_rows, s->staging, err));
    i->rows_done += s->piece_rows;
    TERN_TRY(tern_model__check_scales(&part->rows, err)); /* as of a mapped weight: before its codes */
    if (s->model->options->no_check) return TERN_OK;
    if (tern_encoding_check_part(e, s->staging, part->first, part->rows.rows, w->cols, NULL, err) == TERN_OK)
        return TERN_OK;
    return tern_error_prefix(err, "%s", w->name);
}

/* The staging memory becomes that of a weight which is kept. */
static tern_status hand_over(tern_model_stream *s, item *i, tern_error *err)
{
    i->data = s->staging;
    s->staging = NULL;
    s->staging_bytes = 0;
    return tern_model__adopt(s->model, i->data, err);
}

/* All bytes of a gathered weight are in the staging memory: what it is. Then it is one piece. */
static tern_status settle(tern_model_stream *s, item *i, tern_error *err)
{
    tern_weight *w = i->weight;
    void *memory = NULL;
    w->data = s->staging;
    if (!partner(s, i)) TERN_TRY(tern_model__regroup(w, &memory, err));
    if (memory) {
        tern_free_aligned(s->staging);
        s->staging = memory;
        s->staging_bytes = w->bytes;
    }
    i->done = 0;
    i->bytes = s->piece_bytes = w->bytes;
    s->piece_rows = w->rows;
    return TERN_OK;
}

/* A weight that is settled; where all rows have one there may be room for factors. */
static tern_status find_scales(tern_model_stream *s, item *i, tern_error *err)
{
    tern_weight *w = i->weight;
    const float *room = w->row_scales;
    w->row_scales = NULL;
    TERN_TRY(tern_model__find_scales(s->model, w, err));
    i->row_scales = w->row_scales;
    if (!w->row_scales) w->row_scales = room;
    w->data = NULL;
    return TERN_OK;
}

static tern_status accept_gathered(tern_model_stream *s, item *i, tern_model_part *part, tern_error *err)
{
    if (i->done + s->piece_bytes < i->bytes) return TERN_OK;
    TERN_TRY(settle(s, i, err));
    if (!i->ends) return hand_over(s, i, err);
    TERN_TRY(find_scales(s, i, err));
    return accept_rows(s, i, part, err);
}

tern_status tern_model_stream_accept(tern_model_stream *s, tern_model_part *part, tern_error *err)
{
    *part = (tern_model_part){0};
    if (s->piece_bytes == 0) return tern_fail(err, TERN_INVALID_ARGUMENT, "no piece is being waited for");
    item *i = &s->items[s->at];
    if (i->gathered) TERN_TRY(accept_gathered(s, i, part, err));
    else if (!i->data) TERN_TRY(accept_rows(s, i, part, err));
    i->done += s->piece_bytes;
    s->piece_bytes = 0;
    if (i->done < i->bytes) return TERN_OK;
    s->at++;
    return end_item(s, i, err);
}
