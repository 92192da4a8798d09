// LINEAR and LINEAR_DX (src/ops/op.h) of f32 rows and any weights, many tokens, on cooperative matrices.
//
//   BACKWARD:  out[t][c] = sum_r x[t][r] w[r][c], then the epilogue       (x is dy)
//   else:      out[t][r] = sum_c w[r][c] x[t][c], then the epilogue       (no ternary weights)
//
//   groups     (ceil(columns of out / 128), ceil(most tokens / 128), runs of depth_of_part)
//   params     word count_word holds the number of tokens
//   x          [tokens] rows of floats, from vector x_first, x_stride vectors apart; zeros up to a whole vector
//   factors    [tokens] powers of two that bring the largest of each row below 2^15 (row_factors.wgsl)
//   weights    [rows] rows of row_vectors vectors of 16 bytes, as src/backend/gpu/gpu.h lays them out; values past cols
//              are zero. Ternary ones: times `scale`, or row scales from word row_scales where that is not 0
//   residual   [tokens] rows of residual_stride floats, read when epilogue is 1
//   result     [tokens] rows of result_stride floats, part_stride floats further for each run
//
// A float times its row's factor is the sum of two halves, the first its 11 leading bits, but for about 2^-21 of it or
// 2^-38 of the largest of the row. Codes and f16 weights are halves; bf16 ones are when they are multiplied with 64,
// down to 2^-20; others are two halves as well, of which the product of the second ones is left out. Sums in f32.
// Weights above 1023, unless f16, overflow.
//
// Native only: WGSL has no cooperative matrices, this is naga's dialect of them. Subgroups of 32. A workgroup has 8
// subgroups in 4 x 2, each with 32 tokens x 64 columns of out, and takes DEPTH of the depth at a time: with two SLOTS,
// what comes next is stored beside what is multiplied, so that one barrier is enough, and what comes after it is on its
// way. epilogue: 0 none; 1 + residual; 2 + what result holds.
enable f16;
enable wgpu_cooperative_matrix;

override BACKWARD: bool = false;
override FORMAT: u32 = 0; // 0 ternary, 1 f32, 2 f16, 3 bf16, 4 q8_0, 5 q6_k, 6 q4_k
override HALVES: u32 = 1; // of a weight
override SLOTS: u32 = 2;  // 1 or 2

