// How fast dot4I8Packed goes: not an op, but what `tern bench` compares with. Eight chains of dependent products in
// every invocation: 8 * 4 * p.rounds multiply-adds.
//
//   groups   any number, in one dimension
//   result   [1], written if the sum of the chains of an invocation is `never`
override WORKGROUP: u32 = 256;

struct P {
    never: u32,
    rounds: u32,
    factor: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var a = vec4<i32>(i32(id.x)) + vec4<i32>(1, 2, 3, 4);
    var b = a + vec4<i32>(4);
    for (var i = 0u; i < p.rounds; i++) {
        a.x += dot4I8Packed(u32(a.x), p.factor);
        a.y += dot4I8Packed(u32(a.y), p.factor);
        a.z += dot4I8Packed(u32(a.z), p.factor);
        a.w += dot4I8Packed(u32(a.w), p.factor);
        b.x += dot4I8Packed(u32(b.x), p.factor);
        b.y += dot4I8Packed(u32(b.y), p.factor);
        b.z += dot4I8Packed(u32(b.z), p.factor);
        b.w += dot4I8Packed(u32(b.w), p.factor);
    }
    let sum = a + b;
    if (u32(sum.x + sum.y + sum.z + sum.w) == p.never) {
        result[0] = 1u;
    }
}
