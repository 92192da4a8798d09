// KV_WRITE (src/ops/op.h): k[t] and v[t] go to the place of the token's position in the caches.
//
//   groups     (ceil(n_kv_heads * head_dim / 2 / WORKGROUP), most rows); an invocation writes a pair of k and one of v
//   k, v       [rows] rows of k_stride, v_stride pairs of floats from pair k_first, v_first: n_kv_heads heads of
//              head_dim
//   k_cache, v_cache  pages [pages][n_kv_heads][32][head_dim], f16 pairs or f32
//   params     word count_word holds the number of rows; from positions_word and sequences_word their positions and
//              rows of PAGES
override WORKGROUP: u32 = 128;
override F16: bool = true; // the caches hold f16, or f32

struct P {
    pairs: u32, // head_dim / 2
    n_kv_heads: u32,
    count_word: u32,
    positions_word: u32,
    sequences_word: u32,
    pages_word: u32,
    max_pages: u32,
    k_first: u32,
    k_stride: u32,
    v_first: u32,
    v_stride: u32,
    together: u32, // 1: v lies in k's rows, as they must not be bound twice, and its own binding is nothing
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> k: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read_write> v: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read_write> k_cache: array<u32>;
@group(0) @binding(5) var<storage, read_write> v_cache: array<u32>;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let t = group.y;
    let item = group.x * WORKGROUP + local;
    if (t >= params[p.count_word] || item >= p.n_kv_heads * p.pairs) {
        return;
    }
    let head = item / p.pairs;
    let position = params[p.positions_word + t];
    let page = params[p.pages_word + params[p.sequences_word + t] * p.max_pages + (position >> 5u)];
    let at = ((page * p.n_kv_heads + head) * 32u + (position & 31u)) * p.pairs + item - head * p.pairs;
    let key = k[p.k_first + t * p.k_stride + item];
    let v_at = p.v_first + t * p.v_stride + item;
    var value: vec2<f32>;
    if (p.together == 1u) {
        value = k[v_at];
    } else {
        value = v[v_at];
    }
    if (F16) {
        k_cache[at] = pack2x16float(key);
        v_cache[at] = pack2x16float(value);
    } else {
        k_cache[2u * at] = bitcast<u32>(key.x);
        k_cache[2u * at + 1u] = bitcast<u32>(key.y);
        v_cache[2u * at] = bitcast<u32>(value.x);
        v_cache[2u * at + 1u] = bitcast<u32>(value.y);
    }
}
