// For each row of floats the power of two that brings its largest magnitude to 2^14 .. 2^15 (at most 2^112).
//
//   groups     (rows)
//   x          [rows] rows of `cols` floats, from vector x_first, x_stride vectors apart; zeros up to a whole vector
//   scales     column c counts times float scales_word + c where scales_word is not 0: a multiple of 4
//   factors    [rows]
override WORKGROUP: u32 = 256;

struct P {
    cols: u32,
    x_first: u32,
    x_stride: u32,
    scales_word: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> scales: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> factors: array<f32>;

var<workgroup> most: array<f32, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    var largest = vec4<f32>();
    for (var c = local * 4u; c < p.cols; c += WORKGROUP * 4u) {
        var values = x[p.x_first + group.x * p.x_stride + c / 4u];
        if (p.scales_word != 0u) {
            values *= scales[(p.scales_word + c) / 4u];
        }
        largest = max(largest, abs(values));
    }
    most[local] = max(max(largest.x, largest.y), max(largest.z, largest.w));
    for (var n = WORKGROUP / 2u; n > 0u; n /= 2u) {
        workgroupBarrier();
        if (local < n) {
            most[local] = max(most[local], most[local + n]);
        }
    }
    if (local == 0u) {
        let exponent = clamp(bitcast<u32>(most[0]) >> 23u, 29u, 254u);
        factors[group.x] = bitcast<f32>((268u - exponent) << 23u);
    }
}
