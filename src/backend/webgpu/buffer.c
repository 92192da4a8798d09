/* Buffers of the device: made, filled, read. */
#include <string.h>

#include "backend/range.h"
#include "backend/webgpu/device.h"
#include "base/alloc.h"

enum { PADDING = 256, WORD = 4 };

tern_webgpu_host_range tern_webgpu__range(const tern_buffer *buffer, uint64_t offset, uint64_t bytes)
{
    uint64_t part = buffer->n_parts > 1 ? offset / buffer->part_bytes : 0;
    return (tern_webgpu_host_range){.buffer = buffer->parts[part],
                                    .offset = (uint32_t)(offset - part * buffer->part_bytes),
                                    .bytes = (uint32_t)bytes};
}

static tern_status make_parts(tern_webgpu *gpu, tern_buffer *buffer, tern_error *err)
{
    for (uint64_t at = 0; at < buffer->padded; at += buffer->part_bytes) {
        uint64_t left = buffer->padded - at;
        uint32_t part =
            tern_webgpu_host_buffer_create((uint32_t)(left < buffer->part_bytes ? left : buffer->part_bytes));
        if (part == 0) return tern_webgpu__check(err);
        buffer->parts[buffer->n_parts++] = part;
        gpu->counters.allocations++;
    }
    return TERN_OK;
}

tern_status tern_webgpu__buffer_make(tern_webgpu *gpu, uint64_t bytes, uint64_t part_bytes, const char *name,
                                     tern_buffer **out, tern_error *err)
{
    uint64_t padded = bytes ? (bytes + PADDING - 1) / PADDING * PADDING : PADDING;
    if (part_bytes == 0) part_bytes = padded;
    if (padded < bytes || part_bytes > gpu->host.max_buffer)
        return tern_fail(err, TERN_LIMIT, "webgpu: %s of %llu bytes: %s has at most %llu in one", name,
                         (unsigned long long)bytes, gpu->host.name, (unsigned long long)gpu->host.max_buffer);
    size_t n = (size_t)((padded + part_bytes - 1) / part_bytes);
    tern_buffer *buffer = tern_calloc(1, sizeof *buffer + n * sizeof *buffer->parts);
    if (!buffer) return tern_fail_alloc(err, sizeof *buffer);
    buffer->bytes = bytes;
    buffer->padded = padded;
    buffer->part_bytes = part_bytes;
    tern_status status = make_parts(gpu, buffer, err);
    if (status == TERN_OK) *out = buffer;
    else tern_webgpu__buffer_free(gpu, buffer);
    return status;
}

void tern_webgpu__read_cancel(tern_webgpu *gpu)
{
    if (gpu->reading.buffer) tern_webgpu_host_read_stop();
    gpu->reading = (tern_webgpu_read){0};
}

void tern_webgpu__buffer_free(tern_webgpu *gpu, tern_buffer *buffer)
{
    if (!buffer) return;
    if (gpu->reading.buffer == buffer) tern_webgpu__read_cancel(gpu);
    for (uint32_t i = 0; i < buffer->n_parts; i++) tern_webgpu_host_buffer_free(buffer->parts[i]);
    tern_free(buffer);
}

/* The last bytes of a buffer, fewer than a word of them: what follows in the word is padding. */
static tern_status write_end(tern_buffer *buffer, uint64_t offset, const uint8_t *data, uint64_t bytes, tern_error *err)
{
    uint8_t word[WORD] = {0};
    if (offset + bytes != buffer->bytes)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "webgpu: %llu bytes written at %llu: whole words of %d bytes expected",
                         (unsigned long long)bytes, (unsigned long long)offset, WORD);
    memcpy(word, data, (size_t)bytes);
    tern_webgpu_host_range at = tern_webgpu__range(buffer, offset, WORD);
    tern_webgpu_host_buffer_write(at.buffer, at.offset, word, WORD);
    return TERN_OK;
}

tern_status tern_webgpu__buffer_write(tern_webgpu *gpu, tern_buffer *buffer, uint64_t offset, const void *data,
                                      uint64_t bytes, tern_error *err)
{
    const uint8_t *from = data;
    TERN_TRY(tern_backend_check_range(buffer->bytes, offset, bytes, err));
    if (offset % WORD)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "webgpu: bytes written at %llu: a multiple of %d expected",
                         (unsigned long long)offset, WORD);
    gpu->counters.uploaded_bytes += bytes;
    while (bytes >= WORD) {
        uint64_t room = buffer->part_bytes - offset % buffer->part_bytes, whole = bytes / WORD * WORD;
        tern_webgpu_host_range at = tern_webgpu__range(buffer, offset, whole < room ? whole : room);
        tern_webgpu_host_buffer_write(at.buffer, at.offset, from, at.bytes);
        from += at.bytes;
        offset += at.bytes;
        bytes -= at.bytes;
    }
    return bytes ? write_end(buffer, offset, from, bytes, err) : TERN_OK;
}

/* The part of the read that is in one piece, from `done` on; skip: bytes before it in its first word. */
static tern_webgpu_host_range next_piece(const tern_webgpu_read *r, uint32_t *skip, uint32_t *n)
{
    uint64_t at = r->offset + r->done, room = r->buffer->part_bytes - at % r->buffer->part_bytes,
             left = r->bytes - r->done;
    *skip = (uint32_t)(at % WORD);
    *n = (uint32_t)(left < room ? left : room);
    return tern_webgpu__range(r->buffer, at - *skip, (*skip + *n + WORD - 1) / WORD * WORD);
}

static void start_piece(const tern_webgpu_read *r)
{
    uint32_t skip, n;
    tern_webgpu_host_range from = next_piece(r, &skip, &n);
    tern_webgpu_host_read_start(from.buffer, from.offset, from.bytes);
}

/* Takes what has come. */
static tern_status go_on(tern_webgpu *gpu)
{
    tern_webgpu_read *r = &gpu->reading;
    uint32_t skip, n;
    next_piece(r, &skip, &n);
    if (!tern_webgpu_host_read_finish((uint8_t *)r->data + r->done, skip, n)) return TERN_PENDING;
    r->done += n;
    if (r->done < r->bytes) {
        start_piece(r);
        return TERN_PENDING;
    }
    gpu->counters.downloaded_bytes += r->bytes;
    *r = (tern_webgpu_read){0};
    return TERN_OK;
}

tern_status tern_webgpu__buffer_read(tern_webgpu *gpu, const tern_buffer *buffer, uint64_t offset, void *data,
                                     uint64_t bytes, tern_error *err)
{
    tern_webgpu_read *r = &gpu->reading;
    TERN_TRY(tern_backend_check_range(buffer->bytes, offset, bytes, err));
    if (bytes == 0) return TERN_OK;
    tern_status status = tern_webgpu__check(err);
    if (status != TERN_OK) {
        tern_webgpu__read_cancel(gpu);
        return status;
    }
    if (r->buffer && (r->buffer != buffer || r->offset != offset || r->bytes != bytes))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "webgpu: a read of %llu bytes while one of %llu is on its way: one at a time expected",
                         (unsigned long long)bytes, (unsigned long long)r->bytes);
    if (r->buffer) {
        r->data = data;
        return go_on(gpu);
    }
    *r = (tern_webgpu_read){.buffer = buffer, .offset = offset, .bytes = bytes, .data = data};
    start_piece(r);
    return TERN_PENDING;
}
