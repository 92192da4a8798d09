// The end of a sum in parts (RMS_NORM_BACKWARD, BIAS_BACKWARD, src/ops/op.h): dg[c] += sum_i part[i][c], i ascending.
//
//   groups     (ceil(cols / WORKGROUP))
//   scratch    from word parts_word the parts [parts][cols]
//   dg         [cols] f32
override WORKGROUP: u32 = 128;

struct P {
    cols: u32,
    parts: u32,
    parts_word: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> scratch: array<f32>;
@group(0) @binding(2) var<storage, read_write> dg: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let c = id.x;
    if (c >= p.cols) {
        return;
    }
    var sum = scratch[p.parts_word + c];
    for (var i = 1u; i < p.parts; i++) {
        sum += scratch[p.parts_word + i * p.cols + c];
    }
    dg[c] += sum;
}
