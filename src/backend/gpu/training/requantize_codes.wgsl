// REQUANTIZE (src/ops/op.h), its last pass: ternary codes of masters, and the scale of each row
// (tern_ref_requantize_codes in src/ops/ref/update.h).
//
//   code = 1 where w * factor > bound, -1 where w * factor < -bound, else 0
//
//   groups     (x, y): an invocation for each word of codes, y rows of p.row invocations
//   master     [rows][cols] f32, or bf16, two to a word
//   rule       scale, factor, bound
//   weight     a slice of i2_s groups (docs/reference/formats/encodings.md): rows of row_words words from word
// first_word on;              from word scales_word on a scale for each row
//
// A word has the codes of 16 elements of a group of 128: four by four, 32 elements apart. Those past the row's end are
// 0. Who owns a word owns its 16 codes; of the rows' scales, who has the first word.
//
// no contraction
override WORKGROUP: u32 = 128;

struct P {
    rows: u32,
    cols: u32,
    row_words: u32,
    row: u32,
    bf16: u32,
    first_word: u32,
    scales_word: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> master: array<u32>;
@group(0) @binding(2) var<storage, read_write> rule: array<f32>;
@group(0) @binding(3) var<storage, read_write> weight: array<u32>;

// The bits of master i; NaN is 0. The rest of what is flushed (src/base/flush.h) has the same code.
fn number(i: u32) -> f32 {
    var bits = 0u;
    if (p.bf16 == 0u) {
        bits = master[i];
    } else {
        bits = (master[i >> 1u] >> ((i & 1u) * 16u)) << 16u;
    }
    let size = bits & 0x7fffffffu;
    let largest = (bits & 0x80000000u) | 0x7f7fffffu;
    return bitcast<f32>(select(select(bits, largest, size >= 0x7f800000u), 0u, size > 0x7f800000u));
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let i = group.y * p.row + group.x * WORKGROUP + local;
    let r = i / p.row_words;
    let word = i - r * p.row_words;
    if (r >= p.rows) {
        return;
    }
    let factor = rule[1];
    let bound = rule[2];
    let first = (word >> 3u) * 128u + (word & 7u) * 4u;
    var codes = 0u;
    for (var quarter = 0u; quarter < 4u; quarter++) { // unroll
        for (var k = 0u; k < 4u; k++) { // unroll
            let c = first + quarter * 32u + k;
            var code = 1u;
            if (c < p.cols) {
                let v = number(r * p.cols + c) * factor;
                code = 1u + u32(v > bound) - u32(v < -bound);
            }
            codes |= code << (k * 8u + 6u - quarter * 2u);
        }
    }
    weight[p.first_word + i] = codes;
    if (word == 0u) {
        weight[p.scales_word + r] = bitcast<u32>(rule[0]);
    }
}
