// An index behind the end of an array.
struct P { n: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> a: array<u32>;
@group(0) @binding(2) var<storage, read_write> b: array<u32>;
var<workgroup> words: array<u32, 64>;
@compute @workgroup_size(64) fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    words[i + p.n] = a[i];
    workgroupBarrier();
    b[i] = words[i];
}
