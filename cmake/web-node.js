// What Emscripten's code for Node expects of a CommonJS module, for an ES module; nothing of it is there in a browser.
const tern_node = typeof process === 'object' && process.versions && process.versions.node
    ? await import('node:module') : null;
const require = tern_node ? tern_node.createRequire(import.meta.url) : undefined;
const __filename = require ? require('node:url').fileURLToPath(import.meta.url) : undefined;
const __dirname = require ? require('node:path').dirname(__filename) : undefined;
