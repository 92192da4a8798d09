// Reads the pipeline table (src/backend/gpu/FAMILY/pipelines*.def): rows X(NAME, "file", "signature", needs, subgroup,
// invocations, bytes, "overrides"), and macros of such rows (macros.mjs). Text in, rows out; runs in a browser as well.
import {expand} from './macros.mjs';

export class TableError extends Error {
    constructor(file, line, message) {
        super(`${file}:${line}: ${message}`);
    }
}

const TOKEN = new RegExp([
    /\s+|\/\/[^\n]*|\/\*[\s\S]*?\*\//, /"((?:[^"\\\n]|\\.)*)"/, /([A-Za-z_]\w*)/, /(0[xX][0-9a-fA-F]+|\d+)/,
    /([(),|*+])/, /(#[^\n]*)/,
].map((r) => r.source).join('|'), 'y');
const WORDS = {
    TERN_GPU_NEEDS_SUBGROUPS: 1, TERN_GPU_NEEDS_COOPERATIVE: 2, TERN_GPU_NEEDS_WAITS: 4,
    TERN_GPU_NEEDS_INT8_MATRICES: 8, TERN_GPU_NEEDS_VULKAN: 16,
};

function tokenize(text, file) {
    const tokens = [];
    let line = 1;
    for (TOKEN.lastIndex = 0; TOKEN.lastIndex < text.length;) {
        const at = TOKEN.lastIndex, match = TOKEN.exec(text);
        if (!match) throw new TableError(file, line, `unexpected ${JSON.stringify(text[at])}`);
        const [all, string, word, number, mark, directive] = match;
        if (directive) {
            const expected = 'only #define, #undef, #include and rows X(...) expected';
            throw new TableError(file, line, `${directive.trim()}: ${expected}`);
        }
        if (string !== undefined) tokens.push({kind: 'string', value: string, line});
        else if (word) tokens.push({kind: 'word', value: word, line});
        else if (number) tokens.push({kind: 'number', value: Number(number), line});
        else if (mark) tokens.push({kind: mark, line});
        for (const c of all) if (c === '\n') line++;
    }
    return tokens;
}

class Reader {
    constructor(text, file) {
        this.tokens = tokenize(text, file);
        this.file = file;
        this.at = 0;
    }
    get line() {
        return (this.tokens[this.at] ?? this.tokens.at(-1) ?? {line: 1}).line;
    }
    fail(message) {
        throw new TableError(this.file, this.line, message);
    }
    peek() {
        return this.tokens[this.at]?.kind;
    }
    take(kind) {
        const token = this.tokens[this.at];
        if (token?.kind !== kind) this.fail(`${token ? token.value ?? token.kind : 'end of file'}: ${kind} expected`);
        this.at++;
        return token.value;
    }
    // Strings that follow each other are one.
    string() {
        let value = this.take('string');
        while (this.peek() === 'string') value += this.take('string');
        return value;
    }
    factor() {
        if (this.peek() !== 'word') return this.take('number');
        const word = this.take('word');
        return WORDS[word] ?? this.fail(`${word}: a number expected`);
    }
    // Sums and products of numbers.
    number() {
        let sum = 0, product = this.factor();
        for (;;) {
            if (this.peek() === '*') {
                this.take('*');
                product *= this.factor();
            } else if (this.peek() === '+' || this.peek() === '|') {
                this.take(this.peek());
                sum += product;
                product = this.factor();
            } else return sum + product;
        }
    }
    comma(value) {
        this.take(',');
        return value;
    }
}

// {KEY: 'VALUE'} of "KEY=VALUE ...".
function parseOverrides(text, reader) {
    const overrides = {};
    for (const pair of text.split(/\s+/).filter(Boolean)) {
        const match = /^([A-Za-z_]\w*)=(\S+)$/.exec(pair);
        if (!match) reader.fail(`override "${pair}": KEY=VALUE expected`);
        if (match[1] in overrides) reader.fail(`override ${match[1]}: given twice`);
        overrides[match[1]] = match[2];
    }
    return overrides;
}

// The rows of one file, in order: {name, file, signature, needs, subgroup, invocations, bytes, overrides, where};
// overrides are {KEY: 'VALUE'}, where is 'file:line'.
// `include(path)` gives the text of a list of formats that the file includes.
export function parseTable(text, file, include) {
    const reader = new Reader(expand(text, include), file), rows = [];
    while (reader.peek()) {
        const where = `${file}:${reader.line}`;
        if (reader.take('word') !== 'X') reader.fail('a row X(...) expected');
        reader.take('(');
        const row = {where};
        row.name = reader.comma(reader.take('word'));
        row.file = reader.comma(reader.string());
        row.signature = reader.comma(reader.string());
        for (const key of ['needs', 'subgroup', 'invocations', 'bytes']) row[key] = reader.comma(reader.number());
        row.overrides = parseOverrides(reader.string(), reader);
        reader.take(')');
        rows.push(row);
    }
    return rows;
}

export const needsSubgroups = (row) => (row.needs & 1) !== 0;
// Written in naga's dialect, which WebGPU does not know.
export const needsCooperative = (row) =>
    (row.needs & (WORDS.TERN_GPU_NEEDS_COOPERATIVE | WORDS.TERN_GPU_NEEDS_INT8_MATRICES)) !== 0;
// Its workgroups wait for those of other dispatches, which no browser promises to be right.
export const needsWaits = (row) => (row.needs & WORDS.TERN_GPU_NEEDS_WAITS) !== 0;
// For Vulkan alone.
export const nativeOnly = (row) =>
    needsCooperative(row) || needsWaits(row) || (row.needs & WORDS.TERN_GPU_NEEDS_VULKAN) !== 0;
