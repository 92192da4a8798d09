// ROPE and ROPE_BACKWARD (src/ops/op.h): rotates the heads of x[t] in place by the token's position, or back.
//
//   split halves: (a, b) = x[i], x[i + head_dim / 2];  adjacent: (a, b) = x[2 i], x[2 i + 1]
//   a' = a cos - b sin,  b' = b cos + a sin;  backward with -sin
//
//   groups     (ceil(n_heads * head_dim / 4 / WORKGROUP), most rows); an invocation rotates two pairs
//   x          [rows] rows of x_stride pairs of floats from pair x_first: n_heads heads of head_dim
//   table      [positions][head_dim / 2] (cos, sin)
//   params     word count_word holds the number of rows, from positions_word their positions
override WORKGROUP: u32 = 128;

struct P {
    quads: u32, // head_dim / 4
    n_heads: u32,
    adjacent: u32,
    count_word: u32,
    positions_word: u32,
    x_first: u32,
    x_stride: u32,
    direction: f32, // of the sines: 1 or -1
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read> table: array<vec2<f32>>;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let t = group.y;
    let item = group.x * WORKGROUP + local;
    if (t >= params[p.count_word] || item >= p.n_heads * p.quads) {
        return;
    }
    let head = item / p.quads;
    let k = item - head * p.quads;
    let start = p.x_first + t * p.x_stride + head * p.quads * 2u;
    let halves = p.adjacent == 0u;
    let first = start + select(2u * k, k, halves);
    let second = start + select(2u * k + 1u, p.quads + k, halves);
    let angles = (params[p.positions_word + t] * p.quads + k) * 2u;
    let t0 = table[angles] * vec2<f32>(1.0, p.direction);
    let t1 = table[angles + 1u] * vec2<f32>(1.0, p.direction);
    let u = x[first];
    let w = x[second];
    if (halves) {
        let c = vec2<f32>(t0.x, t1.x);
        let s = vec2<f32>(t0.y, t1.y);
        x[first] = u * c - w * s;
        x[second] = w * c + u * s;
    } else {
        x[first] = vec2<f32>(u.x * t0.x - u.y * t0.y, u.y * t0.x + u.x * t0.y);
        x[second] = vec2<f32>(w.x * t1.x - w.y * t1.y, w.y * t1.x + w.x * t1.y);
    }
}
