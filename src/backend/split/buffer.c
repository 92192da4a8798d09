/* Buffers of a split backend: made on the sides that need them, when they do. */
#include <string.h>

#include "backend/range.h"
#include "backend/split/split_internal.h"
#include "base/alloc.h"
#include "quant/weight.h"

tern_status tern_split__buffer_create(tern_backend *b, uint64_t bytes, tern_buffer **out, tern_error *err)
{
    (void)b;
    tern_buffer *buffer = tern_calloc(1, sizeof *buffer);
    if (!buffer) return tern_fail_alloc(err, sizeof *buffer);
    buffer->bytes = bytes;
    *out = buffer;
    return TERN_OK;
}

tern_status tern_split__weight_create(tern_backend *b, const tern_weight *w, tern_buffer **out, tern_error *err)
{
    TERN_TRY(tern_split__buffer_create(b, w->bytes, out, err));
    (*out)->weight = w;
    return TERN_OK;
}

void tern_split__buffer_free(tern_backend *b, tern_buffer *buffer)
{
    if (!buffer) return;
    tern_split *s = tern_split__of(b);
    for (int i = 0; i < TERN_SIDES; i++)
        if (buffer->on[i]) s->sides[i]->buffer_free(s->sides[i], buffer->on[i]);
    tern_free(buffer->copy);
    tern_free(buffer);
}

static tern_status make_copy(tern_buffer *buffer, tern_error *err)
{
    if (!buffer->copy) buffer->copy = tern_calloc(1, tern_size_of(buffer->bytes));
    return buffer->copy ? TERN_OK : tern_fail_alloc(err, buffer->bytes);
}

tern_status tern_split__keep_copy(tern_buffer *buffer, tern_error *err)
{
    buffer->keep_copy = true;
    return make_copy(buffer, err);
}

static bool anywhere(const tern_buffer *buffer)
{
    return buffer->on[TERN_SIDE_HOST] || buffer->on[TERN_SIDE_DEVICE];
}

tern_status tern_split__buffer_write(tern_backend *b, tern_buffer *buffer, uint64_t offset, const void *data,
                                     uint64_t bytes, tern_error *err)
{
    tern_split *s = tern_split__of(b);
    TERN_TRY(tern_backend_check_range(buffer->bytes, offset, bytes, err));
    if (bytes == 0) return TERN_OK;
    buffer->host_wrote = true;
    if (!anywhere(buffer)) TERN_TRY(make_copy(buffer, err));
    if (buffer->copy) {
        memcpy(buffer->copy + offset, data, (size_t)bytes);
        if (offset + bytes > buffer->copied) buffer->copied = offset + bytes;
    }
    for (int i = 0; i < TERN_SIDES; i++)
        if (buffer->on[i])
            TERN_TRY(tern_split__at(
                s, (tern_side)i, s->sides[i]->buffer_write(s->sides[i], buffer->on[i], offset, data, bytes, err), err));
    return TERN_OK;
}

/* The side whose bytes count; false when ops of both write the buffer, so that it depends on the place. */
static bool reading_side(const tern_buffer *buffer, tern_side *side)
{
    bool both = buffer->on[TERN_SIDE_HOST] && buffer->on[TERN_SIDE_DEVICE];
    bool device = both ? buffer->made_on[TERN_SIDE_DEVICE] : buffer->on[TERN_SIDE_DEVICE] != NULL;
    *side = device ? TERN_SIDE_DEVICE : TERN_SIDE_HOST;
    return !(both && buffer->made_on[TERN_SIDE_HOST] && buffer->made_on[TERN_SIDE_DEVICE]);
}

tern_status tern_split__buffer_read(tern_backend *b, const tern_buffer *buffer, uint64_t offset, void *data,
                                    uint64_t bytes, tern_error *err)
{
    tern_split *s = tern_split__of(b);
    tern_side side;
    TERN_TRY(tern_backend_check_range(buffer->bytes, offset, bytes, err));
    if (bytes == 0) return TERN_OK;
    if (!anywhere(buffer)) {
        if (buffer->copy) memcpy(data, buffer->copy + offset, (size_t)bytes);
        else memset(data, 0, (size_t)bytes);
        return TERN_OK;
    }
    if (!reading_side(buffer, &side))
        return tern_fail(
            err, TERN_INVALID_ARGUMENT,
            "%s: %llu bytes of a buffer that ops of both sides write: one of its own for each value expected", s->name,
            (unsigned long long)bytes);
    return tern_split__at(s, side,
                          s->sides[side]->buffer_read(s->sides[side], buffer->on[side], offset, data, bytes, err), err);
}

/* Brings the host's bytes to a side where the buffer is new: from the copy, or else from the other side. */
static tern_status bring(tern_split *s, tern_buffer *buffer, tern_side side, tern_error *err)
{
    tern_backend *b = s->sides[side], *from = s->sides[tern_split__other(side)];
    if (buffer->copy)
        return buffer->copied ? b->buffer_write(b, buffer->on[side], 0, buffer->copy, buffer->copied, err) : TERN_OK;
    uint8_t *all = tern_alloc(tern_size_of(buffer->bytes));
    if (!all) return tern_fail_alloc(err, buffer->bytes);
    tern_status status = from->buffer_read(from, buffer->on[tern_split__other(side)], 0, all, buffer->bytes, err);
    if (status == TERN_OK) status = b->buffer_write(b, buffer->on[side], 0, all, buffer->bytes, err);
    tern_free(all);
    return status;
}

tern_status tern_split__need(tern_split *s, tern_buffer *buffer, tern_side side, tern_error *err)
{
    tern_backend *b = s->sides[side];
    if (buffer->on[side]) return TERN_OK;
    if (buffer->weight)
        return tern_split__at(s, side, b->weight_create(b, buffer->weight, &buffer->on[side], err), err);
    TERN_TRY(tern_split__at(s, side, b->buffer_create(b, buffer->bytes, &buffer->on[side], err), err));
    if (!buffer->host_wrote) return TERN_OK;
    tern_status status = bring(s, buffer, side, err);
    if (status != TERN_OK) {
        b->buffer_free(b, buffer->on[side]);
        buffer->on[side] = NULL;
        return tern_split__at(s, side, status, err);
    }
    if (buffer->keep_copy) return TERN_OK;
    tern_free(buffer->copy); /* from here on the sides have it */
    buffer->copy = NULL;
    return TERN_OK;
}
