// What the build changes in naga's SPIR-V. Each pass takes a decoded module, changes it in place and returns how often
// it did.
import {Decoration, globalsOf, isGlobal, Op, StorageClass} from './spirv.mjs';

const opcodes = (instructions, at, wanted) => wanted.every((op, i) => instructions[at + i]?.[0] === op);

// Removing blocks is right only as long as no phi names them.
function checkPhis(module, labels) {
    for (const [op, , , ...pairs] of module.instructions) {
        const named = op === Op.Phi && pairs.some((id, i) => i % 2 === 1 && labels.has(id));
        if (named) throw new Error('SPIR-V: a phi names a removed block');
    }
}
const UNROLL = 1; // loop control

// naga lets every loop end after 2^64 turns: a counter of type vec2<u32>, checked and decremented at the head. Ours end
// by themselves, and drivers neither unroll such loops nor keep the counters out of registers.
//
//   %head = OpLabel                          %head = OpLabel
//           OpLoopMerge %merge %continue             OpLoopMerge %merge %continue
//           OpBranch %check                          OpBranch %body
//   %check = OpLabel
//   %n    = OpLoad %v2uint %counter
//   %zero = OpIEqual %v2bool %zeros %n
//   %all  = OpAll %bool %zero
//           OpSelectionMerge %count None
//           OpBranchConditional %all %merge %count
//   %count = OpLabel
//           ... seven instructions: %counter = %n - 1
//           OpBranch %body
const GUARD = [
    Op.LoopMerge, Op.Branch, Op.Label, Op.Load, Op.IEqual, Op.All, Op.SelectionMerge, Op.BranchConditional, Op.Label,
    Op.CompositeExtract, Op.IEqual, Op.Select, Op.CompositeConstruct, Op.ISub, Op.Store, Op.Branch,
];

export function removeLoopBounds(module) {
    const {instructions} = module, out = [], counters = new Set(), labels = new Set();
    let loops = 0;
    for (let at = 0; at < instructions.length; at++) {
        const i = instructions[at];
        if (i[0] === Op.LoopMerge) loops++;
        if (!opcodes(instructions, at, GUARD)) {
            out.push(i);
            continue;
        }
        const load = instructions[at + 3], branch = instructions[at + 7], store = instructions[at + 14];
        if (branch[2] !== i[1] || store[1] !== load[3]) throw new Error('SPIR-V: a loop bound of an unknown form');
        counters.add(load[3]);
        labels.add(instructions[at + 2][1]).add(instructions[at + 8][1]);
        out.push(i, instructions[at + 15]);
        at += GUARD.length - 1;
    }
    if (counters.size !== loops) {
        throw new Error(`SPIR-V: ${loops} loops, but ${counters.size} loop bounds of the known form`);
    }
    module.instructions = out.filter((i) => !(i[0] === Op.Variable && counters.has(i[2])));
    checkPhis(module, labels);
    return loops;
}

// naga clears all workgroup memory before the first statement, by invocation 0 alone, and then waits:
//
//           OpBranch %a                              OpBranch %a
//   %a    = OpLabel                          %a    = OpLabel
//   %c    = OpIEqual ... (or more)           %c    = OpIEqual ... (dead)
//           OpSelectionMerge %m None                 OpBranch %rest
//           OpBranchConditional %c %t %m
//   %t    = OpLabel
//           OpStore %shared %null ...
//           OpBranch %m
//   %m    = OpLabel
//           OpControlBarrier ...
//           OpBranch %rest
//
// Kernels write what they read, so this goes. Only the first such place of a function can be naga's own.
export function removeWorkgroupZeroing(module) {
    const globals = globalsOf(module), {instructions} = module;
    const isShared = (id) => globals.get(id)?.[0] === Op.Variable && globals.get(id)[3] === StorageClass.Workgroup;
    const isNull = (id) => globals.get(id)?.[0] === Op.ConstantNull;
    const ends = [Op.SelectionMerge, Op.LoopMerge, Op.FunctionEnd];
    let removed = 0;
    for (let at = 0; at < instructions.length; at++) {
        if (instructions[at][0] !== Op.Function) continue;
        const merge = instructions.findIndex((i, n) => n > at && ends.includes(i[0]));
        if (!opcodes(instructions, merge, [Op.SelectionMerge, Op.BranchConditional, Op.Label])) continue;
        const clears = ([op, to, value]) => op === Op.Store && isShared(to) && isNull(value);
        let end = merge + 3;
        while (clears(instructions[end])) end++;
        if (end === merge + 3) continue;
        if (!opcodes(instructions, end, [Op.Branch, Op.Label, Op.ControlBarrier, Op.Branch])) continue;
        const labels = new Set([instructions[merge + 2][1], instructions[end + 1][1]]);
        instructions.splice(merge, end + 3 - merge);
        checkPhis(module, labels);
        removed++;
    }
    return removed;
}

