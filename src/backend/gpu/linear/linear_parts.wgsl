// The sum of what the workgroups of a product have made for parts of its depth:
// out[t][c] = sum_i parts[i][t][c], in this order, then the epilogue.
//
//   groups     (row_groups, as many as it takes): an invocation for each element of out
//   params     word count_word holds the number of rows, where rows is 0
//   parts      [n_parts][most rows][cols] floats, part_stride floats apart
//   residual   [rows] rows of residual_stride floats, read when epilogue is 1
//   result     [rows] rows of result_stride floats
//
// epilogue: 0 none; 1 + residual; 2 + what result holds.
override WORKGROUP: u32 = 128;

struct P {
    rows: u32,
    cols: u32,
    count_word: u32,
    n_parts: u32,
    part_stride: u32,
    result_first: u32,
    result_stride: u32,
    residual_first: u32,
    residual_stride: u32,
    epilogue: u32,
    row_groups: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> parts: array<f32>;
@group(0) @binding(3) var<storage, read_write> residual: array<f32>;
@group(0) @binding(4) var<storage, read_write> result: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let i = (group.y * p.row_groups + group.x) * WORKGROUP + local;
    let t = i / p.cols;
    let c = i % p.cols;
    var rows = p.rows;
    if (rows == 0u) {
        rows = params[p.count_word];
    }
    if (t >= rows) {
        return;
    }
    var sum = 0.0;
    for (var part = 0u; part < p.n_parts; part++) {
        sum += parts[part * p.part_stride + i];
    }
    let at = p.result_first + t * p.result_stride + c;
    if (p.epilogue == 1u) {
        sum += residual[p.residual_first + t * p.residual_stride + c];
    } else if (p.epilogue == 2u) {
        sum += result[at];
    }
    result[at] = sum;
}
