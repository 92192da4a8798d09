// LINEAR_DW (src/ops/op.h), many tokens, on cooperative matrices: dw[r][c] += sum_t dy[t][r] x[t][c].
//
//   groups     (ceil(cols / 128), ceil(rows / 128), runs of tokens_of_part tokens)
//   params     word count_word holds the number of tokens
//   dy         [tokens] rows, from vector dy_first, dy_stride vectors apart; `rows` floats of each
//   x          [tokens] rows, from vector x_first, x_stride vectors apart; `cols` floats of each
//   q          Q8, instead of x: int8 rows of x_stride words, inverse scales at word scales_word, which dy is
//              multiplied with
//   factors    [rows] powers of two that bring the largest of each column of dy below 2^15 (column_factors.wgsl), then,
//              unless Q8, [cols] of x, from float x_factors
//   result     [rows][cols] floats to add to; where there are several runs: to write, part_stride floats apart
//
// A float times its column's factor is the sum of two halves, but for about 2^-21 of it or 2^-38 of the largest of the
// column; int8 are halves. The product of two second halves is left out. Sums in f32.
//
// Native only: WGSL has no cooperative matrices, this is naga's dialect of them. Subgroups of 32. A workgroup has 8
// subgroups in 4 x 2, each with 32 rows x 64 columns, and takes DEPTH tokens at a time: what comes next is stored
// beside what is multiplied, so that one barrier is enough, and what comes after it is on its way.
enable f16;
enable wgpu_cooperative_matrix;

override Q8: bool = false;
override HALVES: u32 = select(2u, 1u, Q8); // of x

