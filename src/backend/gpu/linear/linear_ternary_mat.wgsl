// LINEAR of ternary weights on Q8 rows (src/ops/op.h), many tokens: tiles of exact int32 sums.
//
//   out[t][r] = (sum_c code[r][c] q[t][c] - sum_c q[t][c]) * (inv_scale[t] * scale) + residual[t][r],  code = w + 1
//   GATED:      out[t][r] = act(row r of part 0) * (row r of part 1)
//
//   groups     (tiles of TILE_ROWS rows, GATED half as many, of all parts; ceil(most tokens / TILE_TOKENS))
//   params     word count_word: the number of tokens
//   x          Q8 value as vec4 words: int8 rows of x_stride, f32 inverse scales at word scales_word, i32 sums at word
//              sums_word
//   w0, w1, w2 the parts: rows of w_stride vec4 words in i2_s groups (two for 128 columns); row scales at word
//              row_scales, 0: none
//   residual   [tokens] rows of residual_stride floats from residual_first (flag 1); flag 4: it is what result holds
//   result     [tokens] rows of out_stride floats from out_first
//
// A step is one group, 128 columns: the codes of the tile's rows, one in a byte, and the tile's tokens lie in workgroup
// memory as eight vec4 of 16 columns each, while the next group is fetched into registers. Each invocation has 8 x 4
// sums, of rows and tokens that lie a stride apart, so that neighbours write neighbouring results; vec4 k of a
// row lies at k ^ key, key = the row's place among the invocations, against bank conflicts. The tile of a GATED op has
// the gate's rows in its first half, the same rows of up in its second: both sums are then in one invocation.
override GATED: bool = false;
override WORKGROUP: u32 = 128;    // TILE_ROWS / 8 * TILE_TOKENS / 4
override TILE_ROWS: u32 = 64;     // WORKGROUP / 2 or WORKGROUP
override TILE_TOKENS: u32 = 64;   // WORKGROUP / 2

override ROW_STRIDE: u32 = TILE_ROWS / 8u;
override TOKEN_STRIDE: u32 = TILE_TOKENS / 4u;
override W_LOADS: u32 = TILE_ROWS * 2u / WORKGROUP; // of an invocation, besides 4 of x

