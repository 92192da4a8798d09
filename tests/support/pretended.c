/* A CPU that says it is a device with memory of its own. */
#include "support/pretended.h"

#include "backend/open.h"
#include "quant/weight.h"
#include "support/test.h"

static uint64_t left;

static uint64_t memory_free(const tern_backend *b)
{
    (void)b;
    return left;
}

static tern_status bytes_of(const tern_backend *b, const tern_weight *w, uint64_t *n, tern_error *err)
{
    (void)b, (void)err;
    *n = w->bytes;
    return TERN_OK;
}

void test_pretend_device(tern_backend *b)
{
    b->memory_free = memory_free;
    b->weight_bytes = bytes_of;
    b->info.copies_weights = true;
    b->info.unified = false;
}

void test_pretend_left(uint64_t bytes)
{
    left = bytes;
}

tern_backend *test_pretended(uint64_t bytes)
{
    tern_error err = {0};
    tern_backend *b;
    assert_ok(tern_backend_open(&b, &(tern_backend_options){.n_threads = 1}, &err), err);
    test_pretend_device(b);
    test_pretend_left(bytes);
    return b;
}