struct P {
    rows: u32,
    cols: u32,
    count_word: u32,
    dy_first: u32,
    dy_stride: u32,
    x_first: u32,
    x_stride: u32,
    scales_word: u32,
    tokens_of_part: u32, // a multiple of DEPTH
    part_stride: u32,
    adds: u32, // to what result holds
    x_factors: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> dy: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> q: array<u32>;
@group(0) @binding(5) var<storage, read_write> factors: array<f32>;
@group(0) @binding(6) var<storage, read_write> result: array<f32>;

const DEPTH = 16u;
const STRIDE = 34u; // vec4 of a row: 128 halves and a pad against bank conflicts
const TILE = DEPTH * STRIDE;
override SLOT: u32 = (2u + HALVES) * TILE; // first and second halves of dy, of x
var<workgroup> tile: array<vec4<f16>, 2u * SLOT>;
var<workgroup> sums: array<f32, 8 * 256>; // 16 x 16 for each subgroup
// No other workgroup memory: matrices must start at a multiple of 16 bytes, and drivers place small variables in front.

// What an invocation fetches for one step: four columns of two tokens, 8 apart.
struct Step {
    y0: vec4<f32>,
    y1: vec4<f32>,
    x0: vec4<f32>,
    x1: vec4<f32>,
    q: vec2<u32>,
    scales: vec2<f32>,
}

// The leading 11 bits, and what is left.
fn store_two(at: u32, v: vec4<f32>) {
    let first = bitcast<vec4<f32>>(bitcast<vec4<u32>>(v) & vec4<u32>(0xffffe000u));
    tile[at] = vec4<f16>(first);
    tile[at + TILE] = vec4<f16>(v - first);
}

// Four int8 as halves. The half 0x6400 + n is 1024 + n.
fn halves(word: u32) -> vec4<f16> {
    let v = word ^ 0x80808080u;
    let even = unpack2x16float((v & 0x00ff00ffu) | 0x64006400u) - vec2<f32>(1152.0);
    let odd = unpack2x16float(((v >> 8u) & 0x00ff00ffu) | 0x64006400u) - vec2<f32>(1152.0);
    return vec4<f16>(vec4<f32>(even.x, odd.x, even.y, odd.y));
}

fn fetch(first_row: u32, first_col: u32, t: u32, end: u32, local: u32) -> Step {
    var step = Step();
    let token = t + (local >> 5u);
    let r = first_row + (local & 31u) * 4u;
    let c = first_col + (local & 31u) * 4u;
    if (token < end) {
        if (r < p.rows) {
            step.y0 = dy[p.dy_first + token * p.dy_stride + r / 4u];
        }
        if (Q8) {
            step.scales.x = bitcast<f32>(q[p.scales_word + token]);
            if (c < p.cols) {
                step.q.x = q[token * p.x_stride + c / 4u];
            }
        } else if (c < p.cols) {
            step.x0 = x[p.x_first + token * p.x_stride + c / 4u];
        }
    }
    if (token + 8u < end) {
        if (r < p.rows) {
            step.y1 = dy[p.dy_first + (token + 8u) * p.dy_stride + r / 4u];
        }
        if (Q8) {
            step.scales.y = bitcast<f32>(q[p.scales_word + token + 8u]);
            if (c < p.cols) {
                step.q.y = q[(token + 8u) * p.x_stride + c / 4u];
            }
        } else if (c < p.cols) {
            step.x1 = x[p.x_first + (token + 8u) * p.x_stride + c / 4u];
        }
    }
    return step;
}

fn store(slot: u32, local: u32, factor: vec4<f32>, x_factor: vec4<f32>, step: Step) {
    let at = slot + (local >> 5u) * STRIDE + (local & 31u);
    if (Q8) {
        store_two(at, step.y0 * step.scales.x * factor);
        store_two(at + 8u * STRIDE, step.y1 * step.scales.y * factor);
        tile[at + 2u * TILE] = halves(step.q.x);
        tile[at + 2u * TILE + 8u * STRIDE] = halves(step.q.y);
    } else {
        store_two(at, step.y0 * factor);
        store_two(at + 8u * STRIDE, step.y1 * factor);
        store_two(at + 2u * TILE, step.x0 * x_factor);
        store_two(at + 2u * TILE + 8u * STRIDE, step.x1 * x_factor);
    }
}

// The factors of four columns; of those that are not there, what lies there.
fn four_factors(first: u32, n: u32, i: u32) -> vec4<f32> {
    let last = n - 1u;
    return vec4<f32>(factors[first + min(i, last)], factors[first + min(i + 1u, last)],
                     factors[first + min(i + 2u, last)], factors[first + min(i + 3u, last)]);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let first_col = group.x * 128u;
    let first_row = group.y * 128u;
    let first_token = group.z * p.tokens_of_part;
    let last = first_token + p.tokens_of_part;
    let end = min(params[p.count_word], last);
    let factor = four_factors(0u, p.rows, first_row + (local & 31u) * 4u);
    var x_factor = vec4<f32>();
    if (!Q8) {
        x_factor = four_factors(p.x_factors, p.cols, first_col + (local & 31u) * 4u);
    }
    let subgroup = local >> 5u;
    let a_first = (subgroup >> 1u) * 8u;
    let b_first = 2u * TILE + (subgroup & 1u) * 16u;
    var c00 = coop_mat16x16<f32, C>();
    var c01 = coop_mat16x16<f32, C>();
    var c02 = coop_mat16x16<f32, C>();
    var c03 = coop_mat16x16<f32, C>();
    var c10 = coop_mat16x16<f32, C>();
    var c11 = coop_mat16x16<f32, C>();
    var c12 = coop_mat16x16<f32, C>();
    var c13 = coop_mat16x16<f32, C>();

    store(0u, local, factor, x_factor, fetch(first_row, first_col, first_token, end, local));
    var next = fetch(first_row, first_col, first_token + DEPTH, end, local);
    var later = fetch(first_row, first_col, first_token + 2u * DEPTH, end, local);
    var slot = 0u; // what is multiplied
    for (var t = first_token; t < last; t += DEPTH) {
        workgroupBarrier();
        let a_at = slot + a_first;
        let b_at = slot + b_first;
        let a0 = coopLoad<coop_mat16x16<f16, A>>(&tile[a_at], STRIDE);
        let a1 = coopLoad<coop_mat16x16<f16, A>>(&tile[a_at + 4u], STRIDE);
        let d0 = coopLoad<coop_mat16x16<f16, A>>(&tile[a_at + TILE], STRIDE);
        let d1 = coopLoad<coop_mat16x16<f16, A>>(&tile[a_at + TILE + 4u], STRIDE);
        var b0 = coopLoadT<coop_mat16x16<f16, B>>(&tile[b_at], STRIDE);
        var b1 = coopLoadT<coop_mat16x16<f16, B>>(&tile[b_at + 4u], STRIDE);
        var b2 = coopLoadT<coop_mat16x16<f16, B>>(&tile[b_at + 8u], STRIDE);
        var b3 = coopLoadT<coop_mat16x16<f16, B>>(&tile[b_at + 12u], STRIDE);
        c00 = coopMultiplyAdd(a0, b0, c00);
        c01 = coopMultiplyAdd(a0, b1, c01);
        c02 = coopMultiplyAdd(a0, b2, c02);
        c03 = coopMultiplyAdd(a0, b3, c03);
        c10 = coopMultiplyAdd(a1, b0, c10);
        c11 = coopMultiplyAdd(a1, b1, c11);
        c12 = coopMultiplyAdd(a1, b2, c12);
        c13 = coopMultiplyAdd(a1, b3, c13);
        c00 = coopMultiplyAdd(d0, b0, c00);
        c01 = coopMultiplyAdd(d0, b1, c01);
        c02 = coopMultiplyAdd(d0, b2, c02);
        c03 = coopMultiplyAdd(d0, b3, c03);
        c10 = coopMultiplyAdd(d1, b0, c10);
        c11 = coopMultiplyAdd(d1, b1, c11);
        c12 = coopMultiplyAdd(d1, b2, c12);
        c13 = coopMultiplyAdd(d1, b3, c13);
        if (HALVES == 2u) {
            b0 = coopLoadT<coop_mat16x16<f16, B>>(&tile[b_at + TILE], STRIDE);
            b1 = coopLoadT<coop_mat16x16<f16, B>>(&tile[b_at + TILE + 4u], STRIDE);
            b2 = coopLoadT<coop_mat16x16<f16, B>>(&tile[b_at + TILE + 8u], STRIDE);
            b3 = coopLoadT<coop_mat16x16<f16, B>>(&tile[b_at + TILE + 12u], STRIDE);
            c00 = coopMultiplyAdd(a0, b0, c00);
            c01 = coopMultiplyAdd(a0, b1, c01);
            c02 = coopMultiplyAdd(a0, b2, c02);
            c03 = coopMultiplyAdd(a0, b3, c03);
            c10 = coopMultiplyAdd(a1, b0, c10);
            c11 = coopMultiplyAdd(a1, b1, c11);
            c12 = coopMultiplyAdd(a1, b2, c12);
            c13 = coopMultiplyAdd(a1, b3, c13);
        }
        slot = SLOT - slot;
        store(slot, local, factor, x_factor, next);
        next = later;
        later = fetch(first_row, first_col, t + 3u * DEPTH, end, local);
    }

    // 16 x 16 sums at a time go through the subgroup's share of workgroup memory
    let at = Place(local, first_row + (subgroup >> 1u) * 32u, first_col + (subgroup & 1u) * 64u,
                   group.z * p.part_stride);
    let own = subgroup * 256u;
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

// Where a subgroup's sums go: its first row and column.
struct Place {
    local: u32,
    row: u32,
    col: u32,
    part: u32,
}

// One over a power of two.
fn inverse(factor: f32) -> f32 {
    return bitcast<f32>(0x7f000000u - bitcast<u32>(factor));
}

fn put(to: Place, m: u32, n: u32) {
    let c = to.col + n + (to.local & 15u);
    for (var i = 0u; i < 8u; i++) {
        let r = to.row + m + 2u * i + ((to.local >> 4u) & 1u);
        if (r < p.rows && c < p.cols) {
            var sum = sums[(to.local >> 5u) * 256u + i * 32u + (to.local & 31u)] * inverse(factors[r]);
            if (!Q8) {
                sum *= inverse(factors[p.x_factors + c]);
            }
            let at = to.part + r * p.cols + c;
            if (p.adds != 0u) {
                sum += result[at];
            }
            result[at] = sum;
        }
    }
}
