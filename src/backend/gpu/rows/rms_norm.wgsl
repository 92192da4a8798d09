// RMS_NORM (src/ops/op.h): y[t][c] = x[t][c] * norm_weight[c] / sqrt(mean_c(x[t][c]^2) + eps), rows of f32.
//
//   groups     (most rows): a workgroup for each row
//   x, y       rows of x_stride, y_stride times ALIGN floats, from ALIGN times x_first, y_first
//   norm_weight       [cols] f32
//   params     word count_word holds the number of rows
//
// Invocations take four columns at a time. With ALIGN = 4 these are one vector of memory: cols, and where rows
// start, are multiples of four. The first KEPT vectors of each invocation stay in registers; what a longer row has
// beyond them is read twice.
// Sums in f32, in any order.
enable subgroups; // subgroups only

override WORKGROUP: u32 = 256;
override ALIGN: u32 = 4;
override DIRECT: bool = false;

const KEPT = 8u;
const HEADS = 16u;
const SLOTS = 16u;

struct P {
    cols: u32,
    count_word: u32,
    x_first: u32,
    x_stride: u32,
    y_first: u32,
    y_stride: u32,
    eps: f32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> norm_weight: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;

var<workgroup> partial: array<f32, WORKGROUP>;
var<workgroup> heads: array<f32, HEADS>;

// A subgroup has `lanes` consecutive invocations. With DIRECT (and 256 in all) these are 16 or more, and everyone adds
// up the values of SLOTS at most, each place of `partial` written once; else HEADS invocations take parts first.
// Returns the sum of all invocations' values to every one of them.
fn workgroup_sum(value: f32, local: u32, lanes: u32, region: u32) -> f32 {
    var all = value;
    all = subgroupAdd(value); // subgroups only
    if (DIRECT) {
        if ((local & 15u) == 0u) {
            partial[region * SLOTS + (local >> 4u)] = select(0.0, all, (local & (lanes - 1u)) == 0u);
        }
        workgroupBarrier();
        all = 0.0;
        for (var i = 0u; i < SLOTS; i++) { // unroll
            all = all + partial[region * SLOTS + i];
        }
        return all;
    }
    if ((local & (lanes - 1u)) == 0u) {
        partial[local >> countTrailingZeros(lanes)] = all;
    }
    workgroupBarrier();
    if (local < HEADS) {
        all = 0.0;
        for (var i = local; i < (WORKGROUP >> countTrailingZeros(lanes)); i += HEADS) {
            all = all + partial[i];
        }
        heads[local] = all;
    }
    workgroupBarrier();
    all = 0.0;
    for (var i = 0u; i < HEADS; i++) { // unroll
        all = all + heads[i];
    }
    return all;
}

fn x1(i: u32) -> f32 {
    return x[i >> 2u][i & 3u];
}

fn norm_weight1(c: u32) -> f32 {
    return norm_weight[c >> 2u][c & 3u];
}

// Columns c to c + 3 of the row that starts at float `row`; zeros from column `cols` on.
fn x4(row: u32, c: u32, cols: u32) -> vec4<f32> {
    let i = row + c;
    var v = vec4<f32>();
    if (ALIGN == 4u) {
        if (c < cols) {
            v = x[i >> 2u];
        }
    } else {
        if (c < cols) { v.x = x1(i); }
        if (c + 1u < cols) { v.y = x1(i + 1u); }
        if (c + 2u < cols) { v.z = x1(i + 2u); }
        if (c + 3u < cols) { v.w = x1(i + 3u); }
    }
    return v;
}

fn norm_weight4(c: u32, cols: u32) -> vec4<f32> {
    var v = vec4<f32>();
    if (ALIGN == 4u) {
        if (c < cols) {
            v = norm_weight[c >> 2u];
        }
    } else {
        if (c < cols) { v.x = norm_weight1(c); }
        if (c + 1u < cols) { v.y = norm_weight1(c + 1u); }
        if (c + 2u < cols) { v.z = norm_weight1(c + 2u); }
        if (c + 3u < cols) { v.w = norm_weight1(c + 3u); }
    }
    return v;
}

// Writes columns c to c + 3, as far as there are any before `cols`.
fn store(row: u32, c: u32, cols: u32, v: vec4<f32>) {
    let i = row + c;
    if (c < cols) { y[i] = v.x; }
    if (c + 1u < cols) { y[i + 1u] = v.y; }
    if (c + 2u < cols) { y[i + 2u] = v.z; }
    if (c + 3u < cols) { y[i + 3u] = v.w; }
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
    let x_row = (p.x_first + t * p.x_stride) * ALIGN;
    let y_row = (p.y_first + t * p.y_stride) * ALIGN;
    let rest = 4u * (KEPT * WORKGROUP + local);
    // No load waits for another: rows beyond the count are read in vain.
    let written = select(0u, p.cols, t < params[p.count_word]);
    var kept: array<vec4<f32>, KEPT>;
    var norm_weights: array<vec4<f32>, KEPT>;
    var squares = 0.0;
    for (var i = 0u; i < KEPT; i++) { // unroll
        let c = 4u * (i * WORKGROUP + local);
        kept[i] = x4(x_row, c, p.cols);
        norm_weights[i] = norm_weight4(c, p.cols);
    }
    for (var i = 0u; i < KEPT; i++) { // unroll
        squares += dot(kept[i], kept[i]);
    }
    for (var c = rest; c < p.cols; c += 4u * WORKGROUP) {
        let v = x4(x_row, c, p.cols);
        squares += dot(v, v);
    }
    let r = inverseSqrt(workgroup_sum(squares, local, lanes, 0u) / f32(p.cols) + p.eps);
    for (var i = 0u; i < KEPT; i++) { // unroll
        store(y_row, 4u * (i * WORKGROUP + local), written, (kept[i] * r) * norm_weights[i]);
    }
    for (var c = rest; c < written; c += 4u * WORKGROUP) {
        store(y_row, c, written, (x4(x_row, c, p.cols) * r) * norm_weight4(c, p.cols));
    }
}
