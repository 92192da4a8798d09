/* Views, growable byte strings, and the cursor through which untrusted bytes are read. */
#ifndef TERN_BASE_BYTES_H
#define TERN_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tern/bytes.h"

/* A borrowed run of bytes, not NUL-terminated. */
typedef struct tern_span {
    const uint8_t *data;
    size_t size;
} tern_span;

tern_status tern_buf_add(tern_buf *buf, const void *bytes, size_t n, tern_error *err);
tern_status tern_buf_addf(tern_buf *buf, tern_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reads little-endian values from untrusted bytes. After the first short read it stays bad and
 * yields zeros, so that a record is read straight through and checked once. */
typedef struct tern_cursor {
    const uint8_t *data;
    size_t size, at;
    bool bad;
    uint64_t more;   /* bytes that follow these but are not at hand: a read into them is a short read */
    uint64_t wanted; /* once bad: how many bytes, from the first, the short read would have needed */
} tern_cursor;

/* The least multiple of `multiple` that is at least n; no overflow may be possible. */
static inline uint64_t tern_round_up(uint64_t n, uint64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

static inline tern_cursor tern_cursor_open(const void *data, size_t size)
{
    return (tern_cursor){.data = data, .size = size};
}

static inline size_t tern_cursor_left(const tern_cursor *c)
{
    return c->bad ? 0 : c->size - c->at;
}

/* With those that are not at hand. */
static inline uint64_t tern_cursor_rest(const tern_cursor *c)
{
    return c->bad ? 0 : c->size - c->at + c->more;
}

/* The next n bytes, or NULL (and the cursor turns bad) when fewer are left. */
const uint8_t *tern_cursor_take(tern_cursor *c, uint64_t n);
uint8_t tern_cursor_u8(tern_cursor *c);
uint16_t tern_cursor_u16(tern_cursor *c);
uint32_t tern_cursor_u32(tern_cursor *c);
uint64_t tern_cursor_u64(tern_cursor *c);

/* Unaligned little-endian loads and stores on trusted addresses. */
uint16_t tern_load_u16(const void *p);
uint32_t tern_load_u32(const void *p);
uint64_t tern_load_u64(const void *p);
float tern_load_f32(const void *p);
void tern_store_u16(void *p, uint16_t v);
void tern_store_u32(void *p, uint32_t v);
void tern_store_u64(void *p, uint64_t v);
void tern_store_f32(void *p, float v);

#endif
