// How fast f32 multiply-adds go: not an op, but what benchmarks compare with. 32 chains of dependent ones in every
// invocation: 32 * p.rounds multiply-adds.
//
//   groups   any number, in one dimension
//   result   [1], written if the sum of the chains of an invocation has the bits `never`
override WORKGROUP: u32 = 256;

struct P {
    never: u32,
    rounds: u32,
    factor: f32, // below 1, so that nothing overflows
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let factor = vec4<f32>(p.factor);
    let plus = vec4<f32>(f32(id.x), 1.0, 2.0, 3.0);
    var a = plus;
    var b = plus + vec4<f32>(1.0);
    var c = plus + vec4<f32>(2.0);
    var d = plus + vec4<f32>(3.0);
    var e = plus + vec4<f32>(4.0);
    var f = plus + vec4<f32>(5.0);
    var g = plus + vec4<f32>(6.0);
    var h = plus + vec4<f32>(7.0);
    for (var i = 0u; i < p.rounds; i++) {
        a = fma(a, factor, plus);
        b = fma(b, factor, plus);
        c = fma(c, factor, plus);
        d = fma(d, factor, plus);
        e = fma(e, factor, plus);
        f = fma(f, factor, plus);
        g = fma(g, factor, plus);
        h = fma(h, factor, plus);
    }
    let sum = a + b + c + d + e + f + g + h;
    if (bitcast<u32>(sum.x + sum.y + sum.z + sum.w) == p.never) {
        result[0] = 1u;
    }
}
