/* Waiting for the device in a WebAssembly test program. */
#include "support/web_device.h"

#ifdef __EMSCRIPTEN__
#include <emscripten.h>

// clang-format off
EM_JS(void, test_device_idle, (void), { return Asyncify.handleAsync(async () => { await Module.gpu.idle(); }); })
// clang-format on

static tern_backend table; /* as the backend's own */

static tern_status buffer_read(tern_backend *b, const tern_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                               tern_error *err)
{
    for (;;) {
        tern_status status = table.buffer_read(b, buffer, offset, data, bytes, err);
        if (status != TERN_PENDING) return status;
        test_device_idle();
    }
}

static tern_status wait(tern_backend *b, tern_error *err)
{
    for (;;) {
        tern_status status = table.wait(b, err);
        if (status != TERN_PENDING) return status;
        test_device_idle();
    }
}

void test_make_waiting(tern_backend *backend)
{
    if (!backend->info.never_waits) return;
    table = *backend;
    backend->buffer_read = buffer_read;
    backend->wait = wait;
    backend->info.never_waits = false;
}
#else
void test_make_waiting(tern_backend *backend)
{
    (void)backend;
}
#endif
