// CROSS_ENTROPY (src/ops/op.h, tern_ref_cross_entropy): the loss of each row of logits; the logits become their gradient.
//
//   m = max z;  l = sum_i e^(z_i - m);  loss = log(l) + m - z[label];  z[i] = weight * (e^(z_i - m) / l - (i == label))
//   A label outside 0 .. cols - 1 masks the row: its loss and gradient are 0. A row with a NaN or +inf becomes NaN.
//
//   groups     (most rows): a workgroup for each row
//   z          rows of z_stride floats, from z_first: bits, since a driver may take floats for finite
//   losses     row t: word losses_first + t * losses_stride
//   params     word count_word holds the number of rows, from labels_word their labels, weight_word the weight
//
// Sums in f32, in any order. z is read twice: the sum is kept relative to the largest number so far.
enable subgroups; // subgroups only

override WORKGROUP: u32 = 256;

const LOADS = 8u; // in flight
const LEAST: f32 = -3.4028234e38;
const NAN_BITS = 0x7fc00000u;
const MINUS_INFINITY = 0xff800000u;

struct P {
    cols: u32,
    count_word: u32,
    z_first: u32,
    z_stride: u32,
    losses_first: u32,
    losses_stride: u32,
    labels_word: u32,
    weight_word: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> z: array<u32>;
@group(0) @binding(3) var<storage, read_write> losses: array<u32>;

var<workgroup> most: array<f32, WORKGROUP>;
var<workgroup> sums: array<f32, WORKGROUP>;
var<workgroup> spoiled: atomic<u32>;

// The largest of all invocations' values, then the sum; subgroups have `lanes` consecutive ones.
fn workgroup_max(value: f32, local: u32, lanes: u32) -> f32 {
    var all = value;
    all = subgroupMax(value); // subgroups only
    if ((local & (lanes - 1u)) == 0u) {
        most[local] = all;
    }
    workgroupBarrier();
    for (var half = WORKGROUP / 2u; half >= lanes; half >>= 1u) {
        if (local < half && (local & (lanes - 1u)) == 0u) {
            most[local] = max(most[local], most[local + half]);
        }
        workgroupBarrier();
    }
    return most[0];
}

fn workgroup_sum(value: f32, local: u32, lanes: u32) -> f32 {
    var all = value;
    all = subgroupAdd(value); // subgroups only
    if ((local & (lanes - 1u)) == 0u) {
        sums[local] = all;
    }
    workgroupBarrier();
    for (var half = WORKGROUP / 2u; half >= lanes; half >>= 1u) {
        if (local < half && (local & (lanes - 1u)) == 0u) {
            sums[local] += sums[local + half];
        }
        workgroupBarrier();
    }
    return sums[0];
}

// NaN or +inf.
fn is_spoiled(bits: u32) -> bool {
    return (bits & 0x7fffffffu) > 0x7f800000u || bits == 0x7f800000u;
}

// Logits that are no finite number count as the least one.
fn logit(bits: u32) -> f32 {
    return bitcast<f32>(select(bits, bitcast<u32>(LEAST), (bits & 0x7f800000u) == 0x7f800000u));
}

fn exponential(bits: u32, m: f32) -> f32 {
    return select(exp(logit(bits) - m), 0.0, bits == MINUS_INFINITY);
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(subgroup_size) subgroup_lanes: u32, // subgroups only
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    var lanes = 1u;
    lanes = subgroup_lanes; // subgroups only
    let t = group.x;
    let row = p.z_first + t * p.z_stride;
    let present = t < params[p.count_word];
    let label = params[p.labels_word + select(0u, t, present)];
    let masked = label >= p.cols; // below 0 too
    let read = select(0u, p.cols, present && !masked);
    if (local == 0u) {
        atomicStore(&spoiled, 0u);
    }
    let writes = local == label % WORKGROUP; // the loss, and the gradient of the label's logit
    var wanted = 0u;
    if (read > 0u && writes) {
        wanted = z[row + label];
    }
    workgroupBarrier();

    var m = LEAST;
    var l = 0.0;
    var bad = false;
    for (var base = local; base < read; base += LOADS * WORKGROUP) {
        var bits: array<u32, LOADS>;
        for (var i = 0u; i < LOADS; i++) { // unroll
            bits[i] = MINUS_INFINITY;
            if (base + i * WORKGROUP < read) {
                bits[i] = z[row + base + i * WORKGROUP];
            }
        }
        var highest = m;
        for (var i = 0u; i < LOADS; i++) { // unroll
            bad = bad || is_spoiled(bits[i]);
            highest = max(highest, logit(bits[i]));
        }
        var sum = 0.0;
        for (var i = 0u; i < LOADS; i++) { // unroll
            sum += exponential(bits[i], highest);
        }
        l = l * exp(m - highest) + sum;
        m = highest;
    }
    if (bad) {
        atomicOr(&spoiled, 1u);
    }
    let largest = workgroup_max(m, local, lanes);
    let sum = workgroup_sum(l * exp(m - largest), local, lanes);
    let nothing = atomicLoad(&spoiled) != 0u || sum == 0.0;
    let weight = bitcast<f32>(params[p.weight_word]);
    for (var c = local; c < read; c += WORKGROUP) {
        let g = weight * (exponential(z[row + c], largest) / sum - select(0.0, 1.0, c == label));
        z[row + c] = select(bitcast<u32>(g), NAN_BITS, nothing);
    }
    for (var c = local; c < select(0u, p.cols, present && masked); c += WORKGROUP) {
        z[row + c] = 0u;
    }
    if (writes && present) {
        var loss = bitcast<u32>(log(sum) + (largest - logit(wanted)));
        loss = select(loss, 0x7f800000u, wanted == MINUS_INFINITY);
        loss = select(loss, NAN_BITS, nothing);
        losses[p.losses_first + t * p.losses_stride] = select(loss, 0u, masked);
    }
}
