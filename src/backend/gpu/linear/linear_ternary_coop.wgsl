// LINEAR of ternary weights on Q8 rows (src/ops/op.h), many tokens, on cooperative matrices: exact integers all the same, because
// int8 values and codes 0..2 are exact in f16 and sums of products below 2^24 are exact in f32 (cols < 66,000).
//
//   out[t][r] = (sum_c code[r][c] q[t][c] - sum_c q[t][c]) * (inv_scale[t] * scale) + residual[t][r],  code = w + 1
//   gated:      out[t][r] = act(row r of part 0) * (row r of part 1)
//
//   groups     (tiles of 128 rows, gated 64, of all parts; ceil(most tokens / 128))
//   params     word count_word: the number of tokens
//   x          Q8 value as pairs of words: int8 rows of x_stride pairs, f32 inverse scales at word scales_word, i32 sums at sums_word
//   w0, w1, w2 the parts: rows of w_stride pairs in i2_s groups (32 bytes for 128 columns); row scales at word row_scales, 0: none
//   residual   [tokens] rows of residual_stride floats from residual_first; read when ADD_RESIDUAL
//   result     [tokens] rows of out_stride floats from out_first
//
// Native only: WGSL has no cooperative matrices, this is naga's dialect of them. Subgroups of 32.
//
// A workgroup has 8 subgroups in 4 x 2, each with 32 tokens x 64 rows. It takes half a group (64 columns) at a time: word i and quarter q
// of the half hold 4 columns; both sides are stored in the order (i, q, pair), so the order of columns within the half does not matter.
enable f16;
enable wgpu_cooperative_matrix;

override GATED: bool = false;
override ADD_RESIDUAL: bool = false;
override SILU: bool = false;

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
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read> w0: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read> w1: array<vec2<u32>>;
@group(0) @binding(5) var<storage, read> w2: array<vec2<u32>>;
@group(0) @binding(6) var<storage, read_write> residual: array<f32>;
@group(0) @binding(7) var<storage, read_write> result: array<f32>;

const STRIDE = 18u; // vec4 of a stored row: 64 halves and a pad against bank conflicts
const WEIGHTS = 128u * STRIDE;
var<workgroup> tile: array<vec4<f16>, 256u * STRIDE>; // 128 rows of x, 128 of weights
var<workgroup> sums: array<f32, 8 * 256>;              // 16 x 16 for each subgroup; first the number of tokens
// No other workgroup memory: matrices must start at a multiple of 16 bytes, and drivers place small variables in front.

fn load_w(part: u32, at: u32) -> vec2<u32> {
    if (part == 0u) {
        return w0[at];
    }
    if (part == 1u) {
        return w1[at];
    }
    return w2[at];
}

fn row_scale(part: u32, r: u32) -> f32 {
    if (p.row_scales == 0u) {
        return select(select(p.scale2, p.scale1, part == 1u), p.scale0, part == 0u);
    }
    let pair = load_w(part, (p.row_scales + r) >> 1u);
    return bitcast<f32>(select(pair.x, pair.y, (r & 1u) == 1u));
}

fn x_word(word: u32) -> u32 {
    let pair = x[word >> 1u];
    return select(pair.x, pair.y, (word & 1u) == 1u);
}

// Four int8 as halves, in the order 0, 2, 1, 3. The half 0x6400 + n is 1024 + n.
fn halves(word: u32) -> vec4<f16> {
    let v = word ^ 0x80808080u;
    let even = unpack2x16float((v & 0x00ff00ffu) | 0x64006400u) - vec2<f32>(1152.0);
    let odd = unpack2x16float(((v >> 8u) & 0x00ff00ffu) | 0x64006400u) - vec2<f32>(1152.0);
    return vec4<f16>(vec4<f32>(even, odd));
}

// Four codes, one in each byte, in the same order.
fn code_halves(word: u32) -> vec4<f16> {
    let odd = word >> 8u;
    return vec4<f16>(vec4<f32>(unpack2x16float((word & 0x00010001u) * 0x3c00u + (word & 0x00020002u) * 0x2000u),
                               unpack2x16float((odd & 0x00010001u) * 0x3c00u + (odd & 0x00020002u) * 0x2000u)));
}

fn store_codes(at: u32, w: u32) {
    tile[at] = code_halves(w >> 6u);
    tile[at + 1u] = code_halves(w >> 4u);
    tile[at + 2u] = code_halves(w >> 2u);
    tile[at + 3u] = code_halves(w);
}

fn store_values(at: u32, a: u32, b: u32, c: u32, d: u32) {
    tile[at] = halves(a);
    tile[at + 1u] = halves(b);
    tile[at + 2u] = halves(c);
    tile[at + 3u] = halves(d);
}

// e^-g must not pass 2^126: devices may divide by more as if it were infinite, or not at all.
fn silu(g: f32) -> f32 {
    return select(g / (1.0 + exp(-max(g, -87.0))), -0.0, g < -87.0);
}

