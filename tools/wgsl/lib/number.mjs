// Numbers the ids of a kernel's modules alike: a type, a constant, a variable or a function that several modules have
// gets one number in all of them, and what functions declare follows in their order. Modules then differ only where
// they compute something else, which the pack makes use of. The numbers of a kernel depend on no other kernel.
import {idPositions} from './operands.mjs';
import {isGlobal, Op, resultOf} from './spirv.mjs';

const EXT_INST_IMPORT = 11;
const resultOfGlobal = (i) => (i[0] === EXT_INST_IMPORT ? i[1] : isGlobal(i) ? resultOf(i) : undefined);
const isDecoration = (i) => i[0] === Op.Decorate || i[0] === Op.MemberDecorate;

// The functions of a list of instructions, each [instruction, ...].
function functionsOf(instructions) {
    const functions = [];
    for (const i of instructions) {
        if (i[0] === Op.Function) functions.push([]);
        functions.at(-1).push(i);
    }
    return functions;
}

// Numbers of declarations by what they say; the second of one kind in a module is another.
class Shared {
    constructor() {
        this.numbers = new Map();
    }
    number(text, seen) {
        const n = seen.get(text) ?? 0, key = `${text}#${n}`;
        seen.set(text, n + 1);
        if (!this.numbers.has(key)) this.numbers.set(key, this.numbers.size + 1);
        return this.numbers.get(key);
    }
}

// One module: `numbers` are its shared ids, `locals` those that functions declare, by their place in all functions.
class Module {
    constructor(module, shared) {
        const start = module.instructions.findIndex((i) => i[0] === Op.Function);
        this.module = module;
        this.numbers = new Map();
        this.locals = new Map();
        this.seen = new Map();
        this.globals(module.instructions.slice(0, start), shared);
        for (const body of functionsOf(module.instructions.slice(start))) this.function(body, shared);
    }

    // An instruction as text; ids that are not shared as `local` says.
    text(i, result, local) {
        const ids = new Set(idPositions(i));
        return i.map((word, n) =>
            !ids.has(n) ? word : word === result ? '=' : `%${this.numbers.get(word) ?? local(word)}`).join(' ');
    }

    globals(head, shared) {
        const notYet = (id) => {
            throw new Error(`SPIR-V: id ${id} is used before it is declared`);
        };
        const decorations = new Map();
        for (const i of head.filter(isDecoration)) {
            decorations.set(i[1], `${decorations.get(i[1]) ?? ''}, ${[i[0], ...i.slice(2)].join(' ')}`);
        }
        for (const i of head) {
            const id = resultOfGlobal(i);
            if (id === undefined) continue;
            const text = this.text(i, id, notYet) + (decorations.get(id) ?? '');
            this.numbers.set(id, shared.number(text, this.seen));
        }
    }

    function(body, shared) {
        const own = new Map(), id = body[0][2];
        const local = (name) => {
            if (!own.has(name)) own.set(name, own.size);
            return `l${own.get(name)}`;
        };
        const text = body.map((i) => this.text(i, id, local)).join('\n');
        for (const name of own.keys()) this.locals.set(name, this.locals.size);
        this.numbers.set(id, shared.number(text, this.seen));
    }

    // The module with shared ids below `first` and the others from there on.
    renumbered(first) {
        const number = (id) => this.numbers.get(id) ?? first + this.locals.get(id);
        const instructions = this.module.instructions.map((i) => {
            const out = [...i];
            for (const n of idPositions(i)) out[n] = number(i[n]);
            if (out.includes(NaN)) throw new Error(`SPIR-V: opcode ${i[0]} names an id that nothing declares`);
            return out;
        });
        const header = [...this.module.header];
        header[3] = first + this.locals.size;
        return {header, instructions};
    }
}

// {first, modules}: the modules of one kernel with other ids, in their order; ids from `first` on are a function's own.
export function number(modules) {
    const shared = new Shared(), numbered = modules.map((m) => new Module(m, shared));
    const first = shared.numbers.size + 1;
    return {first, modules: numbered.map((m) => m.renumbered(first))};
}
