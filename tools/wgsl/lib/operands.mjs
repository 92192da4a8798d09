// Which operands of a SPIR-V instruction are ids. An opcode that is not listed here is an error.

// All operands from `from` on, counted in words of the instruction, the opcode being word 0.
const from = (start) => (i) => Array.from({length: i.length - start}, (_, n) => start + n);
const at = (...positions) => (i) => positions.filter((p) => p < i.length);
const none = () => [];
const all = from(1);

// Memory operands: a mask, an alignment, and scopes where a bit of the mask makes memory available or visible.
const withScope = (bit, mask, ...positions) => (i) =>
    i.length > mask && i[mask] & bit ? [...positions, i.length - 1] : at(...positions)(i);
const AVAILABLE = 0x8, VISIBLE = 0x10;

// After the function's id, the name: a string that ends in the first word with a zero byte on top; then the interface.
const entryPoint = (i) => [2, ...from(i.findIndex((word, n) => n >= 3 && word >>> 24 === 0) + 1)(i)];
// A selector, the default; then a literal, a label, a literal, ...
const cases = (i) => [1, 2, ...from(4)(i).filter((n) => n % 2 === 0)];
const isReduction = (opcode) => opcode >= 349 && opcode <= 364; // GroupNonUniformIAdd to LogicalXor: scope, operation
const reduction = (i) => [1, 2, 3, ...from(5)(i)];

const SOME = {
    10: none, 11: at(1), 14: none, 15: entryPoint, 16: at(1), 17: none, // Extension to Capability
    21: at(1), 22: at(1), 23: at(1, 2), 24: at(1, 2), 32: at(1, 3), 43: at(1, 2), // TypeInt to Constant
    12: (i) => [1, 2, 3, ...from(5)(i)], 54: at(1, 2, 4), // ExtInst, Function
    59: (i) => [1, 2, ...from(4)(i)], // Variable
    61: withScope(VISIBLE, 4, 1, 2, 3), 62: withScope(AVAILABLE, 3, 1, 2), // Load, Store
    68: at(1, 2, 3), 71: at(1), 72: at(1), // ArrayLength, Decorate, MemberDecorate
    79: at(1, 2, 3, 4), 81: at(1, 2, 3), 82: at(1, 2, 3, 4), // VectorShuffle, CompositeExtract, CompositeInsert
    246: at(1, 2), 247: at(1), 250: at(1, 2, 3), 251: cases, // LoopMerge to Switch
    342: reduction, 4450: at(1, 2, 3, 4), 4451: at(1, 2, 3, 4), // BallotBitCount, SDot, UDot
    4457: withScope(VISIBLE, 6, 1, 2, 3, 4, 5), 4458: withScope(AVAILABLE, 5, 1, 2, 3, 4), // CooperativeMatrix
    4459: at(1, 2, 3, 4, 5), // Load, Store, MulAdd
};
// Opcodes all of whose operands are ids, as ranges: first, last.
const ALL = [
    [19, 20], [28, 30], [33, 33], [41, 42], [44, 44], [46, 46], [55, 57], [65, 66], [77, 78], [80, 80], [83, 84],
    [109, 116], [124, 124], [126, 152], [154, 191], [194, 200], [202, 205], [224, 225], [227, 242], [245, 245],
    [248, 249], [252, 255], [333, 341], [345, 348], [4456, 4456],
];
const isAll = (opcode) => ALL.some(([first, last]) => opcode >= first && opcode <= last);

// The positions of ids in an instruction, [opcode, operand words ...].
export function idPositions(i) {
    if (SOME[i[0]]) return SOME[i[0]](i);
    if (isReduction(i[0])) return reduction(i);
    if (isAll(i[0])) return all(i);
    throw new Error(`SPIR-V: opcode ${i[0]}: which operands are ids is not known; lib/operands.mjs lists them`);
}