// Asks drivers to unroll loops. naga drops comments, so withUnrollMarks has put a store of a number that nobody else
// uses into each marked loop: the innermost loop around it gets the hint, and the store goes.
export function hintUnroll(module, mark) {
    const globals = globalsOf(module), loops = [], out = [];
    const isPrivate = (id) => globals.get(id)?.[3] === StorageClass.Private;
    const isNumber = (id) => globals.get(id)?.[0] === Op.Constant && globals.get(id)[3] === mark;
    const isMark = ([op, to, value]) => op === Op.Store && isPrivate(to) && isNumber(value);
    let variable, hints = 0;
    for (const i of module.instructions) {
        if (i[0] === Op.LoopMerge) loops.push(i);
        if (i[0] === Op.Label && i[1] === loops.at(-1)?.[1]) loops.pop();
        if (!isMark(i)) {
            out.push(i);
            continue;
        }
        if (loops.length === 0) throw new Error('SPIR-V: an unroll mark outside of a loop');
        loops.at(-1)[3] |= UNROLL;
        variable = i[1];
        hints++;
    }
    module.instructions = out.filter((i) => !(i[0] === Op.Variable && i[2] === variable));
    return hints;
}

// Marks the given bindings Coherent: what one workgroup writes there and orders by a storageBarrier, others see.
export function markCoherent(module, bindings) {
    const {instructions} = module, isBinding = (i) => i[0] === Op.Decorate && i[2] === Decoration.Binding;
    const ids = instructions.filter((i) => isBinding(i) && bindings.includes(i[3])).map((i) => i[1]);
    const added = ids.map((id) => [Op.Decorate, id, Decoration.Coherent]);
    instructions.splice(instructions.findIndex(isBinding), 0, ...added);
    return ids.length;
}

// WGSL has no fence that one invocation executes for all of its workgroup. A textureBarrier, of which kernels have no
// other use, stands for one, and the storageBarrier of the same function for the barrier that passes on to the
// workgroup what the fence has made visible:
//
//   OpControlBarrier %workgroup %workgroup %image        OpMemoryBarrier %device %storage
//   ...                                                  ...
//   OpControlBarrier %workgroup %device %storage         OpControlBarrier %workgroup %workgroup %storage
const IMAGE_MEMORY = 0x800, UNIFORM_MEMORY = 0x40;

export function narrowFences(module) {
    const globals = globalsOf(module), {instructions} = module;
    const orders = (i, memory) => i[0] === Op.ControlBarrier && (globals.get(i[3])[3] & memory) !== 0;
    let fences = 0;
    for (let at = 0, start = 0; at < instructions.length; at++) {
        if (instructions[at][0] === Op.Function) start = at;
        if (!orders(instructions[at], IMAGE_MEMORY)) continue;
        const end = instructions.findIndex((i, n) => n > at && i[0] === Op.FunctionEnd);
        const [storage, ...more] = instructions.slice(start, end).filter((i) => orders(i, UNIFORM_MEMORY));
        if (!storage || more.length > 0) throw new Error('SPIR-V: a textureBarrier without one storageBarrier');
        instructions[at] = [Op.MemoryBarrier, storage[2], storage[3]];
        storage[2] = storage[1];
        fences++;
    }
    return fences;
}

// No two operations on floats become one with a single rounding: for kernels that compute the same bits everywhere.
const ARITHMETIC = [Op.FNegate, Op.FAdd, Op.FSub, Op.FMul, Op.FDiv, Op.VectorTimesScalar];

export function forbidContraction(module) {
    const {instructions} = module, at = instructions.findIndex((i) => i[0] === Op.Decorate);
    const ids = instructions.filter((i) => ARITHMETIC.includes(i[0])).map((i) => i[2]);
    instructions.splice(at, 0, ...ids.map((id) => [Op.Decorate, id, Decoration.NoContraction]));
    return ids.length;
}

// Under the Vulkan memory model, which cooperative matrices bring with them, barriers order only accesses that say
// NonPrivatePointer, and only those that say MakeAvailable and MakeVisible pass on what was written; naga's do neither.
const NON_PRIVATE = 0x20, MAKE_AVAILABLE_AND_VISIBLE = 0x6000;

function passOnWrites(module, globals) {
    const semantics = new Map();
    let bound = module.header[3];
    for (const i of module.instructions) {
        if (i[0] !== Op.ControlBarrier) continue;
        const [op, type, , value] = globals.get(i[3]);
        if (!semantics.has(value)) semantics.set(value, [op, type, bound++, value | MAKE_AVAILABLE_AND_VISIBLE]);
        i[3] = semantics.get(value)[2];
    }
    module.header[3] = bound;
    const start = module.instructions.findIndex((i) => i[0] === Op.Function);
    module.instructions.splice(start, 0, ...semantics.values());
}