fn activation(gate: f32, up: f32) -> f32 {
    if (SILU) {
        return silu(gate) * up;
    }
    let r = select(0.0, gate, gate > 0.0);
    return r * r * up;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    if (local == 0u) {
        sums[0] = f32(params[p.count_word]);
    }
    let count = u32(workgroupUniformLoad(&sums[0]));
    let first_token = group.y * 128u;
    if (first_token >= count) {
        return;
    }
    // the tile's part and first row
    var part = 0u;
    var row0 = group.x;
    var rows = p.rows0;
    if (!GATED && group.x >= p.tiles1) {
        part = 2u;
        row0 -= p.tiles1;
        rows = p.rows2;
    } else if (!GATED && group.x >= p.tiles0) {
        part = 1u;
        row0 -= p.tiles0;
        rows = p.rows1;
    }
    row0 *= select(128u, 64u, GATED);

    // what this invocation moves: half of the words of one weight row and of one token
    let lane = local >> 1u;
    let half = local & 1u;
    var w_part = part;
    var w_row = row0 + lane;
    if (GATED) { // each subgroup's 64 rows are 32 of the gate and the same 32 of up
        w_part = (lane >> 5u) & 1u;
        w_row = row0 + (lane >> 6u) * 32u + (lane & 31u);
    }
    w_row = min(w_row, rows - 1u);
    let w_at = w_row * p.w_stride + half;
    let x_at = min(first_token + lane, p.max_rows - 1u) * p.x_stride + half;
    let x_to = lane * STRIDE + half * 8u;
    let w_to = WEIGHTS + x_to;

    var wa = load_w(w_part, w_at);
    var wb = load_w(w_part, w_at + 2u);
    var xa0 = x[x_at];
    var xa1 = x[x_at + 4u];
    var xa2 = x[x_at + 8u];
    var xa3 = x[x_at + 12u];
    var xb0 = x[x_at + 2u];
    var xb1 = x[x_at + 6u];
    var xb2 = x[x_at + 10u];
    var xb3 = x[x_at + 14u];

    let subgroup = local >> 5u;
    let a_at = (subgroup >> 1u) * 32u * STRIDE;
    let b_at = WEIGHTS + (subgroup & 1u) * 64u * STRIDE;
    var c00 = coop_mat16x16<f32, C>();
    var c01 = coop_mat16x16<f32, C>();
    var c02 = coop_mat16x16<f32, C>();
    var c03 = coop_mat16x16<f32, C>();
    var c10 = coop_mat16x16<f32, C>();
    var c11 = coop_mat16x16<f32, C>();
    var c12 = coop_mat16x16<f32, C>();
    var c13 = coop_mat16x16<f32, C>();

    for (var step = 0u; step < 2u * p.n_groups; step++) {
        workgroupBarrier();
        store_codes(w_to, wa.x);
        store_codes(w_to + 4u, wa.y);
        store_values(x_to, xa0.x, xa1.x, xa2.x, xa3.x);
        store_values(x_to + 4u, xa0.y, xa1.y, xa2.y, xa3.y);
        workgroupBarrier();
        // the other half of the group is next; the one after it is fetched while this one is multiplied
        wa = wb;
        xa0 = xb0;
        xa1 = xb1;
        xa2 = xb2;
        xa3 = xb3;
        if (step + 2u < 2u * p.n_groups) {
            let next = step + 2u;
            let w_next = w_at + (next >> 1u) * 4u + (next & 1u) * 2u;
            let x_next = x_at + (next >> 1u) * 16u + (next & 1u) * 2u;
            wb = load_w(w_part, w_next);
            xb0 = x[x_next];
            xb1 = x[x_next + 4u];
            xb2 = x[x_next + 8u];
            xb3 = x[x_next + 12u];
        }
        for (var k = 0u; k < 16u; k += 4u) {
            let a0 = coopLoadT<coop_mat16x16<f16, A>>(&tile[a_at + k], STRIDE);
            let a1 = coopLoadT<coop_mat16x16<f16, A>>(&tile[a_at + 16u * STRIDE + k], STRIDE);
            let b0 = coopLoad<coop_mat16x16<f16, B>>(&tile[b_at + k], STRIDE);
            let b1 = coopLoad<coop_mat16x16<f16, B>>(&tile[b_at + 16u * STRIDE + k], STRIDE);
            let b2 = coopLoad<coop_mat16x16<f16, B>>(&tile[b_at + 32u * STRIDE + k], STRIDE);
            let b3 = coopLoad<coop_mat16x16<f16, B>>(&tile[b_at + 48u * STRIDE + k], STRIDE);
            c00 = coopMultiplyAdd(a0, b0, c00);
            c01 = coopMultiplyAdd(a0, b1, c01);
            c02 = coopMultiplyAdd(a0, b2, c02);
            c03 = coopMultiplyAdd(a0, b3, c03);
            c10 = coopMultiplyAdd(a1, b0, c10);
            c11 = coopMultiplyAdd(a1, b1, c11);
            c12 = coopMultiplyAdd(a1, b2, c12);
            c13 = coopMultiplyAdd(a1, b3, c13);
        }
    }

    // 16 x 16 sums at a time go through the subgroup's share of workgroup memory
    let at = Place(local, first_token + (subgroup >> 1u) * 32u, row0 + (subgroup & 1u) * select(64u, 32u, GATED), count, part, rows);
    let own = subgroup * 256u;
    if (GATED) {
        var gates: array<f32, 8>;
        workgroupBarrier();
        coopStoreT(c00, &sums[own], 16u);
        workgroupBarrier();
        gates = sums_of(local);
        workgroupBarrier();
        coopStoreT(c02, &sums[own], 16u);
        workgroupBarrier();
        put_gated(gates, at, 0u, 0u);
        workgroupBarrier();
        coopStoreT(c01, &sums[own], 16u);
        workgroupBarrier();
        gates = sums_of(local);
        workgroupBarrier();
        coopStoreT(c03, &sums[own], 16u);
        workgroupBarrier();
        put_gated(gates, at, 0u, 16u);
        workgroupBarrier();
        coopStoreT(c10, &sums[own], 16u);
        workgroupBarrier();
        gates = sums_of(local);
        workgroupBarrier();
        coopStoreT(c12, &sums[own], 16u);
        workgroupBarrier();
        put_gated(gates, at, 16u, 0u);
        workgroupBarrier();
        coopStoreT(c11, &sums[own], 16u);
        workgroupBarrier();
        gates = sums_of(local);
        workgroupBarrier();
        coopStoreT(c13, &sums[own], 16u);
        workgroupBarrier();
        put_gated(gates, at, 16u, 16u);
    } else {
        workgroupBarrier();
        coopStoreT(c00, &sums[own], 16u);
        workgroupBarrier();
        put(at, 0u, 0u);
        workgroupBarrier();
        coopStoreT(c01, &sums[own], 16u);
        workgroupBarrier();
        put(at, 0u, 16u);
        workgroupBarrier();
        coopStoreT(c02, &sums[own], 16u);
        workgroupBarrier();
        put(at, 0u, 32u);
        workgroupBarrier();
        coopStoreT(c03, &sums[own], 16u);
        workgroupBarrier();
        put(at, 0u, 48u);
        workgroupBarrier();
        coopStoreT(c10, &sums[own], 16u);
        workgroupBarrier();
        put(at, 16u, 0u);
        workgroupBarrier();
        coopStoreT(c11, &sums[own], 16u);
        workgroupBarrier();
        put(at, 16u, 16u);
        workgroupBarrier();
        coopStoreT(c12, &sums[own], 16u);
        workgroupBarrier();
        put(at, 16u, 32u);
        workgroupBarrier();
        coopStoreT(c13, &sums[own], 16u);
        workgroupBarrier();
        put(at, 16u, 48u);
    }
}

