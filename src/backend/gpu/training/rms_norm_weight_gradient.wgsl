// RMS_NORM_BACKWARD (src/ops/op.h), second dispatch: parts of the norm_weight's gradient, each of ROWS groups. Group g
// of n_groups of row t is t * n_groups + g.
//
//   part[i][c] = sum over groups j of ROWS * i .. of dy[j][c] * (x[j][c] * r[j])
//
//   groups     (ceil(cols / COLUMNS), parts); WORKGROUP / COLUMNS invocations share a column
//   x, dy      rows of x_stride, dy_stride floats, from x_first, dy_first, with n_groups groups of `cols` columns each
//   scratch    from word scratch_word r of each group, from word parts_word the parts [parts][cols]
//   params     word count_word holds the number of rows
//
// The same bits each time: the order depends on the row alone.
override WORKGROUP: u32 = 256;
override COLUMNS: u32 = 32;
override ROWS: u32 = 64;

override LANES: u32 = WORKGROUP / COLUMNS;

struct P {
    cols: u32,
    n_groups: u32,
    count_word: u32,
    x_first: u32,
    x_stride: u32,
    dy_first: u32,
    dy_stride: u32,
    scratch_word: u32,
    parts_word: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> dy: array<f32>;
@group(0) @binding(4) var<storage, read_write> scratch: array<f32>;

var<workgroup> partial: array<f32, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let c = group.x * COLUMNS + local % COLUMNS;
    let end = min((group.y + 1u) * ROWS, params[p.count_word] * p.n_groups);
    var sum = 0.0;
    if (c < p.cols) {
        for (var j = group.y * ROWS + local / COLUMNS; j < end; j += LANES) {
            let t = j / p.n_groups;
            let at = (j - t * p.n_groups) * p.cols + c;
            let normed = x[p.x_first + t * p.x_stride + at] * scratch[p.scratch_word + j];
            sum += dy[p.dy_first + t * p.dy_stride + at] * normed;
        }
    }
    partial[local] = sum;
    workgroupBarrier();
    if (local < COLUMNS && c < p.cols) {
        for (var i = 1u; i < LANES; i++) {
            sum += partial[i * COLUMNS + local];
        }
        scratch[p.parts_word + group.y * p.cols + c] = sum;
    }
}
