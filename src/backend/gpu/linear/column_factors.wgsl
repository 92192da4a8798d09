// For each column of rows of floats the power of two that brings its largest magnitude to 2^14 .. 2^15 (at most 2^112).
//
//   groups     (ceil(cols / 16))
//   params     word count_word holds the number of rows
//   x          [rows] rows of `cols` floats, from vector x_first, x_stride vectors apart
//   q          row t counts times float scales_word + t where scales_word is not 0: a Q8 value's inverse scales
//   factors    [cols], from float first
override LANES: u32 = 64; // rows at a time

struct P {
    cols: u32,
    count_word: u32,
    x_first: u32,
    x_stride: u32,
    scales_word: u32,
    first: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> q: array<f32>;
@group(0) @binding(4) var<storage, read_write> factors: array<f32>;

var<workgroup> most: array<vec4<f32>, LANES * 4u>;

@compute @workgroup_size(LANES * 4u)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let c = group.x * 16u + local % 4u * 4u;
    let count = params[p.count_word];
    var largest = vec4<f32>();
    if (c < p.cols) {
        for (var t = local / 4u; t < count; t += LANES) {
            var values = x[p.x_first + t * p.x_stride + c / 4u];
            if (p.scales_word != 0u) {
                values *= q[p.scales_word + t];
            }
            largest = max(largest, abs(values));
        }
    }
    most[local] = largest;
    for (var n = LANES / 2u; n > 0u; n /= 2u) {
        workgroupBarrier();
        if (local < n * 4u) {
            most[local] = max(most[local], most[local + n * 4u]);
        }
    }
    if (local < 4u) {
        for (var i = 0u; i < 4u; i++) {
            if (c + i < p.cols) {
                let exponent = clamp(bitcast<u32>(most[local][i]) >> 23u, 29u, 254u);
                factors[p.first + c + i] = bitcast<f32>((268u - exponent) << 23u);
            }
        }
    }
}
