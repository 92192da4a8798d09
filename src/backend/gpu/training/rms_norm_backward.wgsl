// RMS_NORM_BACKWARD (src/ops/op.h), first dispatch: the gradient of the input, and what the norm_weight's needs.
//
//   r = 1 / sqrt(mean_c(x[t][c]^2) + eps);  k = r^3 * sum_c((dy[t][c] * norm_weight[c]) * x[t][c]) / cols
//   dx[t][c] = (dy[t][c] * norm_weight[c]) * r - x[t][c] * k (+ residual[t][c])
//
//   groups     (most rows): a workgroup for each row
//   x, dy, residual, dx  rows of *_stride floats, from *_first; dx and the residual where they are wanted
//   norm_weight       [cols] f32
//   scratch    word scratch_word + t: r, where `keep` is not 0
//   params     word count_word holds the number of rows
//
// Sums in f32, in any order.
enable subgroups; // subgroups only

override WORKGROUP: u32 = 256;

const DX = 1u;       // of `flags`
const RESIDUAL = 2u;
const KEEP = 4u;

struct P {
    cols: u32,
    count_word: u32,
    x_first: u32,
    x_stride: u32,
    dy_first: u32,
    dy_stride: u32,
    residual_first: u32,
    residual_stride: u32,
    dx_first: u32,
    dx_stride: u32,
    eps: f32,
    flags: u32,
    scratch_word: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;
@group(0) @binding(3) var<storage, read> norm_weight: array<f32>;
@group(0) @binding(4) var<storage, read_write> dy: array<f32>;
@group(0) @binding(5) var<storage, read_write> residual: array<f32>;
@group(0) @binding(6) var<storage, read_write> dx: array<f32>;
@group(0) @binding(7) var<storage, read_write> scratch: array<f32>;

var<workgroup> partial: array<vec2<f32>, WORKGROUP>;

// The sum of all invocations' values; subgroups have `lanes` consecutive ones.
fn workgroup_sum(value: vec2<f32>, local: u32, lanes: u32) -> vec2<f32> {
    var all = value;
    all = vec2<f32>(subgroupAdd(value.x), subgroupAdd(value.y)); // subgroups only
    if ((local & (lanes - 1u)) == 0u) {
        partial[local] = all;
    }
    workgroupBarrier();
    for (var half = WORKGROUP / 2u; half >= lanes; half >>= 1u) {
        if (local < half && (local & (lanes - 1u)) == 0u) {
            partial[local] += partial[local + half];
        }
        workgroupBarrier();
    }
    return partial[0];
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
    let x_row = p.x_first + t * p.x_stride;
    let dy_row = p.dy_first + t * p.dy_stride;
    let present = t < params[p.count_word];
    var sums = vec2<f32>();
    for (var c = local; c < p.cols; c += WORKGROUP) {
        let v = x[x_row + c];
        sums += vec2<f32>(v * v, (dy[dy_row + c] * norm_weight[c]) * v);
    }
    sums = workgroup_sum(sums, local, lanes);
    let r = 1.0 / sqrt(sums.x / f32(p.cols) + p.eps);
    let k = r * r * r * (sums.y / f32(p.cols));
    if (present && local == 0u && (p.flags & KEEP) != 0u) {
        scratch[p.scratch_word + t] = r;
    }
    let written = select(0u, p.cols, present && (p.flags & DX) != 0u);
    for (var c = local; c < written; c += WORKGROUP) {
        var d = (dy[dy_row + c] * norm_weight[c]) * r - x[x_row + c] * k;
        if ((p.flags & RESIDUAL) != 0u) {
            d += residual[p.residual_first + t * p.residual_stride + c];
        }
        dx[p.dx_first + t * p.dx_stride + c] = d;
    }
}
