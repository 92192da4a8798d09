// GGUF files that differ from another in some metadata and tensors, for tests of what the server makes of those.
import { readFileSync, writeFileSync } from 'node:fs';

const sizes = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 }; // of types without a length
const u32 = (value) => Buffer.from(new Uint32Array([value]).buffer);
const u64 = (value) => Buffer.from(new BigUint64Array([BigInt(value)]).buffer);
const text = (value) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);

/** Where a value of this type that begins at `at` ends. */
function skip(file, at, type) {
    const number = (from) => Number(file.readBigUInt64LE(from));
    if (type === 8) return at + 8 + number(at);
    if (type !== 9) return at + sizes[type];
    const inner = file.readUInt32LE(at), n = number(at + 4);
    at += 12;
    for (let i = 0; i < n; i++) at = skip(file, at, inner);
    return at;
}

/** The array of texts that begins at `at`, with others in the place of some: {index: text}. */
function replaceTexts(file, at, texts) {
    const n = Number(file.readBigUInt64LE(at + 4)), parts = [file.subarray(at, at + 12)];
    at += 12;
    for (let i = 0; i < n; i++) {
        const end = skip(file, at, 8);
        parts.push(i in texts ? text(texts[i]) : file.subarray(at, end));
        at = end;
    }
    return Buffer.concat(parts);
}

/** Writes to `to` the file `from` with more: metadata {key: a whole number or a text}, tensors {name: {rows, cols,
 * values}} of f32, and other texts of tokens {id: text}. */
export function extendGguf(from, to, metadata, tensors = {}, pieces = {}) {
    const file = readFileSync(from), count = (at) => Number(file.readBigUInt64LE(at));
    const nTensors = count(8), nKeys = count(16);
    let at = 24, alignment = 32, old = Buffer.alloc(0);
    for (let i = 0; i < nKeys; i++) {
        const key = file.toString('utf8', at + 8, at + 8 + count(at)), begin = at;
        at += 8 + count(at);
        const type = file.readUInt32LE(at), value = at + 4;
        if (key === 'general.alignment') alignment = file.readUInt32LE(value);
        at = skip(file, value, type);
        old = Buffer.concat([old, ...key === 'tokenizer.ggml.tokens' ? [file.subarray(begin, value), replaceTexts(file,
            value, pieces)] : [file.subarray(begin, at)]]);
    }
    const keysEnd = at;
    for (let i = 0; i < nTensors; i++) {
        at += 8 + count(at);
        at += 4 + 8 * file.readUInt32LE(at) + 12;
    }
    const padded = (n) => Math.ceil(n / alignment) * alignment;
    const data = file.subarray(padded(at));
    const keys = Object.entries(metadata).map(([key, value]) => Buffer.concat(typeof value === 'string'
        ? [text(key), u32(8), text(value)] : [text(key), u32(4), u32(value)]));
    const infos = [], more = [];
    let offset = padded(data.length);
    for (const [name, { rows, cols, values }] of Object.entries(tensors)) {
        infos.push(text(name), u32(2), u64(cols), u64(rows), u32(0), u64(offset));
        const bytes = Buffer.from(new Float32Array(values).buffer);
        more.push(bytes, Buffer.alloc(padded(bytes.length) - bytes.length));
        offset += padded(bytes.length);
    }
    const head = Buffer.concat([file.subarray(0, 8), u64(nTensors + Object.keys(tensors).length),
        u64(nKeys + keys.length), old, ...keys, file.subarray(keysEnd, at), ...infos]);
    writeFileSync(to, Buffer.concat([head, Buffer.alloc(padded(head.length) - head.length), data,
        Buffer.alloc(padded(data.length) - data.length), ...more]));
}
