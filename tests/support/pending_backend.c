/* PENDING in front of another backend. */
#include "support/pending_backend.h"

#include "base/rng.h"
#include "support/test.h"

enum { MOST_TIMES = 3 };

static struct {
    tern_backend inner; /* the table as it was */
    tern_rng rng;
    uint64_t n_pending;
    uint32_t left;       /* PENDINGs before the read or wait under way is done */
    uint32_t calls_left; /* before one fails; 0: none does */
    bool waiting;
    /* the read under way */
    bool reading;
    const tern_buffer *buffer;
    uint64_t offset, bytes;
    uint8_t *snapshot;
    tern_status status;
    tern_error error;
} pending;

uint64_t test_pending_count(void)
{
    return pending.n_pending;
}

bool test_pending_reading(void)
{
    return pending.reading;
}

void test_pending_fail_after(uint32_t n)
{
    pending.calls_left = n;
}

static uint32_t some_times(void)
{
    return (uint32_t)(tern_rng_u64(&pending.rng) % (MOST_TIMES + 1));
}

/* PENDING still? */
static bool not_yet(void)
{
    if (pending.left == 0) return false;
    pending.left--;
    pending.n_pending++;
    return true;
}

static bool fails(void)
{
    return pending.calls_left && --pending.calls_left == 0;
}

static void forget(void)
{
    free(pending.snapshot);
    pending.snapshot = NULL;
    pending.reading = false;
}

static void begin(tern_backend *b, const tern_buffer *buffer, uint64_t offset, uint64_t bytes)
{
    pending.snapshot = malloc(bytes + 1);
    pending.reading = true;
    pending.waiting = false; /* a read waits itself */
    pending.buffer = buffer;
    pending.offset = offset;
    pending.bytes = bytes;
    pending.left = some_times();
    pending.error = (tern_error){0};
    pending.status = pending.inner.buffer_read(b, buffer, offset, pending.snapshot, bytes, &pending.error);
}

static tern_status buffer_read(tern_backend *b, const tern_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                               tern_error *err)
{
    if (!pending.reading) begin(b, buffer, offset, bytes);
    assert_ptr_equal(buffer, pending.buffer); /* else another is under way that nobody has forgotten */
    assert_int_equal(offset, pending.offset);
    assert_int_equal(bytes, pending.bytes);
    memset(data, 0xA5, bytes); /* nothing to be looked at before the end */
    if (not_yet()) return TERN_PENDING;
    tern_status status = pending.status;
    if (status == TERN_OK) memcpy(data, pending.snapshot, bytes);
    else *err = pending.error;
    forget();
    return fails() ? tern_fail(err, TERN_INTERNAL, "this read was to fail") : status;
}

static void read_cancel(tern_backend *b)
{
    (void)b;
    forget();
}

static tern_status wait(tern_backend *b, tern_error *err)
{
    if (!pending.waiting) pending.left = some_times();
    pending.waiting = true;
    if (not_yet()) return TERN_PENDING;
    pending.waiting = false;
    return fails() ? tern_fail(err, TERN_INTERNAL, "this wait was to fail") : pending.inner.wait(b, err);
}

/* What is written is for what runs next. */
static tern_status buffer_write(tern_backend *b, tern_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                                tern_error *err)
{
    TERN_TRY(pending.inner.wait(b, err));
    return pending.inner.buffer_write(b, buffer, offset, data, bytes, err);
}

static tern_status weight_write(tern_backend *b, tern_buffer *buffer, const tern_weight *part, uint32_t first,
                                tern_error *err)
{
    TERN_TRY(pending.inner.wait(b, err));
    return pending.inner.weight_write(b, buffer, part, first, err);
}

static void buffer_free(tern_backend *b, tern_buffer *buffer)
{
    assert_false(buffer && pending.reading && buffer == pending.buffer);
    pending.inner.buffer_free(b, buffer);
}

void test_make_pending(tern_backend *backend, uint64_t seed)
{
    forget();
    memset(&pending, 0, sizeof pending);
    pending.inner = *backend;
    pending.rng.state = seed;
    backend->info.never_waits = true;
    backend->buffer_read = buffer_read;
    backend->read_cancel = read_cancel;
    backend->buffer_write = buffer_write;
    backend->weight_write = pending.inner.weight_write ? weight_write : NULL;
    backend->buffer_free = buffer_free;
    backend->wait = wait;
}

void test_end_pending(tern_backend *backend)
{
    assert_false(pending.reading);
    backend->info.never_waits = false;
    backend->buffer_read = pending.inner.buffer_read;
    backend->read_cancel = pending.inner.read_cancel;
    backend->buffer_write = pending.inner.buffer_write;
    backend->weight_write = pending.inner.weight_write;
    backend->buffer_free = pending.inner.buffer_free;
    backend->wait = pending.inner.wait;
}