// Where a subgroup's sums go: its first token and first row of the part.
struct Place {
    local: u32,
    token: u32,
    row: u32,
    count: u32,
    part: u32,
    rows: u32,
}

// Token i of 8, two for each step: the lane's place in the 16 x 16, and the sum there.
fn sum_at(local: u32, i: u32) -> f32 {
    return sums[(local >> 5u) * 256u + i * 32u + (local & 31u)];
}

fn sums_of(local: u32) -> array<f32, 8> {
    var all: array<f32, 8>;
    for (var i = 0u; i < 8u; i++) {
        all[i] = sum_at(local, i);
    }
    return all;
}

fn scaled(sum: f32, t: u32, part: u32, r: u32) -> f32 {
    let inverse = bitcast<f32>(x_word(p.scales_word + t));
    return (sum - f32(bitcast<i32>(x_word(p.sums_word + t)))) * (inverse * row_scale(part, r));
}

fn put(to: Place, m: u32, n: u32) {
    let r = to.row + n + (to.local & 15u);
    var col = r;
    if (to.part > 0u) {
        col += p.rows0;
    }
    if (to.part > 1u) {
        col += p.rows1;
    }
    for (var i = 0u; i < 8u; i++) {
        let t = to.token + m + 2u * i + ((to.local >> 4u) & 1u);
        if (t < to.count && r < to.rows) {
            var y = scaled(sum_at(to.local, i), t, to.part, r);
            if (ADD_RESIDUAL) {
                y += residual[p.residual_first + t * p.residual_stride + col];
            }
            result[p.out_first + t * p.out_stride + col] = y;
        }
    }
}

fn put_gated(gates: array<f32, 8>, to: Place, m: u32, n: u32) {
    var gate = gates;
    let r = to.row + n + (to.local & 15u);
    for (var i = 0u; i < 8u; i++) {
        let t = to.token + m + 2u * i + ((to.local >> 4u) & 1u);
        if (t < to.count && r < to.rows) {
            result[p.out_first + t * p.out_stride + r] =
                activation(scaled(gate[i], t, 0u, r), scaled(sum_at(to.local, i), t, 1u, r));
        }
    }
}
