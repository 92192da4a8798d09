// How fast memory is read: not an op, but what `tern bench` compares with. Every invocation reads LOADS independent
// vectors.
//
//   groups   (bytes / (WORKGROUP * LOADS * 16)); the binding has that many bytes or more
//   data     read once, from its start
//   result   [1], written if the exclusive-or of what one invocation has read is (never, never, never, never)
override WORKGROUP: u32 = 256;
override LOADS: u32 = 16;

struct P {
    never: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> data: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> result: array<u32>;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let first = group.x * (WORKGROUP * LOADS) + local;
    var sum = vec4<u32>(0u);
    for (var i = 0u; i < LOADS; i++) { // unroll
        sum ^= data[first + i * WORKGROUP];
    }
    if (all(sum == vec4<u32>(p.never))) {
        result[0] = 1u;
    }
}