export function markNonPrivate(module) {
    const globals = globalsOf(module), shared = new Set();
    passOnWrites(module, globals);
    const isShared = (type) => [StorageClass.Workgroup, StorageClass.StorageBuffer].includes(globals.get(type)?.[2]);
    for (const [id, i] of globals) if (i[0] === Op.Variable && isShared(i[1])) shared.add(id);
    let marked = 0;
    for (const i of module.instructions) {
        if ([Op.AccessChain, Op.InBoundsAccessChain].includes(i[0]) && isShared(i[1])) shared.add(i[2]);
        const [pointer, words] = {
            [Op.Load]: [i[3], 4], [Op.Store]: [i[1], 3],
            [Op.CooperativeMatrixLoad]: [i[3], 6], [Op.CooperativeMatrixStore]: [i[1], 5],
        }[i[0]] ?? [];
        if (pointer === undefined || !shared.has(pointer)) continue;
        if (i.length !== words) throw new Error('SPIR-V: memory operands where none were expected');
        i.push(NON_PRIVATE);
        marked++;
    }
    return marked;
}

// naga knows cooperative matrices of floats alone. Kernels that say "int8 matrices" write f32 for a word, of four int8
// in inputs and an i32 in sums: 16 x 16 of words become 16 x 32 (A) and 32 x 16 (B) of int8, 16 x 16 (C) of i32.
const INT8 = 39, ALL_SIGNED = 15, SUMS = 2;

export function int8Matrices(module) {
    const globals = globalsOf(module), added = [];
    const own = (instruction) => (added.push(instruction), instruction);
    const isWord = (i, sign) => i[0] === Op.TypeInt && i[2] === 32 && i[3] === sign;
    const word = (sign) =>
        [...globals.values()].find((i) => isWord(i, sign)) ?? [Op.TypeInt, module.header[3]++, 32, sign];
    const u32 = own(word(0)), i32 = own(word(1)), i8 = own([Op.TypeInt, module.header[3]++, 8, 1]);
    const depth = own([Op.Constant, u32[1], module.header[3]++, 32]);
    let matrices = 0;
    for (const i of module.instructions) {
        if (i[0] === Op.CooperativeMatrixMulAdd) i.push(ALL_SIGNED);
        if (i[0] !== Op.TypeCooperativeMatrix) continue;
        const use = globals.get(i[6])[3];
        i[2] = (use === SUMS ? i32 : i8)[1];
        if (use !== SUMS) i[use === 0 ? 5 : 4] = depth[2];
        matrices++;
    }
    const others = module.instructions.filter((i) => !added.includes(i)), first = others.findIndex(isGlobal);
    module.instructions = [[Op.Capability, INT8], ...others.slice(0, first), ...added, ...others.slice(first)];
    return matrices;
}

// Marks storage bindings that the module never writes NonWritable. In WGSL they are read_write, because WebGPU allows a
// buffer one usage in a dispatch; two bindings never overlap if one of them is written, so drivers may take their loads
// for loads of constants. Coherent ones are left alone: others write them meanwhile.
// Instructions that write no memory, although their words may equal an id; all others are taken for writes.
const READS = [
    Op.Load, Op.ArrayLength, Op.AtomicLoad, Op.Label, Op.Function, Op.Variable, Op.LoopMerge, Op.Switch, Op.ExtInst,
    Op.CompositeExtract, Op.CompositeInsert, Op.VectorShuffle, Op.SDot, Op.UDot, Op.CooperativeMatrixLoad,
];

const KNOWN = [Decoration.NonWritable, Decoration.Coherent];

export function markReadOnly(module) {
    const globals = globalsOf(module), root = new Map(), written = new Set(), decorated = new Set();
    for (const [id, i] of globals) if (i[0] === Op.Variable && i[3] === StorageClass.StorageBuffer) root.set(id, id);
    const start = module.instructions.findIndex((i) => i[0] === Op.Function);
    for (const i of module.instructions.slice(0, start)) {
        if (i[0] === Op.Decorate && KNOWN.includes(i[2])) decorated.add(i[1]);
    }
    for (const i of module.instructions.slice(start)) {
        const derives = i[0] === Op.AccessChain || i[0] === Op.InBoundsAccessChain || i[0] === Op.CopyObject;
        if (derives && root.has(i[3])) root.set(i[2], root.get(i[3]));
        else if (!READS.includes(i[0])) {
            for (const word of i.slice(1)) if (root.has(word)) written.add(root.get(word));
        }
    }
    const ids = [...globals.keys()].filter((id) => root.get(id) === id && !written.has(id) && !decorated.has(id));
    const at = module.instructions.findIndex((i) => i[0] === Op.Decorate || i[0] === Op.MemberDecorate);
    module.instructions.splice(at, 0, ...ids.map((id) => [Op.Decorate, id, Decoration.NonWritable]));
    return ids.length;
}
