// What a table takes of the C preprocessor: #define of a macro with parameters, #undef, # and ##, and #include of a
// list of macro calls. Other files that a table includes are C's alone. Text in, text out, line for line.

const DEFINE = /^#define\s+(\w+)\(([^)]*)\)\s*([\s\S]*)$/;

// The arguments of a call from just behind its bracket on, and where the call ends; brackets and strings may nest.
function argumentsAt(text, at) {
    const list = [];
    let depth = 0, start = at, quoted = false;
    for (; at < text.length; at++) {
        const c = text[at];
        if (c === '"' && text[at - 1] !== '\\') quoted = !quoted;
        if (quoted) continue;
        if (c === '(') depth++;
        if ((c === ',' || c === ')') && depth === 0) {
            list.push(text.slice(start, at).trim());
            start = at + 1;
            if (c === ')') return {list, end: at + 1};
        }
        if (c === ')') depth--;
    }
    return null;
}

function substitute(macro, list) {
    const value = new Map(macro.parameters.map((name, i) => [name, list[i] ?? '']));
    return macro.body
        .replace(/(?<!#)#\s*(\w+)/g, (all, name) => (value.has(name) ? `"${value.get(name)}"` : all))
        .replace(/"(?:[^"\\]|\\.)*"|\w+/g, (word) => (value.has(word) ? value.get(word) : word))
        .replace(/\s*##\s*/g, '');
}

// Calls of macros replaced by what they stand for; a macro is not expanded inside itself.
function expandCalls(text, macros) {
    const call = /"(?:[^"\\]|\\.)*"|\/\*[\s\S]*?\*\/|\b(\w+)\(/g;
    let out = '', last = 0;
    for (let match; (match = call.exec(text));) {
        const macro = match[1] && macros.get(match[1]);
        const found = macro && argumentsAt(text, call.lastIndex);
        if (!found) continue;
        const others = new Map([...macros].filter(([name]) => name !== match[1]));
        out += text.slice(last, match.index) + expandCalls(substitute(macro, found.list), others);
        last = call.lastIndex = found.end;
    }
    return out + text.slice(last);
}

const withoutComments = (text) => text.replace(/\/\*[\s\S]*?\*\//g, ' ');

// `include(path)` gives the text of a list, or undefined where the file is not for this reader. Every line of `text`
// stays one line.
export function expand(text, include = () => undefined) {
    const macros = new Map();
    return text.replace(/^#(?:[^\n]*\\\n)*[^\n]*$|^[^#\n][^\n]*(?:\n[^#\n][^\n]*)*$/gm, (piece) => {
        if (!piece.startsWith('#')) return expandCalls(piece, macros);
        const blank = '\n'.repeat(piece.split('\n').length - 1), line = piece.replace(/\\\n/g, ' ');
        const define = DEFINE.exec(line), undef = /^#undef\s+(\w+)/.exec(line);
        const list = /^#include\s+"([^"]+)"/.exec(line);
        if (define) macros.set(define[1], {parameters: define[2].split(',').map((p) => p.trim()), body: define[3]});
        else if (undef) macros.delete(undef[1]);
        else if (list) return expandCalls(withoutComments(include(list[1]) ?? ''), macros).replace(/\n/g, ' ') + blank;
        else return piece;
        return blank;
    });
}
