// Rows that linear layers of dense weights read, as f32 rows that start at whole vectors: from int8 rows with a scale
// for each (value times inverse scale), or from f32 rows that start elsewhere. What lies between cols and the row's end
// becomes zero.
//
//   groups     (ceil(vectors / WORKGROUP), most rows)
//   params     word count_word holds the number of rows
//   x          Q8: int8 values from word x_first + t x_stride, the inverse scale of row t in word scales_word + t;
//              else: floats from word x_first + t x_stride
//   result     [rows][vectors], vectors = ceil(cols / 4)
override Q8: bool = true;
override WORKGROUP: u32 = 128;

struct P {
    cols: u32,
    vectors: u32,
    count_word: u32,
    x_first: u32,
    x_stride: u32,
    scales_word: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<u32>;
@group(0) @binding(3) var<storage, read_write> result: array<vec4<f32>>;

// The bytes of a word, the lowest first. (unpack4xI8 would become 8-bit integers in SPIR-V, which not every device
// has.)
fn signed_bytes(v: u32) -> vec4<f32> {
    return vec4<f32>((vec4<i32>(bitcast<i32>(v)) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u));
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let at = group.x * WORKGROUP + local;
    let t = group.y;
    if (at >= p.vectors || t >= params[p.count_word]) {
        return;
    }
    var v = vec4<f32>();
    if (Q8) {
        v = signed_bytes(x[p.x_first + t * p.x_stride + at]) * bitcast<f32>(x[p.scales_word + t]);
    } else {
        for (var i = 0u; i < min(4u, p.cols - 4u * at); i++) {
            v[i] = bitcast<f32>(x[p.x_first + t * p.x_stride + 4u * at + i]);
        }
    }
    result[t * p.vectors + at] = v;
}