struct P {
    rows: u32,
    cols: u32,
    row_vectors: u32,
    count_word: u32,
    max_tokens: u32,
    x_first: u32,
    x_stride: u32,
    result_first: u32,
    result_stride: u32,
    residual_first: u32,
    residual_stride: u32,
    epilogue: u32,
    depth_of_part: u32, // a multiple of DEPTH
    part_stride: u32,
    row_scales: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> factors: array<f32>;
@group(0) @binding(4) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> residual: array<f32>;
@group(0) @binding(6) var<storage, read_write> result: array<f32>;

const DEPTH = 16u;
// Rows of the tiles, in vec4, with a pad against bank conflicts: SHORT for DEPTH floats (x, and weights unless
// BACKWARD), LONG for 128 (weights of BACKWARD).
const SHORT = 6u;
const LONG = 34u;
const X_TILE = 128u * SHORT;
override W_TILE: u32 = select(128u * SHORT, DEPTH * LONG, BACKWARD);
override SLOT: u32 = 2u * X_TILE + HALVES * W_TILE; // first and second halves of x, of weights
var<workgroup> tile: array<vec4<f16>, SLOTS * SLOT>;
var<workgroup> sums: array<f32, 8 * 256>; // 16 x 16 for each subgroup
// No other workgroup memory: matrices must start at a multiple of 16 bytes, and drivers place small variables in front.

// Of a vector, the words of byte `byte` and the next: byte is a multiple of 8.
fn pair_at(row: u32, byte: u32) -> vec2<u32> {
    let v = weights[row + byte / 16u];
    return select(v.xy, v.zw, (byte & 8u) != 0u);
}

fn word_at(row: u32, byte: u32) -> u32 {
    return weights[row + byte / 16u][byte / 4u % 4u];
}

fn half_at(row: u32, byte: u32) -> f32 {
    let pair = unpack2x16float(word_at(row, byte));
    return select(pair.x, pair.y, (byte & 2u) != 0u);
}

// The bytes of a word, the lowest first. (unpack4xU8 would become 8-bit integers in SPIR-V, which not every device
// has.)
fn bytes(v: u32) -> vec4<f32> {
    return vec4<f32>((vec4<u32>(v) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u));
}

fn signed_bytes(v: u32) -> vec4<f32> {
    return vec4<f32>((vec4<i32>(bitcast<i32>(v)) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u));
}

fn unsigned_bytes(v: vec2<u32>) -> mat2x4<f32> {
    return mat2x4<f32>(bytes(v.x), bytes(v.y));
}

fn minus(m: mat2x4<f32>, v: f32) -> mat2x4<f32> {
    return mat2x4<f32>(m[0] - vec4<f32>(v), m[1] - vec4<f32>(v));
}

fn q8_0(row: u32, c: u32) -> mat2x4<f32> {
    let v = pair_at(row, c);
    return mat2x4<f32>(signed_bytes(v.x), signed_bytes(v.y)) * half_at(row, p.cols + c / 32u * 2u);
}

fn q6_k(row: u32, c: u32) -> mat2x4<f32> {
    let block = c / 256u * 208u;
    let side = c % 256u / 128u;
    let part = c % 128u / 32u;
    let nibbles = pair_at(row, block + side * 64u + part % 2u * 32u + c % 32u) >> vec2<u32>(part / 2u * 4u);
    let low = nibbles & vec2<u32>(0x0f0f0f0fu);
    let high = (pair_at(row, block + 128u + side * 32u + c % 32u) >> vec2<u32>(part * 2u)) & vec2<u32>(0x03030303u);
    let scales = word_at(row, block + 192u + c % 256u / 16u);
    let scale = extractBits(bitcast<i32>(scales), c / 16u % 4u * 8u, 8u);
    let d = half_at(row, p.cols / 256u * 208u + c / 256u * 2u);
    return minus(unsigned_bytes(low | (high << vec2<u32>(4u))), 32.0) * (d * f32(scale));
}

fn q4_k(row: u32, c: u32) -> mat2x4<f32> {
    let block = c / 256u * 144u;
    let group = c % 256u / 32u;
    let head = weights[row + block / 16u];
    let shift = group % 4u * 8u;
    var scale = (head.y >> shift) & 63u;
    var least = (head.z >> shift) & 63u;
    if (group >= 4u) {
        scale = ((head.w >> shift) & 15u) | (((head.y >> (shift + 6u)) & 3u) << 4u);
        least = ((head.w >> (shift + 4u)) & 15u) | (((head.z >> (shift + 6u)) & 3u) << 4u);
    }
    let nibbles = pair_at(row, block + 16u + group / 2u * 32u + c % 32u) >> vec2<u32>(group % 2u * 4u);
    let values = unsigned_bytes(nibbles & vec2<u32>(0x0f0f0f0fu));
    let ds = unpack2x16float(head.x);
    return minus(values * (ds.x * f32(scale)), ds.y * f32(least));
}

// What an invocation fetches for one step: two vectors of x, of tokens 64 apart, with the scales of the weights' rows
// that they meet; eight columns of a row of weights, or, of ternary ones, a word.
struct Step {
    x0: vec4<f32>,
    x1: vec4<f32>,
    scales: vec4<f32>,
    low: vec4<u32>,
    high: vec4<u32>,
}

// Columns c .. c + 7 of the row that starts at vector `row`, c a multiple of 8: f32, f16 and bf16 as they lie, others
// decoded, so that nothing waits for what is not needed yet.
fn fetch_eight(row: u32, c: u32, step: ptr<function, Step>) {
    if (FORMAT == 2u || FORMAT == 3u) {
        (*step).low = weights[row + c / 8u];
    } else if (FORMAT == 1u) {
        (*step).low = weights[row + c / 4u];
        if (c + 4u < p.cols) {
            (*step).high = weights[row + c / 4u + 1u];
        }
    } else {
        var values = mat2x4<f32>();
        switch (FORMAT) {
            case 4u: { values = q8_0(row, c); }
            case 5u: { values = q6_k(row, c); }
            default: { values = q4_k(row, c); }
        }
        (*step).low = bitcast<vec4<u32>>(values[0]);
        (*step).high = bitcast<vec4<u32>>(values[1]);
    }
}

fn eight(step: Step) -> mat2x4<f32> {
    let v = step.low;
    if (FORMAT == 2u) {
        return mat2x4<f32>(vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y)),
                           vec4<f32>(unpack2x16float(v.z), unpack2x16float(v.w)));
    }
    if (FORMAT == 3u) {
        let even = bitcast<vec4<f32>>(v << vec4<u32>(16u));
        let odd = bitcast<vec4<f32>>(v & vec4<u32>(0xffff0000u));
        return mat2x4<f32>(vec4<f32>(even.x, odd.x, even.y, odd.y), vec4<f32>(even.z, odd.z, even.w, odd.w));
    }
    return mat2x4<f32>(bitcast<vec4<f32>>(v), bitcast<vec4<f32>>(step.high));
}

