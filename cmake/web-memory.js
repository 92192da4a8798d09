// The memory, for JavaScript outside of the module; builds with threads have it there already.
Object.defineProperty(Module, 'wasmMemory', {get: () => wasmMemory});
