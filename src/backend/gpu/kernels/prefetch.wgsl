// Reads weights that a later dispatch wants, so that they lie in the cache of the device's memory by then. Runs beside
// the dispatch before it, since it shares nothing with that.
//
//   groups     (blocks of WORKGROUP * 8 sectors of 32 bytes of all buffers)
//   b0 .. b3   buffers of n0 .. n3 sectors
//   nothing    is never written: no run of weights has this sum
override WORKGROUP: u32 = 128;

struct P {
    n0: u32,
    n1: u32,
    n2: u32,
    n3: u32,
    block1: u32, // first block of b1
    block2: u32,
    block3: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> b0: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> b1: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> b2: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> b3: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> nothing: array<u32>;

fn load(buffer: u32, at: u32) -> vec4<u32> {
    if (buffer == 0u) {
        return b0[at];
    }
    if (buffer == 1u) {
        return b1[at];
    }
    if (buffer == 2u) {
        return b2[at];
    }
    return b3[at];
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    var buffer = 0u;
    var block = group.x;
    var n = p.n0;
    if (group.x >= p.block3) {
        buffer = 3u;
        block -= p.block3;
        n = p.n3;
    } else if (group.x >= p.block2) {
        buffer = 2u;
        block -= p.block2;
        n = p.n2;
    } else if (group.x >= p.block1) {
        buffer = 1u;
        block -= p.block1;
        n = p.n1;
    }
    let first = block * WORKGROUP * 8u + local;
    let last = n - 1u;
    let v0 = load(buffer, min(first, last) * 2u);
    let v1 = load(buffer, min(first + WORKGROUP, last) * 2u);
    let v2 = load(buffer, min(first + 2u * WORKGROUP, last) * 2u);
    let v3 = load(buffer, min(first + 3u * WORKGROUP, last) * 2u);
    let v4 = load(buffer, min(first + 4u * WORKGROUP, last) * 2u);
    let v5 = load(buffer, min(first + 5u * WORKGROUP, last) * 2u);
    let v6 = load(buffer, min(first + 6u * WORKGROUP, last) * 2u);
    let v7 = load(buffer, min(first + 7u * WORKGROUP, last) * 2u);
    let all = v0 | v1 | v2 | v3 | v4 | v5 | v6 | v7;
    if ((all.x & all.y & all.z & all.w) == 0xffffffffu) { // would be code 3 everywhere
        nothing[0] = 1u;
    }
}
