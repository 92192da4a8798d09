// What Emscripten's code for Node expects of a CommonJS module, for an ES module; nothing of it is there in a browser.
// No await: bundlers minify this file as a script.
const tern_node = typeof process === 'object' && process.versions && process.versions.node;
const require = tern_node ? process.getBuiltinModule('node:module').createRequire(import.meta.url) : undefined;
const __filename = require ? require('node:url').fileURLToPath(import.meta.url) : undefined;
const __dirname = require ? require('node:path').dirname(__filename) : undefined;
