// VARLEN_ATTENTION_BACKWARD (src/ops/op.h), what its other dispatches need of each row and head: m, 1 / l and
// delta = dot(dout, out).
//
//   groups      (heads, ceil(most rows / (WORKGROUP / 8))): 8 invocations for each row of a head
//   out, dout   rows of *_stride quads, from *_first
//   statistics  rows of statistics_stride floats, from statistics_first: m of each head, then l of each
//   scratch     quad t * n_heads + head: m, 1 / l, delta, 0
//   params      word count_word holds the number of rows
override WORKGROUP: u32 = 128;

struct P {
    quads: u32, // head_dim / 4
    n_heads: u32,
    count_word: u32,
    out_first: u32,
    out_stride: u32,
    dout_first: u32,
    dout_stride: u32,
    statistics_first: u32,
    statistics_stride: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> out_rows: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> dout: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> statistics: array<f32>;
@group(0) @binding(5) var<storage, read_write> scratch: array<vec4<f32>>;

var<workgroup> partial: array<f32, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let head = group.x;
    let t = group.y * (WORKGROUP / 8u) + local / 8u;
    let present = t < params[p.count_word];
    var sum = 0.0;
    if (present) {
        for (var c = local % 8u; c < p.quads; c += 8u) {
            sum += dot(out_rows[p.out_first + t * p.out_stride + head * p.quads + c],
                       dout[p.dout_first + t * p.dout_stride + head * p.quads + c]);
        }
    }
    partial[local] = sum;
    workgroupBarrier();
    if (present && local % 8u == 0u) {
        for (var i = 1u; i < 8u; i++) { // unroll
            sum += partial[local + i];
        }
        let at = p.statistics_first + t * p.statistics_stride + head;
        scratch[t * p.n_heads + head] = vec4<f32>(statistics[at], 1.0 / statistics[at + p.n_heads], sum, 0.0);
    }
}
