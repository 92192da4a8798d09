// ADD (src/ops/op.h): out[t][c] = a[t][c] + b[t][c], rows of f32.
//
//   groups     (ceil(cols / WORKGROUP), most rows)
//   a, b       [rows] rows of a_stride, b_stride floats (0: one row for all), from a_first, b_first
//   IN_PLACE   a is what result holds
//   out        [rows] rows of out_stride floats from out_first
//   params     word count_word holds the number of rows, word first_word which is the first; or these of tokens, each
//              of which has token_rows
override WORKGROUP: u32 = 256;
override IN_PLACE: bool = false;

struct P {
    cols: u32,
    count_word: u32,
    token_rows: u32,
    a_first: u32,
    a_stride: u32,
    b_first: u32,
    b_stride: u32,
    out_first: u32,
    out_stride: u32,
    first_word: u32, // of a group of rows, where its first is in params; 0: they begin with 0
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> a: array<f32>;
@group(0) @binding(3) var<storage, read_write> b: array<f32>;
@group(0) @binding(4) var<storage, read_write> result: array<f32>;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let c = group.x * WORKGROUP + local;
    let t = group.y;
    let begin = select(0u, params[p.first_word], p.first_word != 0u);
    let end = begin + params[p.count_word];
    if (t < begin * p.token_rows || t >= end * p.token_rows || c >= p.cols) {
        return;
    }
    let at = p.out_first + t * p.out_stride + c;
    let addend = b[p.b_first + t * p.b_stride + c];
    if (IN_PLACE) {
        result[at] += addend;
    } else {
        result[at] = a[p.a_first + t * p.a_stride + c] + addend;
    }
}
