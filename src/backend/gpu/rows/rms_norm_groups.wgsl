// RMS_NORM (src/ops/op.h) of groups of `cols` columns, each normed by itself, and in place:
//
//   y[t][g][c] = x[t][g][c] * norm_weight[c] / sqrt(mean_c(x[t][g][c]^2) + eps) (+ residual[t][g][c])
//
//   groups     (ceil(n_groups / (WORKGROUP / LANES)), most rows): LANES invocations for each group
//   x, y       rows of x_stride, y_stride floats, from x_first, y_first; with flag IN_PLACE y is x
//   norm_weight       [cols] f32
//   residual   rows of residual_stride floats from residual_first, read with flag RESIDUAL; flag RESULT: it is what y
//              holds
//   params     word count_word holds the number of rows
//
// An invocation writes the columns that it has read, and no other. Sums in f32, in any order.
override WORKGROUP: u32 = 128;
override LANES: u32 = 16; // a power of two

const IN_PLACE = 1u; // of `flags`
const RESIDUAL = 2u;
const RESULT = 4u;

struct P {
    cols: u32,
    n_groups: u32,
    count_word: u32,
    x_first: u32,
    x_stride: u32,
    residual_first: u32,
    residual_stride: u32,
    y_first: u32,
    y_stride: u32,
    eps: f32,
    flags: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;
@group(0) @binding(3) var<storage, read> norm_weight: array<f32>;
@group(0) @binding(4) var<storage, read_write> residual: array<f32>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;

var<workgroup> partial: array<f32, WORKGROUP>;

// Column c of the group that starts at float x_at of x, or y_at of y.
fn x_of(x_at: u32, y_at: u32, c: u32) -> f32 {
    if ((p.flags & IN_PLACE) != 0u) {
        return y[y_at + c];
    }
    return x[x_at + c];
}

fn addend(residual_at: u32, y_at: u32, c: u32) -> f32 {
    if ((p.flags & RESIDUAL) != 0u) {
        return residual[residual_at + c];
    }
    if ((p.flags & RESULT) != 0u) {
        return y[y_at + c];
    }
    return 0.0;
}

// The sum of the values of a group's invocations. All invocations call it.
fn group_sum(value: f32, local: u32) -> f32 {
    let lane = local % LANES;
    partial[local] = value;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half >>= 1u) {
        if (lane < half) {
            partial[local] += partial[local + half];
        }
        workgroupBarrier();
    }
    return partial[local - lane];
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let lane = local % LANES;
    let g = group.x * (WORKGROUP / LANES) + local / LANES;
    let t = group.y;
    let cols = select(0u, p.cols, g < p.n_groups && t < params[p.count_word]);
    let first = g * p.cols;
    let x_at = p.x_first + t * p.x_stride + first;
    let y_at = p.y_first + t * p.y_stride + first;
    let residual_at = p.residual_first + t * p.residual_stride + first;
    var squares = 0.0;
    for (var c = lane; c < cols; c += LANES) {
        let v = x_of(x_at, y_at, c);
        squares += v * v;
    }
    let r = 1.0 / sqrt(group_sum(squares, local) / f32(p.cols) + p.eps);
    for (var c = lane; c < cols; c += LANES) {
        let normed = x_of(x_at, y_at, c) * r * norm_weight[c];
        if ((p.flags & (RESIDUAL | RESULT)) != 0u) {
            y[y_at + c] = addend(residual_at, y_at, c) + normed;
        } else {
            y[y_at + c] = normed;
        }
    }
}
