// ROPE_KV (src/ops/op.h): the heads of q and k of qkv[t] are rotated in place by the token's position, then k and v go
// to their place in the caches: what rope.wgsl and kv_write.wgsl do, in one dispatch.
//
//   groups     (ceil((n_heads + 2 n_kv_heads) * head_dim / 4 / WORKGROUP), most rows); an invocation has two pairs
//   qkv        [rows] rows of x_stride pairs of floats from pair x_first: n_heads heads of q, then n_kv_heads of k and
//              of v
//   table      [positions][head_dim / 2] (cos, sin)
//   k_cache, v_cache  pages [pages][n_kv_heads][32][head_dim], f16 pairs or f32
//   params     word count_word holds the number of rows; from positions_word and sequences_word their positions and
//              rows of PAGES
override WORKGROUP: u32 = 128;
override F16: bool = true; // the caches hold f16, or f32

struct P {
    quads: u32, // head_dim / 4
    n_heads: u32,
    n_kv_heads: u32,
    adjacent: u32,
    count_word: u32,
    positions_word: u32,
    sequences_word: u32,
    pages_word: u32,
    max_pages: u32,
    x_first: u32,
    x_stride: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> qkv: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read> table: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read_write> k_cache: array<u32>;
@group(0) @binding(5) var<storage, read_write> v_cache: array<u32>;

fn put_k(at: u32, x: vec2<f32>) {
    if (F16) {
        k_cache[at] = pack2x16float(x);
    } else {
        k_cache[2u * at] = bitcast<u32>(x.x);
        k_cache[2u * at + 1u] = bitcast<u32>(x.y);
    }
}

fn put_v(at: u32, x: vec2<f32>) {
    if (F16) {
        v_cache[at] = pack2x16float(x);
    } else {
        v_cache[2u * at] = bitcast<u32>(x.x);
        v_cache[2u * at + 1u] = bitcast<u32>(x.y);
    }
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let t = group.y;
    let item = group.x * WORKGROUP + local;
    if (t >= params[p.count_word] || item >= (p.n_heads + 2u * p.n_kv_heads) * p.quads) {
        return;
    }
    let head = item / p.quads;
    let k = item - head * p.quads;
    let start = p.x_first + t * p.x_stride + head * p.quads * 2u;
    let halves = p.adjacent == 0u;
    let first = select(2u * k, k, halves);
    let second = select(2u * k + 1u, p.quads + k, halves);
    let position = params[p.positions_word + t];
    var u = qkv[start + first];
    var w = qkv[start + second];
    if (head < p.n_heads + p.n_kv_heads) {
        let angles = (position * p.quads + k) * 2u;
        let t0 = table[angles];
        let t1 = table[angles + 1u];
        if (halves) {
            let c = vec2<f32>(t0.x, t1.x);
            let s = vec2<f32>(t0.y, t1.y);
            let rotated = u * c - w * s;
            w = w * c + u * s;
            u = rotated;
        } else {
            u = vec2<f32>(u.x * t0.x - u.y * t0.y, u.y * t0.x + u.x * t0.y);
            w = vec2<f32>(w.x * t1.x - w.y * t1.y, w.y * t1.x + w.x * t1.y);
        }
        qkv[start + first] = u;
        qkv[start + second] = w;
    }
    if (head >= p.n_heads) {
        let values = head >= p.n_heads + p.n_kv_heads;
        let kv_head = head - p.n_heads - select(0u, p.n_kv_heads, values);
        let page = params[p.pages_word + params[p.sequences_word + t] * p.max_pages + (position >> 5u)];
        let at = ((page * p.n_kv_heads + kv_head) * 32u + (position & 31u)) * p.quads * 2u;
        if (values) {
            put_v(at + first, u);
            put_v(at + second, w);
        } else {
            put_k(at + first, u);
            put_k(at + second, w);
        }
    }
}
