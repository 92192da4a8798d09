// VARLEN_ATTENTION_BACKWARD (src/ops/op.h), last dispatch where the heads of a KV head were split: their gradients of k
// and of v added in order.
//
//   dk[t][h] = sum_i dk_parts[t][h * splits + i], and dv
//
//   groups      (ceil(KV heads * quads / WORKGROUP), most rows)
//   dk_parts, dv_parts  [rows][KV heads * splits] heads of `quads` quads
//   dk, dv      rows of *_stride quads, from *_first
//   params      word count_word holds the number of rows
override WORKGROUP: u32 = 128;

struct P {
    quads: u32, // head_dim / 4
    n_kv_heads: u32,
    splits: u32,
    count_word: u32,
    dk_first: u32,
    dk_stride: u32,
    dv_first: u32,
    dv_stride: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> dk_parts: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> dv_parts: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> dk: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> dv: array<vec4<f32>>;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let t = group.y;
    let item = group.x * WORKGROUP + local;
    if (t >= params[p.count_word] || item >= p.n_kv_heads * p.quads) {
        return;
    }
    let h = item / p.quads;
    let quad = item - h * p.quads;
    let first = (t * p.n_kv_heads + h) * p.splits * p.quads + quad;
    var k_sum = vec4<f32>();
    var v_sum = vec4<f32>();
    for (var i = 0u; i < p.splits; i++) {
        k_sum += dk_parts[first + i * p.quads];
        v_sum += dv_parts[first + i * p.quads];
    }
    dk[p.dk_first + t * p.dk_stride + item] = k_sum;
    dv[p.dv_first + t * p.dv_stride + item] = v_sum;
}
