// REQUANTIZE (src/ops/op.h) into dense weights, its last pass (tern_ref_requantize_blend in src/ops/ref/update.h).
//
//   out = w + blend * (scale * code - w), flushed; with blend 1, scale * code
//   code = 1 where w * factor > bound, -1 where w * factor < -bound, else 0
//
//   groups     (x, y): an invocation for each element, y rows of p.row invocations
//   params     word blend_word
//   master     [n] f32, or bf16, two to a word
//   rule       scale, factor, bound
//   weight     [n] f32
//
// no contraction
override WORKGROUP: u32 = 128;

struct P {
    n: u32,
    row: u32,
    bf16: u32,
    blend_word: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> master: array<u32>;
@group(0) @binding(3) var<storage, read_write> rule: array<f32>;
@group(0) @binding(4) var<storage, read_write> weight: array<u32>;

// Flushed numbers (src/base/flush.h).
fn held_bits(bits: u32) -> f32 {
    let size = bits & 0x7fffffffu;
    var flushed = select(bits, 0u, size < 0x01000000u);
    flushed = select(flushed, (bits & 0x80000000u) | 0x7f7fffffu, size >= 0x7f800000u);
    return bitcast<f32>(select(flushed, 0u, size > 0x7f800000u));
}

fn flush(x: f32) -> f32 {
    return held_bits(bitcast<u32>(x));
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let i = group.y * p.row + group.x * WORKGROUP + local;
    if (i >= p.n) {
        return;
    }
    var bits = 0u;
    if (p.bf16 == 0u) {
        bits = master[i];
    } else {
        bits = (master[i >> 1u] >> ((i & 1u) * 16u)) << 16u;
    }
    let w = held_bits(bits);
    let v = w * rule[1];
    let ternary = (f32(v > rule[2]) - f32(v < -rule[2])) * rule[0];
    let blend = held_bits(params[p.blend_word]);
    let moved = flush(w + flush(blend * flush(ternary - w)));
    weight[i] = bitcast<u32>(select(moved, ternary, blend >= 1.0));
}