// The leading 11 bits, and what is left.
fn store_two(at: u32, far: u32, v: vec4<f32>) {
    let first = bitcast<vec4<f32>>(bitcast<vec4<u32>>(v) & vec4<u32>(0xffffe000u));
    tile[at] = vec4<f16>(first);
    tile[at + far] = vec4<f16>(v - first);
}

// --- x

fn fetch_x(first_token: u32, at: u32, i: u32, local: u32) -> vec4<f32> {
    let t = min(first_token + (local >> 2u) + 64u * i, p.max_tokens - 1u);
    return x[p.x_first + t * p.x_stride + at / 4u];
}

fn store_x(slot: u32, i: u32, local: u32, v: vec4<f32>) {
    store_two(slot + ((local >> 2u) + 64u * i) * SHORT + (local & 3u), X_TILE, v);
}

// --- weights

// Half a word of codes: two quarters of a group's 128 columns, four columns of each.
fn fetch_codes(first_col: u32, k: u32, end: u32, local: u32) -> u32 {
    let row = k + (local >> 4u);
    var word = 0x55555555u; // codes of 0
    if (row < end) {
        word = weights[row * p.row_vectors + first_col / 64u + ((local & 15u) >> 3u)][(local >> 1u) & 3u];
    }
    return word >> (4u - (local & 1u) * 4u);
}

// Four codes - 1, one in each byte.
fn code_halves(v: u32) -> vec4<f16> {
    return vec4<f16>(bytes(v & 0x03030303u) - vec4<f32>(1.0));
}

fn store_codes(slot: u32, local: u32, word: u32) {
    let at = slot + 2u * X_TILE + (local >> 4u) * LONG + (local & 1u) * 16u + ((local & 15u) >> 1u);
    tile[at] = code_halves(word >> 2u);
    tile[at + 8u] = code_halves(word);
}

fn store_four(at: u32, v: vec4<f32>) {
    if (FORMAT == 2u) {
        tile[at] = vec4<f16>(v);
    } else if (HALVES == 1u) {
        tile[at] = vec4<f16>(64.0 * v);
    } else {
        store_two(at, W_TILE, 64.0 * v);
    }
}

fn store_w(slot: u32, local: u32, values: mat2x4<f32>) {
    var at = slot + 2u * X_TILE;
    if (BACKWARD) {
        at += (local >> 4u) * LONG + (local & 15u) * 2u;
    } else {
        at += (local >> 1u) * SHORT + (local & 1u) * 2u;
    }
    store_four(at, values[0]);
    store_four(at + 1u, values[1]);
}

// --- steps

fn fetch_w(first_col: u32, k: u32, end: u32, local: u32, step: ptr<function, Step>) {
    if (BACKWARD) {
        let row = k + (local >> 4u);
        let c = first_col + (local & 15u) * 8u;
        if (row < end && c < p.cols) {
            fetch_eight(row * p.row_vectors, c, step);
        }
    } else {
        let row = min(first_col + (local >> 1u), p.rows - 1u);
        let c = k + (local & 1u) * 8u;
        if (c < end) {
            fetch_eight(row * p.row_vectors, c, step);
        }
    }
}

