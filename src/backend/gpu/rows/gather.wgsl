// GATHER (src/ops/op.h): y[i][c] = x[outputs[i]][c], rows of f32.
//
//   groups     (ceil(cols / WORKGROUP), most outputs)
//   x, y       rows of x_stride, y_stride floats, from x_first, y_first
//   params     word count_word holds the number of outputs, words outputs_word... which rows they are
override WORKGROUP: u32 = 256;

struct P {
    cols: u32,
    count_word: u32,
    outputs_word: u32,
    x_first: u32,
    x_stride: u32,
    y_first: u32,
    y_stride: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let c = group.x * WORKGROUP + local;
    let i = group.y;
    if (i >= params[p.count_word] || c >= p.cols) {
        return;
    }
    y[p.y_first + i * p.y_stride + c] = x[p.x_first + params[p.outputs_word + i] * p.x_stride + c];
}
