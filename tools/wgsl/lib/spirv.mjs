// SPIR-V as a list of instructions, [opcode, operand words ...], and the little that the build must know about it.

export const Op = {
    ExtInst: 12, EntryPoint: 15, ExecutionMode: 16, Capability: 17, TypeVoid: 19, TypeBool: 20, TypeInt: 21,
    TypeFloat: 22, TypeVector: 23, TypeMatrix: 24, TypeArray: 28, TypeRuntimeArray: 29, TypeStruct: 30,
    TypePointer: 32, TypeFunction: 33, ConstantTrue: 41, ConstantFalse: 42, Constant: 43, ConstantComposite: 44,
    ConstantNull: 46, SpecConstantOp: 52, Function: 54, FunctionEnd: 56, FunctionCall: 57, Variable: 59, Load: 61,
    Store: 62, AccessChain: 65, InBoundsAccessChain: 66, ArrayLength: 68, Decorate: 71, MemberDecorate: 72,
    VectorShuffle: 79, CompositeConstruct: 80, CompositeExtract: 81, CompositeInsert: 82, CopyObject: 83,
    FNegate: 127, FAdd: 129, ISub: 130, FSub: 131, FMul: 133, FDiv: 136, VectorTimesScalar: 142,
    All: 155, Select: 169, IEqual: 170, ControlBarrier: 224, MemoryBarrier: 225, AtomicLoad: 227, Phi: 245,
    LoopMerge: 246, SelectionMerge: 247, Label: 248, Branch: 249, BranchConditional: 250, Switch: 251,
    Kill: 252, Return: 253, ReturnValue: 254, Unreachable: 255, SDot: 4450, UDot: 4451,
    TypeCooperativeMatrix: 4456, CooperativeMatrixLoad: 4457, CooperativeMatrixStore: 4458,
    CooperativeMatrixMulAdd: 4459,
};
export const StorageClass = {Workgroup: 4, Private: 6, Function: 7, StorageBuffer: 12};
export const Decoration = {Coherent: 23, NonWritable: 24, Binding: 33, NoContraction: 42};
const MAGIC = 0x07230203;

export function decode(words) {
    if (words[0] !== MAGIC) throw new Error('not SPIR-V');
    const instructions = [];
    for (let i = 5; i < words.length;) {
        const n = words[i] >>> 16;
        if (n === 0 || i + n > words.length) throw new Error(`SPIR-V: bad instruction at word ${i}`);
        instructions.push([words[i] & 0xffff, ...words.subarray(i + 1, i + n)]);
        i += n;
    }
    return {header: [...words.subarray(0, 5)], instructions};
}

export function encode({header, instructions}) {
    const words = [...header];
    for (const [op, ...operands] of instructions) words.push(((operands.length + 1) << 16 | op) >>> 0, ...operands);
    return Uint32Array.from(words);
}

const isType = (i) => (i[0] >= Op.TypeVoid && i[0] <= Op.TypeFunction) || i[0] === Op.TypeCooperativeMatrix;
const isConstant = (i) => i[0] >= Op.ConstantTrue && i[0] <= Op.SpecConstantOp;

// Whether an instruction before the functions is a type, a constant or a variable; and its id.
export const isGlobal = (i) => isType(i) || isConstant(i) || i[0] === Op.Variable;
export const resultOf = (i) => (isType(i) ? i[1] : i[2]);

// id -> instruction, of types, constants and global variables.
export function globalsOf(module) {
    const start = module.instructions.findIndex((i) => i[0] === Op.Function);
    return new Map(module.instructions.slice(0, start).filter(isGlobal).map((i) => [resultOf(i), i]));
}

const roundUp = (n, to) => Math.ceil(n / to) * to;

// {size, align} in bytes of a type, as WGSL lays it out.
function layout(module, globals, id) {
    const [op, , ...a] = globals.get(id);
    if (op === Op.TypeBool) return {size: 4, align: 4};
    if (op === Op.TypeInt || op === Op.TypeFloat) return {size: a[0] / 8, align: a[0] / 8};
    if (op === Op.TypeVector) {
        const {size} = layout(module, globals, a[0]);
        return {size: size * a[1], align: size * (a[1] === 2 ? 2 : 4)};
    }
    if (op === Op.TypeMatrix) {
        const {size, align} = layout(module, globals, a[0]);
        return {size: roundUp(size, align) * a[1], align};
    }
    if (op === Op.TypeArray) {
        const {size, align} = layout(module, globals, a[0]);
        return {size: roundUp(size, align) * globals.get(a[1])[3], align};
    }
    if (op === Op.TypeStruct) {
        let size = 0, align = 1;
        for (const member of a) {
            const m = layout(module, globals, member);
            size = roundUp(size, m.align) + m.size;
            align = Math.max(align, m.align);
        }
        return {size: roundUp(size, align), align};
    }
    throw new Error(`SPIR-V: type ${id} (opcode ${op}) has no size`);
}

// Bytes of workgroup memory, counted as WebGPU counts: each variable that functions use, rounded up to 16.
export function workgroupBytes(module) {
    const globals = globalsOf(module), used = new Set();
    const start = module.instructions.findIndex((i) => i[0] === Op.Function);
    for (const i of module.instructions.slice(start)) for (const word of i.slice(1)) used.add(word);
    let bytes = 0;
    for (const [id, i] of globals) {
        if (i[0] !== Op.Variable || i[3] !== StorageClass.Workgroup || !used.has(id)) continue;
        bytes += roundUp(layout(module, globals, globals.get(i[1])[3]).size, 16);
    }
    return bytes;
}

// [x, y, z] of the only entry point, which must be called main.
export function workgroupSize(module) {
    const entries = module.instructions.filter((i) => i[0] === Op.EntryPoint);
    if (entries.length !== 1) throw new Error(`${entries.length} entry points: one expected`);
    const bytes = new Uint8Array(Uint32Array.from(entries[0].slice(3)).buffer);
    const name = String.fromCharCode(...bytes.subarray(0, bytes.indexOf(0)));
    if (name !== 'main') throw new Error(`entry point ${name}: main expected`);
    return module.instructions.find((i) => i[0] === Op.ExecutionMode && i[2] === 17).slice(3, 6);
}
