// Right with fences alone, and because b is coherent: the workgroup that comes last adds what all have written.
struct P { n: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> counter: array<atomic<u32>>;
@group(0) @binding(2) var<storage, read_write> b: array<u32>; // coherent
var<workgroup> turn: u32;
@compute @workgroup_size(64) fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    if (i < 8u) {
        b[8u + group.x * 8u + i] = i + group.x;
    }
    storageBarrier();
    if (i == 0u) {
        turn = atomicAdd(&counter[63], 1u);
    }
    let mine = workgroupUniformLoad(&turn);
    storageBarrier();
    if (mine == 63u + 3u && i < 8u) {
        b[i] = b[8u + i] + b[16u + i] + b[24u + i] + b[32u + i];
    }
}
