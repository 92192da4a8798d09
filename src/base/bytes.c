/* Growable byte strings and the cursor over untrusted bytes. */
#include "base/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

static tern_status reserve(tern_buf *buf, size_t more, tern_error *err)
{
    size_t need;
    if (!tern_size_add(buf->size, more, &need) || !tern_size_add(need, 1, &need)) return tern_fail_alloc(err, SIZE_MAX);
    void *data = buf->data;
    TERN_TRY(tern_grow(&data, &buf->cap, need, 1, err));
    buf->data = data;
    return TERN_OK;
}

tern_status tern_buf_add(tern_buf *buf, const void *bytes, size_t n, tern_error *err)
{
    TERN_TRY(reserve(buf, n, err));
    if (n) memcpy(buf->data + buf->size, bytes, n);
    buf->size += n;
    buf->data[buf->size] = 0;
    return TERN_OK;
}

tern_status tern_buf_addf(tern_buf *buf, tern_error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    tern_status status = n < 0 ? tern_fail(err, TERN_INTERNAL, "bad format") : reserve(buf, (size_t)n, err);
    if (status == TERN_OK) {
        vsnprintf(buf->data + buf->size, (size_t)n + 1, format, again);
        buf->size += (size_t)n;
    }
    va_end(again);
    return status;
}

void tern_buf_deinit(tern_buf *buf)
{
    if (!buf) return;
    tern_free(buf->data);
    *buf = (tern_buf){0};
}

const uint8_t *tern_cursor_take(tern_cursor *c, uint64_t n)
{
    if (c->bad) return NULL;
    if (n > c->size - c->at) {
        c->bad = true;
        if (__builtin_add_overflow(c->at, n, &c->wanted)) c->wanted = UINT64_MAX;
        return NULL;
    }
    const uint8_t *p = c->data + c->at;
    c->at += (size_t)n;
    return p;
}

uint8_t tern_cursor_u8(tern_cursor *c)
{
    const uint8_t *p = tern_cursor_take(c, 1);
    return p ? *p : 0;
}

uint16_t tern_cursor_u16(tern_cursor *c)
{
    const uint8_t *p = tern_cursor_take(c, 2);
    return p ? tern_load_u16(p) : 0;
}

uint32_t tern_cursor_u32(tern_cursor *c)
{
    const uint8_t *p = tern_cursor_take(c, 4);
    return p ? tern_load_u32(p) : 0;
}

uint64_t tern_cursor_u64(tern_cursor *c)
{
    const uint8_t *p = tern_cursor_take(c, 8);
    return p ? tern_load_u64(p) : 0;
}

uint16_t tern_load_u16(const void *p)
{
    const uint8_t *b = p;
    return (uint16_t)(b[0] | b[1] << 8);
}

uint32_t tern_load_u32(const void *p)
{
    const uint8_t *b = p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

uint64_t tern_load_u64(const void *p)
{
    return tern_load_u32(p) | (uint64_t)tern_load_u32((const uint8_t *)p + 4) << 32;
}

float tern_load_f32(const void *p)
{
    uint32_t bits = tern_load_u32(p);
    float v;
    memcpy(&v, &bits, 4);
    return v;
}

void tern_store_u16(void *p, uint16_t v)
{
    uint8_t *b = p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
}

void tern_store_u32(void *p, uint32_t v)
{
    tern_store_u16(p, (uint16_t)v);
    tern_store_u16((uint8_t *)p + 2, (uint16_t)(v >> 16));
}

void tern_store_u64(void *p, uint64_t v)
{
    tern_store_u32(p, (uint32_t)v);
    tern_store_u32((uint8_t *)p + 4, (uint32_t)(v >> 32));
}

void tern_store_f32(void *p, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, 4);
    tern_store_u32(p, bits);
}
