// Takes out of a module what its constants make unreachable: an override that is false leaves its branch behind, and
// with it functions, constants and variables.
import {Decoration, globalsOf, isGlobal, Op, resultOf} from './spirv.mjs';

const TERMINATORS = [Op.Branch, Op.BranchConditional, Op.Switch, Op.Kill, Op.Return, Op.ReturnValue, Op.Unreachable];

// [{id, instructions}] of the instructions between OpFunction and OpFunctionEnd.
function blocksOf(instructions) {
    const blocks = [];
    for (const i of instructions) {
        if (i[0] === Op.Label) blocks.push({id: i[1], instructions: []});
        blocks.at(-1)?.instructions.push(i);
    }
    return blocks;
}

// Where `if` and `switch` of a constant go; undefined where it is none.
function constantTarget(branch, globals) {
    const [op, , , literal] = globals.get(branch[1]) ?? [];
    if (branch[0] === Op.BranchConditional) {
        return op === Op.ConstantTrue ? branch[2] : op === Op.ConstantFalse ? branch[3] : undefined;
    }
    if (branch[0] !== Op.Switch || op !== Op.Constant) return undefined;
    const at = branch.findIndex((word, i) => i >= 3 && i % 2 === 1 && word === literal);
    return at < 0 ? branch[2] : branch[at + 1];
}

// if (true), if (false) and switch (7) become jumps.
function fold(block, globals) {
    const [merge, branch] = block.instructions.slice(-2);
    if (merge?.[0] !== Op.SelectionMerge) return 0;
    const target = constantTarget(branch, globals);
    if (target === undefined) return 0;
    block.instructions.splice(-2, 2, [Op.Branch, target]);
    return 1;
}

// Where a block can go, and the merge and continue blocks that it names: these must exist even if nothing reaches them.
function targets(block) {
    return block.instructions.slice(-2).flatMap((i) => {
        if (i[0] === Op.Branch || i[0] === Op.SelectionMerge) return [i[1]];
        if (i[0] === Op.LoopMerge) return [i[1], i[2]];
        if (i[0] === Op.BranchConditional) return [i[2], i[3]];
        // the default; then a literal, a block, a literal, ...
        if (i[0] === Op.Switch) return i.slice(2).filter((_, n) => n % 2 === 0);
        return [];
    });
}

function reachable(blocks) {
    const byId = new Map(blocks.map((b) => [b.id, b])), seen = new Set(), todo = [blocks[0].id];
    while (todo.length) {
        const id = todo.pop();
        if (seen.has(id)) continue;
        seen.add(id);
        todo.push(...targets(byId.get(id)));
    }
    return blocks.filter((b) => seen.has(b.id));
}

// The functions of a module as [instructions from OpFunction to OpFunctionEnd].
function functionsOf(instructions) {
    const functions = [];
    for (const i of instructions) {
        if (i[0] === Op.Function) functions.push([]);
        functions.at(-1)?.push(i);
    }
    return functions;
}

function pruneFunction(instructions, globals) {
    const start = instructions.findIndex((i) => i[0] === Op.Label);
    const blocks = blocksOf(instructions.slice(start, -1));
    let folded = 0;
    for (const block of blocks) {
        if (!TERMINATORS.includes(block.instructions.at(-1)[0])) throw new Error('SPIR-V: a block without an end');
        folded += fold(block, globals);
    }
    if (folded === 0) return instructions;
    const kept = reachable(blocks).flatMap((b) => b.instructions);
    if (kept.some((i) => i[0] === Op.Phi)) throw new Error('SPIR-V: a phi, which pruning does not know');
    return [...instructions.slice(0, start), ...kept, instructions.at(-1)];
}

function called(functions, entry) {
    const byId = new Map(functions.map((f) => [f[0][2], f])), seen = new Set(), todo = [entry];
    while (todo.length) {
        const id = todo.pop();
        if (seen.has(id)) continue;
        seen.add(id);
        todo.push(...byId.get(id).filter((i) => i[0] === Op.FunctionCall).map((i) => i[3]));
    }
    return functions.filter((f) => seen.has(f[0][2]));
}

// Types, constants and variables that nothing names go (a number that happens to equal an id keeps one too many), but
// no binding.
function pruneGlobals(head, body) {
    const used = new Set(), dead = new Set();
    const use = (i) => i.slice(1).forEach((word) => used.add(word));
    head.filter((i) => i[0] === Op.EntryPoint || i[0] === Op.ExecutionMode).forEach(use);
    head.filter((i) => i[0] === Op.Decorate && i[2] === Decoration.Binding).forEach((i) => used.add(i[1]));
    body.forEach(use);
    for (const i of head.filter(isGlobal).reverse()) {
        if (used.has(resultOf(i))) use(i);
        else dead.add(resultOf(i));
    }
    const idOf = (i) => (isGlobal(i) ? resultOf(i) : [Op.Decorate, Op.MemberDecorate].includes(i[0]) ? i[1] : 0);
    return head.filter((i) => !dead.has(idOf(i)));
}

export function prune(module) {
    const {instructions} = module, globals = globalsOf(module), before = instructions.length;
    const at = instructions.findIndex((i) => i[0] === Op.Function), head = instructions.slice(0, at);
    const entry = head.find((i) => i[0] === Op.EntryPoint)[2];
    const functions = functionsOf(instructions.slice(at)).map((f) => pruneFunction(f, globals));
    const body = called(functions, entry).flat();
    module.instructions = [...pruneGlobals(head, body), ...body];
    return before - module.instructions.length;
}
