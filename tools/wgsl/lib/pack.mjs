// All SPIR-V in two files: kernels.spvpack, the packed modules one behind the other, and spirv.def, which has a row
// X(NAME, REFERENCE, words, bytes, sum) for each pipeline: how many words its module has, how many bytes that takes in
// the pack, a checksum, and the pipeline of the same kernel that it repeats parts of (itself: none).
// src/backend/gpu/spirv.c unpacks.
//
// A packed module is a list of numbers, each in 7 bits a byte, the lowest first, with the top bit where more follow:
// `first` (number.mjs), then in turns n and n words, and n and a distance: n words again that stand so far back in what
// the reference and then the module itself have. A word is rotated left by one bit. An id that a function declares is
// its place in that function with the top bit set, so that a function is the same words in every module.
import fs from 'node:fs';
import path from 'node:path';

import {number} from './number.mjs';
import {idPositions} from './operands.mjs';
import {decode, encode, Op} from './spirv.mjs';

export const PACK = 'kernels.spvpack', INDEX = 'spirv.def';
const HEAD =
    '/* Made by tools/wgsl (`make shaders`); do not edit. Pipelines: reference, words, packed bytes, checksum. */\n';
const ROW = /^X\((\w+), (\w+), (\d+), (\d+), (\w+)\)$/gm;
const OWN = 0x80000000, SHORTEST = 3, TRIES = 96;
const CHAIN = 8; // so many modules at most have to be unpacked before one

// The words of a module with ids of functions as places in them.
function withPlaces({header, instructions}, first) {
    const words = [...header];
    let start = first, next = first, inside = false;
    for (const i of instructions) {
        if (i[0] === Op.Function) [start, inside] = [next, true];
        const out = [...i];
        if (inside && i.some((word) => word >= OWN)) throw new Error(`SPIR-V: opcode ${i[0]} has a number over 2^31`);
        for (const n of inside ? idPositions(i) : []) {
            if (i[n] < first) continue;
            next = Math.max(next, i[n] + 1);
            out[n] = (OWN | (i[n] - start)) >>> 0;
        }
        out[0] = (i.length << 16 | i[0]) >>> 0;
        for (const word of out) words.push(word);
    }
    return words;
}

// Back to ids: what spirv.c does.
function withIds(words, first) {
    let start = first, next = first, inside = false;
    for (let i = 5; i < words.length;) {
        const n = words[i] >>> 16;
        if ((words[i] & 0xffff) === Op.Function) [start, inside] = [next, true];
        for (let k = i + 1; inside && k < i + n; k++) {
            if (words[k] < OWN) continue;
            words[k] = start + (words[k] - OWN);
            next = Math.max(next, words[k] + 1);
        }
        i += n;
    }
    return words;
}

class Writer {
    constructor() {
        this.bytes = [];
    }
    number(n) {
        for (; n > 127; n >>>= 7) this.bytes.push(n & 127 | 128);
        this.bytes.push(n);
    }
    words(words) {
        this.number(words.length);
        for (const word of words) this.number((word << 1 | word >>> 31) >>> 0);
    }
}

class Reader {
    constructor(bytes) {
        this.bytes = bytes;
        this.at = 0;
    }
    number() {
        let n = 0;
        for (let shift = 0; ; shift += 7) {
            const byte = this.bytes[this.at++];
            n = (n | (byte & 127) << shift) >>> 0;
            if (byte < 128) return n;
        }
    }
    word() {
        const n = this.number();
        return (n >>> 1 | n << 31) >>> 0;
    }
}

// Where words stood before: of each three of them the latest places.
class Places {
    constructor(words) {
        this.words = words;
        this.latest = new Map();
        this.before = new Int32Array(words.length);
        this.known = 0;
    }
    key(at) {
        const [a, b, c] = [this.words[at], this.words[at + 1], this.words[at + 2]];
        return (Math.imul(a, 0x9e3779b1) ^ Math.imul(b, 0x85ebca6b) ^ Math.imul(c, 0xc2b2ae35)) | 0;
    }
    learn(end) {
        for (; this.known + SHORTEST <= end; this.known++) {
            const key = this.key(this.known);
            this.before[this.known] = this.latest.get(key) ?? -1;
            this.latest.set(key, this.known);
        }
    }
    // [length, distance] of the longest run before `at` that goes on as the words do there.
    longest(at) {
        const {words} = this;
        let length = 0, from = at, place = this.latest.get(this.key(at)) ?? -1;
        for (let tries = 0; place >= 0 && tries < TRIES; tries++, place = this.before[place]) {
            let n = 0;
            while (at + n < words.length && words[place + n] === words[at + n]) n++;
            if (n > length) [length, from] = [n, place];
        }
        return [length, at - from];
    }
}

