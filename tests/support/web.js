// Test programs of the WebAssembly build read their module themselves (Node's fetch takes no paths) and see Node's
// environment.
Module['preRun'] = [() => typeof ENV === 'object' && Object.assign(ENV, process.env)];
if (typeof __filename === 'string')
    Module['wasmBinary'] = require('fs').readFileSync(__filename.replace(/\.js$/, '.wasm'));
