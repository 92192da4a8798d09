// SUM_SQUARES (src/ops/op.h), one level of it: the sums of runs of 4096 squares, or of 4096 such sums, to the bit of
// tern_ref_sum_run (src/ops/ref/update.h).
//
//   lane l: (((x[l] + x[l + 128]) + x[l + 256]) + ...);  then lane l += lane l + 64 for l < 64, + 32, ... + 1
//
//   groups     (x, y): a run for each workgroup, y rows of p.row runs
//   x          [n] f32; becomes 0 where p.clears is not 0
//   sums       from word out_first on: a sum for each run
//
// What is not finite makes the sum +infinity, by its bits: devices may take it that there is none.
//
// no contraction
override SQUARES: bool = true;

struct P {
    n: u32,
    row: u32,
    out_first: u32,
    clears: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> sums: array<u32>;

const RUN = 4096u;
const LANES = 128u;
const INFINITE = 0x7f800000u;

var<workgroup> lanes: array<u32, LANES>;

// The bits of the square of a number, given its bits: 0 where it is below 2^-125.
fn square(bits: u32) -> u32 {
    let v = bitcast<f32>(select(bits & 0x7fffffffu, 0u, (bits & INFINITE) == INFINITE));
    let s = bitcast<u32>(v * v);
    return select(select(min(s, INFINITE), 0u, s < 0x01000000u), INFINITE, (bits & INFINITE) == INFINITE);
}

// Of numbers that are not negative.
fn sum(a: u32, b: u32) -> u32 {
    let finite = max(a, b) < INFINITE;
    let s = bitcast<u32>(bitcast<f32>(select(0u, a, finite)) + bitcast<f32>(select(0u, b, finite)));
    return select(INFINITE, min(s, INFINITE), finite);
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let run = group.y * p.row + group.x;
    var lane = 0u;
    for (var k = 0u; k < RUN / LANES; k++) { // unroll
        let at = run * RUN + k * LANES + local;
        var bits = 0u;
        if (at < p.n) {
            bits = x[at];
            if (p.clears != 0u) {
                x[at] = 0u;
            }
        }
        if (SQUARES) {
            bits = square(bits);
        }
        lane = sum(lane, bits);
    }
    lanes[local] = lane;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half >>= 1u) {
        if (local < half) {
            lanes[local] = sum(lanes[local], lanes[local + half]);
        }
        workgroupBarrier();
    }
    if (local == 0u && run * RUN < p.n) {
        sums[p.out_first + run] = lanes[0];
    }
}