// The packed form of words behind those of a reference.
function compress(first, reference, own) {
    const words = Uint32Array.from([...reference, ...own]), places = new Places(words), out = new Writer();
    let at = reference.length, fresh = at;
    out.number(first);
    while (at < words.length) {
        places.learn(at);
        const [length, distance] = places.longest(at);
        if (length < SHORTEST) {
            at++;
            continue;
        }
        out.words(words.subarray(fresh, at));
        out.number(length);
        out.number(distance);
        fresh = at += length;
    }
    if (fresh < at) out.words(words.subarray(fresh, at));
    return Buffer.from(out.bytes);
}

function expand(packed, reference, count) {
    const reader = new Reader(packed), first = reader.number(), end = reference.length + count;
    const words = new Uint32Array(end);
    words.set(reference);
    for (let at = reference.length; at < end;) {
        for (let n = reader.number(); n > 0; n--) words[at++] = reader.word();
        if (at === end) break;
        const n = reader.number(), distance = reader.number();
        for (const stop = at + n; at < stop; at++) words[at] = words[at - distance];
    }
    return {first, words: words.subarray(reference.length)};
}

// FNV-1a over words, as C has it.
const sumOf = (words) => {
    const sum = words.reduce((n, word) => Math.imul(n ^ word, 0x01000193), 0x811c9dc5);
    return `0x${(sum >>> 0).toString(16).padStart(8, '0')}`;
};

// The reference of a kernel's n-th module: the one before it, and of every eighth the first.
const referenceOf = (n) => (n % CHAIN ? n - 1 : 0);

// [[name, {reference, words, packed}]] of a kernel's modules, [[name, words as compile() gives them]].
export function packKernel(modules) {
    const {first, modules: numbered} = number(modules.map(([, words]) => decode(words)));
    const all = numbered.map((module) => withPlaces(module, first));
    return modules.map(([name], n) => {
        const at = referenceOf(n), before = n ? all[at] : [];
        const packed = compress(first, before, all[n]);
        const sum = sumOf(encode(numbered[n]));
        return [name, {reference: modules[at][0], words: all[n].length, packed, sum}];
    });
}

// [[file name, Buffer]] of a Map from pipelines' names to packed modules.
export function packFiles(entries) {
    const lines = [...entries].map(([name, e]) =>
        `X(${name}, ${e.reference}, ${e.words}, ${e.packed.length}, ${e.sum})\n`);
    const packed = Buffer.concat([...entries.values()].map((e) => e.packed));
    return [[PACK, packed], [INDEX, Buffer.from(HEAD + lines.join(''))]];
}

// The packed modules in a folder, a Map; empty where there are none.
export function readPack(folder) {
    const entries = new Map();
    if (!fs.existsSync(path.join(folder, INDEX)) || !fs.existsSync(path.join(folder, PACK))) return entries;
    const pack = fs.readFileSync(path.join(folder, PACK));
    let at = 0;
    const index = fs.readFileSync(path.join(folder, INDEX), 'utf8');
    for (const [, name, reference, words, bytes, sum] of index.matchAll(ROW)) {
        entries.set(name, {reference, words: Number(words), packed: pack.subarray(at, at + Number(bytes)), sum});
        at += Number(bytes);
    }
    return entries;
}

// The words of a packed module, as the library has them.
export function unpack(entries, name) {
    const placed = (of) => {
        const {reference, words, packed} = entries.get(of);
        return expand(packed, reference === of ? [] : placed(reference).words, words);
    };
    const {first, words} = placed(name);
    return withIds(Uint32Array.from(words), first);
}
