// The imports of src/web/host.h, for emcc --js-library: handed on to Module.experts (web/lib/experts.js), which whoever
// makes the module gives it. Called by the thread that makes steps, never by workers of threads.
mergeInto(LibraryManager.library, {
    tern_web_host_expert: function (source, shard, into, bytes, message, cap) {
        return Module['experts'].bring(wasmMemory, {
            source: source, shard: shard >>> 0, into: into >>> 0, bytes: bytes >>> 0, message: message >>> 0, cap: cap
        });
    },
});
