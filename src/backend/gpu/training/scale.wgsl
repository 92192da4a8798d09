// SCALE and, with DROPOUT, DROPOUT (src/ops/op.h), rows of f32.
//
//   SCALE      out[t][c] = x[t][c] * factor
//   DROPOUT    out[t][c] = x[t][c] * factor where the bits of element t * cols + c are at least `least`, else 0
//              (tern_ref_dropout; bits as tern_ref_random_bits, src/ops/ref/update.h)
//
//   groups     (ceil(cols / WORKGROUP), most rows)
//   x, out     rows of x_stride, out_stride floats, from x_first, out_first
//   params     word count_word holds the number of rows, seed_word the seed of the run (DROPOUT)
override WORKGROUP: u32 = 256;
override DROPOUT: bool = false;

struct P {
    cols: u32,
    count_word: u32,
    x_first: u32,
    x_stride: u32,
    out_first: u32,
    out_stride: u32,
    factor: f32,
    least: u32,
    seed_word: u32,
    stream: u32, // what the op adds to the seed
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> result: array<f32>;

fn mix(v: u32) -> u32 {
    var h = v;
    h ^= h >> 16u;
    h *= 0x85ebca6bu;
    h ^= h >> 13u;
    h *= 0xc2b2ae35u;
    return h ^ (h >> 16u);
}

fn random_bits(seed: u32, index: u32) -> u32 {
    return mix(mix(index + 0x9e3779b9u) ^ mix(seed + 0x7f4a7c15u));
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let c = group.x * WORKGROUP + local;
    let t = group.y;
    if (t >= params[p.count_word] || c >= p.cols) {
        return;
    }
    let v = x[p.x_first + t * p.x_stride + c];
    var y = v * p.factor;
    if (DROPOUT) {
        let bits = random_bits(params[p.seed_word] + p.stream, t * p.cols + c);
        y = select(0.0, y, bits >= p.least);
    }
    result[p.out_first + t * p.out_stride + c] = y;
}
