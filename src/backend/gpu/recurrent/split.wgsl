// SPLIT (src/ops/operands.h): the first half of each head's 2 * head_dim columns goes to out, the second to gate; with
// BACK the other way, SPLIT_BACKWARD.
//
//   groups        (ceil(cols / WORKGROUP), most rows)
//   x, out, gate  rows of x_stride, out_stride, gate_stride floats, from x_first, out_first, gate_first
//   params        word count_word holds the number of rows
override WORKGROUP: u32 = 256;
override BACK: bool = false;

struct P {
    cols: u32, // of out and gate
    head_dim: u32,
    count_word: u32,
    x_first: u32,
    x_stride: u32,
    out_first: u32,
    out_stride: u32,
    gate_first: u32,
    gate_stride: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> out_rows: array<f32>;
@group(0) @binding(4) var<storage, read_write> gate: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let c = group.x * WORKGROUP + local;
    let t = group.y;
    if (t >= params[p.count_word] || c >= p.cols) {
        return;
    }
    let from_start = p.x_first + t * p.x_stride + c + c / p.head_dim * p.head_dim;
    let out_at = p.out_first + t * p.out_stride + c;
    let gate_at = p.gate_first + t * p.gate_stride + c;
    if (BACK) {
        x[from_start] = out_rows[out_at];
        x[from_start + p.head_dim] = gate[gate_at];
    } else {
        out_rows[out_at] = x[from_start];
        gate[gate_at] = x[from_start + p.head_dim];
    }
}
