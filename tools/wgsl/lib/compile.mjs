// One pipeline from WGSL to SPIR-V: naga, our passes, and the checks of the pipeline table.
import {NagaError, parseWgsl, validate, writeSpirv} from 'naga-wasm';

import {withoutInt8} from './bytes.mjs';
import {
    forbidContraction, hintUnroll, int8Matrices, markCoherent, markNonPrivate, markReadOnly, narrowFences,
    removeLoopBounds, removeWorkgroupZeroing,
} from './passes.mjs';
import {needsCooperative, needsSubgroups, needsWaits} from './pipelines.mjs';
import {poisonWorkgroupMemory} from './poison.mjs';
import {prune} from './prune.mjs';
import {
    bindingsOf, checkSignature, hasInt8Matrices, isExact, KernelError, UNROLL_MARK, withConstants, withImmediates,
    withoutEnable, withUnrollMarks,
} from './specialise.mjs';
import {decode, encode, Op, workgroupBytes, workgroupSize} from './spirv.mjs';

const SPIRV_1_3 = 0x00010300; // subgroup operations need it; naga says 1.1

function naga(row, kernel, text) {
    let module, info;
    try {
        module = parseWgsl(text);
        info = validate(module);
        return writeSpirv(module, info);
    } catch (error) {
        if (!(error instanceof NagaError)) throw error;
        const line = /wgsl:(\d+)/.exec(error.formatted)?.[1] ?? 1;
        throw new KernelError(kernel.place(Number(line)), row.name, `naga: ${error.formatted}`);
    } finally {
        info?.free();
        module?.free();
    }
}

// What any device of the Vulkan backend has: subgroups of all kinds (for rows that need them), dot products of packed
// bytes.
const CAPABILITIES = {
    0: 'Matrix', 1: 'Shader', 61: 'GroupNonUniform', 62: 'GroupNonUniformVote', 63: 'GroupNonUniformArithmetic',
    64: 'GroupNonUniformBallot', 65: 'GroupNonUniformShuffle', 66: 'GroupNonUniformShuffleRelative',
    6018: 'DotProductInput4x8BitPacked', 6019: 'DotProduct',
};
const isSubgroups = (capability) => capability >= 61 && capability <= 66;

function checkCapabilities(row, module, fail) {
    for (const [op, capability] of module.instructions) {
        if (op !== Op.Capability || needsCooperative(row)) continue;
        if (!(capability in CAPABILITIES)) fail(`needs SPIR-V capability ${capability}, which not every device has`);
        if (isSubgroups(capability) && !needsSubgroups(row)) {
            fail('does not say that it needs subgroups; the kernel does');
        }
    }
}

function checkRow(row, kernel, module) {
    const fail = (message) => {
        throw new KernelError(kernel.place(1), row.name, `${row.where} ${message}`);
    };
    checkCapabilities(row, module, fail);
    const size = workgroupSize(module), invocations = size[0] * size[1] * size[2], bytes = workgroupBytes(module);
    if (invocations !== row.invocations) {
        fail(`says ${row.invocations} invocations; the kernel has ${invocations} (${size.join(' x ')})`);
    }
    if (bytes !== row.bytes) fail(`says ${row.bytes} bytes of workgroup memory; the kernel has ${bytes}`);
}

// The SPIR-V words of a row, given its kernel; with `poison`, workgroup memory starts with rubbish;
// without `check`, what the row says is not compared with the kernel.
// Throws a KernelError that names file, line and pipeline.
export function compile(row, kernel, {poison = false, check = true} = {}) {
    if (check) checkSignature(row, kernel);
    const text = withUnrollMarks(withoutEnable(withImmediates(withConstants(row, kernel))));
    const module = decode(naga(row, kernel, withoutInt8(text)));
    module.header[1] = SPIRV_1_3;
    removeLoopBounds(module);
    if (poison) poisonWorkgroupMemory(module);
    else removeWorkgroupZeroing(module);
    hintUnroll(module, UNROLL_MARK);
    narrowFences(module);
    const isCoherent = ({coherent}) => coherent === 'always' || (coherent === 'waits' && needsWaits(row));
    markCoherent(module, bindingsOf(kernel.text).filter(isCoherent).map((b) => b.binding));
    // Before anything goes: WebGPU counts workgroup memory that is named, reached or not.
    if (check) checkRow(row, kernel, module);
    prune(module);
    if (hasInt8Matrices(kernel)) int8Matrices(module);
    if (isExact(kernel)) forbidContraction(module);
    markReadOnly(module); // afterwards: what is never reached writes nothing
    if (needsCooperative(row)) markNonPrivate(module);
    return encode(module);
}