fn fetch(first_token: u32, first_col: u32, k: u32, end: u32, local: u32) -> Step {
    var step = Step();
    let at = k + (local & 3u) * 4u;
    if (at < end) {
        step.x0 = fetch_x(first_token, at, 0u, local);
        step.x1 = fetch_x(first_token, at, 1u, local);
    }
    if (FORMAT == 0u) {
        step.scales = vec4<f32>(1.0);
        if (p.row_scales != 0u && at < end) {
            step.scales = bitcast<vec4<f32>>(weights[(p.row_scales + at) / 4u]);
        }
        step.low.x = fetch_codes(first_col, k, end, local);
    } else {
        fetch_w(first_col, k, end, local, &step);
    }
    return step;
}

fn store(slot: u32, local: u32, factor0: f32, factor1: f32, step: Step) {
    if (FORMAT == 0u) {
        store_x(slot, 0u, local, step.x0 * step.scales * factor0);
        store_x(slot, 1u, local, step.x1 * step.scales * factor1);
        store_codes(slot, local, step.low.x);
    } else {
        store_x(slot, 0u, local, step.x0 * factor0);
        store_x(slot, 1u, local, step.x1 * factor1);
        store_w(slot, local, eight(step));
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let first_token = group.y * 128u;
    let first_col = group.x * 128u;
    let start = group.z * p.depth_of_part;
    let end = min(start + p.depth_of_part, select(p.cols, p.rows, BACKWARD));
    let token = first_token + (local >> 2u);
    let factor0 = factors[min(token, p.max_tokens - 1u)];
    let factor1 = factors[min(token + 64u, p.max_tokens - 1u)];

    let subgroup = local >> 5u;
    let a_first = (subgroup >> 1u) * 32u * SHORT;
    let b_first = 2u * X_TILE + select((subgroup & 1u) * 64u * SHORT, (subgroup & 1u) * 16u, BACKWARD);
    var c00 = coop_mat16x16<f32, C>();
    var c01 = coop_mat16x16<f32, C>();
    var c02 = coop_mat16x16<f32, C>();
    var c03 = coop_mat16x16<f32, C>();
    var c10 = coop_mat16x16<f32, C>();
    var c11 = coop_mat16x16<f32, C>();
    var c12 = coop_mat16x16<f32, C>();
    var c13 = coop_mat16x16<f32, C>();

    var next = fetch(first_token, first_col, start, end, local);
    var later = fetch(first_token, first_col, start + DEPTH, end, local);
    var slot = 0u; // what is multiplied
    if (SLOTS == 2u) {
        store(0u, local, factor0, factor1, next);
        next = later;
        later = fetch(first_token, first_col, start + 2u * DEPTH, end, local);
    }
    for (var k = start; k < end; k += DEPTH) {
        workgroupBarrier();
        if (SLOTS == 1u) {
            store(0u, local, factor0, factor1, next);
            next = later;
            later = fetch(first_token, first_col, k + 2u * DEPTH, end, local);
            workgroupBarrier();
        }
        let a_at = slot + a_first;
        let b_at = slot + b_first;
        let a0 = coopLoadT<coop_mat16x16<f16, A>>(&tile[a_at], SHORT);
        let a1 = coopLoadT<coop_mat16x16<f16, A>>(&tile[a_at + 16u * SHORT], SHORT);
        let d0 = coopLoadT<coop_mat16x16<f16, A>>(&tile[a_at + X_TILE], SHORT);
        let d1 = coopLoadT<coop_mat16x16<f16, A>>(&tile[a_at + X_TILE + 16u * SHORT], SHORT);
        var b0 = coop_mat16x16<f16, B>();
        var b1 = coop_mat16x16<f16, B>();
        var b2 = coop_mat16x16<f16, B>();
        var b3 = coop_mat16x16<f16, B>();
        if (BACKWARD) {
            let at = b_at;
            b0 = coopLoadT<coop_mat16x16<f16, B>>(&tile[at], LONG);
            b1 = coopLoadT<coop_mat16x16<f16, B>>(&tile[at + 4u], LONG);
            b2 = coopLoadT<coop_mat16x16<f16, B>>(&tile[at + 8u], LONG);
            b3 = coopLoadT<coop_mat16x16<f16, B>>(&tile[at + 12u], LONG);
        } else {
            let at = b_at;
            b0 = coopLoad<coop_mat16x16<f16, B>>(&tile[at], SHORT);
            b1 = coopLoad<coop_mat16x16<f16, B>>(&tile[at + 16u * SHORT], SHORT);
            b2 = coopLoad<coop_mat16x16<f16, B>>(&tile[at + 32u * SHORT], SHORT);
            b3 = coopLoad<coop_mat16x16<f16, B>>(&tile[at + 48u * SHORT], SHORT);
        }
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
            if (BACKWARD) {
                let at = b_at + W_TILE;
                b0 = coopLoadT<coop_mat16x16<f16, B>>(&tile[at], LONG);
                b1 = coopLoadT<coop_mat16x16<f16, B>>(&tile[at + 4u], LONG);
                b2 = coopLoadT<coop_mat16x16<f16, B>>(&tile[at + 8u], LONG);
                b3 = coopLoadT<coop_mat16x16<f16, B>>(&tile[at + 12u], LONG);
            } else {
                let at = b_at + W_TILE;
                b0 = coopLoad<coop_mat16x16<f16, B>>(&tile[at], SHORT);
                b1 = coopLoad<coop_mat16x16<f16, B>>(&tile[at + 16u * SHORT], SHORT);
                b2 = coopLoad<coop_mat16x16<f16, B>>(&tile[at + 32u * SHORT], SHORT);
                b3 = coopLoad<coop_mat16x16<f16, B>>(&tile[at + 48u * SHORT], SHORT);
            }
            c00 = coopMultiplyAdd(a0, b0, c00);
            c01 = coopMultiplyAdd(a0, b1, c01);
            c02 = coopMultiplyAdd(a0, b2, c02);
            c03 = coopMultiplyAdd(a0, b3, c03);
            c10 = coopMultiplyAdd(a1, b0, c10);
            c11 = coopMultiplyAdd(a1, b1, c11);
            c12 = coopMultiplyAdd(a1, b2, c12);
            c13 = coopMultiplyAdd(a1, b3, c13);
        }
        if (SLOTS == 2u) {
            slot = SLOT - slot;
            store(slot, local, factor0, factor1, next);
            next = later;
            later = fetch(first_token, first_col, k + 3u * DEPTH, end, local);
        }
    }

    // 16 x 16 sums at a time go through the subgroup's share of workgroup memory
    let at = Place(local, first_token + (subgroup >> 1u) * 32u, first_col + (subgroup & 1u) * 64u,
                   params[p.count_word], group.z * p.part_stride);
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

// Where a subgroup's sums go: its first token and column.
struct Place {
    local: u32,
    token: u32,
    col: u32,
    count: u32,
    part: u32,
}

fn put(to: Place, m: u32, n: u32) {
    let c = to.col + n + (to.local & 15u);
    for (var i = 0u; i < 8u; i++) {
        let t = to.token + m + 2u * i + ((to.local >> 4u) & 1u);
        if (t < to.count && c < select(p.rows, p.cols, BACKWARD)) {
            // one over a power of two
            let inverse = bitcast<f32>(0x7f000000u - bitcast<u32>(factors[t]));
            let units = select(p.scale / 64.0, p.scale, FORMAT == 0u || FORMAT == 2u);
            var y = sums[(to.local >> 5u) * 256u + i * 32u + (to.local & 31u)] * inverse * units;
            let at = to.part + p.result_first + t * p.result_stride + c;
            if (p.epilogue == 1u) {
                y += residual[p.residual_first + t * p.residual_stride + c];
            } else if (p.epilogue == 2u) {
                y += result[at];
            }
            result[at] = y;
        }
    }
}