struct P {
    count_word: u32,
    max_rows: u32, // tokens that x has room for
    n_groups: u32, // of 128 columns
    x_stride: u32,
    scales_word: u32,
    sums_word: u32,
    w_stride: u32,
    row_scales: u32,
    rows0: u32,
    rows1: u32,
    rows2: u32,
    tiles0: u32, // first tile of part 1
    tiles1: u32, // first tile of part 2
    scale0: f32,
    scale1: f32,
    scale2: f32,
    out_first: u32,
    out_stride: u32,
    residual_first: u32,
    residual_stride: u32,
    flags: u32, // 1: residual, 2: silu instead of relu2, 4: the residual lies in result already, 8: gelu
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> w0: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> w1: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> w2: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> residual: array<f32>;
@group(0) @binding(7) var<storage, read_write> result: array<f32>;

var<workgroup> w_tile: array<vec4<u32>, TILE_ROWS * 8u>;
var<workgroup> x_tile: array<vec4<u32>, TILE_TOKENS * 8u>;

fn load_w(part: u32, at: u32) -> vec4<u32> {
    if (part == 0u) {
        return w0[at];
    }
    if (part == 1u) {
        return w1[at];
    }
    return w2[at];
}

fn x_word(word: u32) -> u32 {
    return x[word >> 2u][word & 3u];
}

fn weight_scale(part: u32, r: u32) -> f32 {
    if (p.row_scales == 0u) {
        return select(select(p.scale2, p.scale1, part == 1u), p.scale0, part == 0u);
    }
    let word = p.row_scales + r;
    return bitcast<f32>(load_w(part, word >> 2u)[word & 3u]);
}

// --- the tile

struct Tile {
    part: u32,
    first: u32, // its first row in the part
    rows: u32,  // of the part
    col: u32,   // of the part's first row in the output
}

fn tile_of(group: u32) -> Tile {
    let height = select(TILE_ROWS, TILE_ROWS / 2u, GATED);
    if (!GATED && group >= p.tiles1) {
        return Tile(2u, (group - p.tiles1) * height, p.rows2, p.rows0 + p.rows1);
    }
    if (!GATED && group >= p.tiles0) {
        return Tile(1u, (group - p.tiles0) * height, p.rows1, p.rows0);
    }
    return Tile(0u, group * height, p.rows0, 0u);
}

// One of the loads of an invocation: where it reads and where in w_tile it goes (half 0 of quarter 0).
struct Source {
    part: u32,
    at: u32,
    to: u32,
    key: u32,
}

fn source_of(tile: Tile, i: u32) -> Source {
    let m = i >> 1u;
    let half = i & 1u;
    var part = tile.part;
    var r = tile.first + m;
    if (GATED && m >= TILE_ROWS / 2u) {
        part = 1u;
        r -= TILE_ROWS / 2u;
    }
    return Source(part, min(r, tile.rows - 1u) * p.w_stride + half, m * 8u, ((m % ROW_STRIDE) & 7u) ^ half);
}

fn store_codes(s: Source, w: vec4<u32>) {
    let mask = vec4<u32>(0x03030303u);
    w_tile[s.to + s.key] = (w >> vec4<u32>(6u)) & mask;
    w_tile[s.to + (s.key ^ 2u)] = (w >> vec4<u32>(4u)) & mask;
    w_tile[s.to + (s.key ^ 4u)] = (w >> vec4<u32>(2u)) & mask;
    w_tile[s.to + (s.key ^ 6u)] = w & mask;
}

// Where load i of an invocation reads x, and where it goes.
fn x_at(first_token: u32, i: u32) -> u32 {
    return min(first_token + (i >> 3u), p.max_rows - 1u) * p.x_stride + (i & 7u);
}

fn store_x(i: u32, v: vec4<u32>) {
    let t = i >> 3u;
    x_tile[t * 8u + ((i & 7u) ^ ((t % TOKEN_STRIDE) & 7u))] = v;
}

// --- sums

fn mac(c: i32, a: vec4<u32>, b: vec4<u32>) -> i32 {
    return dot4I8Packed(a.w, b.w) + (dot4I8Packed(a.z, b.z) + (dot4I8Packed(a.y, b.y) + (dot4I8Packed(a.x, b.x) + c)));
}

fn mac4(c: vec4<i32>, a0: vec4<u32>, a1: vec4<u32>, a2: vec4<u32>, a3: vec4<u32>, b: vec4<u32>) -> vec4<i32> {
    return vec4<i32>(mac(c.x, a0, b), mac(c.y, a1, b), mac(c.z, a2, b), mac(c.w, a3, b));
}

// --- results

// e^-g must not pass 2^126: devices may divide by more as if it were infinite, or not at all.
fn silu(g: f32) -> f32 {
    return select(g / (1.0 + exp(-max(g, -87.0))), -0.0, g < -87.0);
}

// The tanh form. Beyond +-20 it is g or 0, but for g^3 that overflows.
fn gelu(g: f32) -> f32 {
    let h = clamp(g, -20.0, 20.0);
    let w = (h + h * h * h * 0.044715) * 1.5957691216;
    return select(g / (1.0 + exp(-max(w, -87.0))), -0.0, w < -87.0);
}

fn activation(gate: f32, up: f32) -> f32 {
    if ((p.flags & 2u) != 0u) {
        return silu(gate) * up;
    }
    if ((p.flags & 8u) != 0u) {
        return gelu(gate) * up;
    }
    let r = select(0.0, gate, gate > 0.0);
    return r * r * up;
}

fn put(t: u32, col: u32, y: f32) {
    let at = p.out_first + t * p.out_stride + col;
    var v = y;
    if ((p.flags & 1u) != 0u) {
        v += residual[p.residual_first + t * p.residual_stride + col];
    } else if ((p.flags & 4u) != 0u) {
        v += result[at];
    }
    result[at] = v;
}

fn put_row(tile: Tile, t: u32, r: u32, dot: i32, inverse: f32) {
    if (r < tile.rows) {
        put(t, tile.col + r, f32(dot) * (inverse * weight_scale(tile.part, r)));
    }
}

fn put_gated(tile: Tile, t: u32, r: u32, gate: i32, up: i32, inverse: f32) {
    if (r < tile.rows) {
        put(t, r, activation(f32(gate) * (inverse * weight_scale(0u, r)), f32(up) * (inverse * weight_scale(1u, r))));
    }
}

// The sums of one token: rows r, r + ROW_STRIDE, ...
fn put_token(tile: Tile, t: u32, count: u32, r: u32, low: vec4<i32>, high: vec4<i32>) {
    if (t >= count) {
        return;
    }
    let inverse = bitcast<f32>(x_word(p.scales_word + t));
    let sum = vec4<i32>(bitcast<i32>(x_word(p.sums_word + t)));
    let a = low - sum;
    let b = high - sum;
    if (GATED) {
        put_gated(tile, t, r, a.x, b.x, inverse);
        put_gated(tile, t, r + ROW_STRIDE, a.y, b.y, inverse);
        put_gated(tile, t, r + 2u * ROW_STRIDE, a.z, b.z, inverse);
        put_gated(tile, t, r + 3u * ROW_STRIDE, a.w, b.w, inverse);
        return;
    }
    put_row(tile, t, r, a.x, inverse);
    put_row(tile, t, r + ROW_STRIDE, a.y, inverse);
    put_row(tile, t, r + 2u * ROW_STRIDE, a.z, inverse);
    put_row(tile, t, r + 3u * ROW_STRIDE, a.w, inverse);
    put_row(tile, t, r + 4u * ROW_STRIDE, b.x, inverse);
    put_row(tile, t, r + 5u * ROW_STRIDE, b.y, inverse);
    put_row(tile, t, r + 6u * ROW_STRIDE, b.z, inverse);
    put_row(tile, t, r + 7u * ROW_STRIDE, b.w, inverse);
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    if (local == 0u) {
        w_tile[0] = vec4<u32>(params[p.count_word]);
    }
    let count = workgroupUniformLoad(&w_tile[0]).x;
    let first_token = group.y * TILE_TOKENS;
    if (first_token >= count) {
        return;
    }
    let tile = tile_of(group.x);
    let s0 = source_of(tile, local);
    let s1 = source_of(tile, local + WORKGROUP * (W_LOADS - 1u));
    let x0 = x_at(first_token, local);
    let x1 = x_at(first_token, local + WORKGROUP);
    let x2 = x_at(first_token, local + 2u * WORKGROUP);
    let x3 = x_at(first_token, local + 3u * WORKGROUP);

    let ty = local % ROW_STRIDE;
    let tx = local / ROW_STRIDE;
    let row_key = ty & 7u;
    let token_key = tx & 7u;
    var c0 = vec4<i32>();
    var c1 = vec4<i32>();
    var c2 = vec4<i32>();
    var c3 = vec4<i32>();
    var d0 = vec4<i32>(); // rows 4 .. 7
    var d1 = vec4<i32>();
    var d2 = vec4<i32>();
    var d3 = vec4<i32>();

    var v0: vec4<u32>;
    var v1: vec4<u32>;
    var u0: vec4<u32>;
    var u1: vec4<u32>;
    var u2: vec4<u32>;
    var u3: vec4<u32>;

    // step g stores what it fetched before, fetches group g and multiplies group g - 1
    for (var g = 0u; g <= p.n_groups; g++) {
        if (g > 0u) {
            workgroupBarrier();
            store_codes(s0, v0);
            if (W_LOADS > 1u) { store_codes(s1, v1); }
            store_x(local, u0);
            store_x(local + WORKGROUP, u1);
            store_x(local + 2u * WORKGROUP, u2);
            store_x(local + 3u * WORKGROUP, u3);
            workgroupBarrier();
        }
        if (g < p.n_groups) {
            v0 = load_w(s0.part, s0.at + g * 2u);
            if (W_LOADS > 1u) { v1 = load_w(s1.part, s1.at + g * 2u); }
            u0 = x[x0 + g * 8u];
            u1 = x[x1 + g * 8u];
            u2 = x[x2 + g * 8u];
            u3 = x[x3 + g * 8u];
        }
        if (g > 0u) {
            for (var k = 0u; k < 8u; k++) {
                let wk = ty * 8u + (k ^ row_key);
                let xk = tx * 8u + (k ^ token_key);
                let a0 = w_tile[wk];
                let a1 = w_tile[wk + ROW_STRIDE * 8u];
                let a2 = w_tile[wk + ROW_STRIDE * 16u];
                let a3 = w_tile[wk + ROW_STRIDE * 24u];
                let a4 = w_tile[wk + ROW_STRIDE * 32u];
                let a5 = w_tile[wk + ROW_STRIDE * 40u];
                let a6 = w_tile[wk + ROW_STRIDE * 48u];
                let a7 = w_tile[wk + ROW_STRIDE * 56u];
                let b0 = x_tile[xk];
                let b1 = x_tile[xk + TOKEN_STRIDE * 8u];
                let b2 = x_tile[xk + TOKEN_STRIDE * 16u];
                let b3 = x_tile[xk + TOKEN_STRIDE * 24u];
                c0 = mac4(c0, a0, a1, a2, a3, b0);
                c1 = mac4(c1, a0, a1, a2, a3, b1);
                c2 = mac4(c2, a0, a1, a2, a3, b2);
                c3 = mac4(c3, a0, a1, a2, a3, b3);
                d0 = mac4(d0, a4, a5, a6, a7, b0);
                d1 = mac4(d1, a4, a5, a6, a7, b1);
                d2 = mac4(d2, a4, a5, a6, a7, b2);
                d3 = mac4(d3, a4, a5, a6, a7, b3);
            }
        }
    }

    let t = first_token + tx;
    let r = tile.first + ty;
    put_token(tile, t, count, r, c0, d0);
    put_token(tile, t + TOKEN_STRIDE, count, r, c1, d1);
    put_token(tile, t + 2u * TOKEN_STRIDE, count, r, c2, d2);
    put_token(tile, t + 3u * TOKEN_STRIDE, count, r, c3, d3);
}
