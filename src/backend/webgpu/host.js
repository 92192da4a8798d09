// The imports of src/backend/webgpu/host.h, for emcc --js-library: handed on to Module.gpu (web/lib/gpu.js), which
// whoever makes the module gives it before the backend is opened. Workers of threads never call them.
mergeInto(LibraryManager.library, {
    tern_webgpu_host_open: function (device) {
        return Module['gpu'] ? Module['gpu'].host.open(wasmMemory, device) : 0;
    },
    tern_webgpu_host_failure: function (message, cap) {
        return Module['gpu'].host.failure(message, cap);
    },
    tern_webgpu_host_buffer_create: function (bytes) {
        return Module['gpu'].host.createBuffer(bytes >>> 0);
    },
    tern_webgpu_host_buffer_free: function (buffer) {
        Module['gpu'].host.freeBuffer(buffer);
    },
    tern_webgpu_host_buffer_write: function (buffer, offset, data, bytes) {
        Module['gpu'].host.write(buffer, offset >>> 0, data >>> 0, bytes);
    },
    tern_webgpu_host_read_start: function (buffer, offset, bytes) {
        Module['gpu'].host.startRead(buffer, offset >>> 0, bytes >>> 0);
    },
    tern_webgpu_host_read_finish: function (into, skip, bytes) {
        return Module['gpu'].host.finishRead(into >>> 0, skip, bytes >>> 0);
    },
    tern_webgpu_host_read_stop: function () {
        Module['gpu'].host.stopRead();
    },
    tern_webgpu_host_done: function () {
        return Module['gpu'].host.done();
    },
    tern_webgpu_host_pipeline: function (which, name, file, signature, overrides, needs) {
        Module['gpu'].host.makePipeline(which, name, file, signature, overrides, needs);
    },
    tern_webgpu_host_program_create: function (dispatches, n) {
        return Module['gpu'].host.createProgram(dispatches >>> 0, n);
    },
    tern_webgpu_host_program_free: function (program) {
        Module['gpu'].host.freeProgram(program);
    },
    tern_webgpu_host_run: function (program, steps) {
        return Module['gpu'].host.run(program, steps);
    },
});
