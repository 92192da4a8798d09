// LINEAR_DX (src/ops/op.h): out[t][c] = sum_r dy[t][r] w[r][c], then the epilogue. Sums in f32.
//
//   groups     (ceil(cols / 8 / COL_THREADS), ceil(most tokens / 8 / TOKEN_THREADS), runs of rows_of_part rows)
//   params     word count_word holds the number of tokens
//   dy         [tokens] rows of `rows` floats, from vector dy_first, dy_stride vectors apart; zeros up to a whole
//              vector
//   weights    [rows] rows of row_vectors vectors of 16 bytes, as src/backend/gpu/gpu.h lays them out; values past cols
//              are zero. Ternary ones: times `scale`, or row scales from word row_scales where that is not 0
//   residual   [tokens] rows of residual_stride floats, read when epilogue is 1
//   result     [tokens] rows of result_stride floats, part_stride floats further for each run of rows
//
// A workgroup makes a tile of 8 TOKEN_THREADS tokens and 8 COL_THREADS columns, an invocation 8 x 8 of it: four and
// four tokens (and columns) half a tile apart, so that neighbours read neighbouring vectors. It takes DEPTH rows at a
// time; the next ones are fetched into registers while these are multiplied, unless they are many. epilogue: 0 none;
// 1 + residual; 2 + what result holds.
override FORMAT: u32 = 0; // 0 ternary, 1 f32, 2 f16, 3 bf16, 4 q8_0, 5 q6_k, 6 q4_k
override TOKEN_THREADS: u32 = 16; // no other
override COL_THREADS: u32 = 8;

const DEPTH: u32 = 16u;
override DY_LOADS: u32 = 2u * DEPTH / COL_THREADS; // vectors, of an invocation, besides eight columns of weights
override DY_STRIDE: u32 = 2u * TOKEN_THREADS + 1u; // a pad against bank conflicts

struct P {
    rows: u32,
    cols: u32,
    row_vectors: u32,
    count_word: u32,
    max_tokens: u32,
    dy_first: u32,
    dy_stride: u32,
    result_first: u32,
    result_stride: u32,
    residual_first: u32,
    residual_stride: u32,
    epilogue: u32,
    rows_of_part: u32, // a multiple of DEPTH
    part_stride: u32,
    row_scales: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> dy: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> residual: array<f32>;
@group(0) @binding(5) var<storage, read_write> result: array<f32>;

// [DEPTH][tokens / 4], [DEPTH][columns / 4]
var<workgroup> dy_tile: array<vec4<f32>, DEPTH * DY_STRIDE>;
var<workgroup> w_tile: array<vec4<f32>, DEPTH * 2u * COL_THREADS>;

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

fn f32s(row: u32, c: u32) -> mat2x4<f32> {
    let low = weights[row + c / 4u];
    var high = vec4<u32>();
    if (c + 4u < p.cols) {
        high = weights[row + c / 4u + 1u];
    }
    return mat2x4<f32>(bitcast<vec4<f32>>(low), bitcast<vec4<f32>>(high));
}

fn f16s(row: u32, c: u32) -> mat2x4<f32> {
    let v = weights[row + c / 8u];
    let low = vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
    return mat2x4<f32>(low, vec4<f32>(unpack2x16float(v.z), unpack2x16float(v.w)));
}

fn bf16s(row: u32, c: u32) -> mat2x4<f32> {
    let v = weights[row + c / 8u];
    let even = bitcast<vec4<f32>>(v << vec4<u32>(16u));
    let odd = bitcast<vec4<f32>>(v & vec4<u32>(0xffff0000u));
    return mat2x4<f32>(even.x, odd.x, even.y, odd.y, even.z, odd.z, even.w, odd.w);
}

// Four codes - 1, one in each byte.
fn codes(v: u32) -> vec4<f32> {
    return bytes(v & 0x03030303u) - vec4<f32>(1.0);
}

fn ternary(row: u32, c: u32, r: u32) -> mat2x4<f32> {
    let words = pair_at(row, c / 128u * 32u + c % 32u) >> vec2<u32>(6u - c % 128u / 32u * 2u);
    let values = mat2x4<f32>(codes(words.x), codes(words.y));
    if (p.row_scales == 0u) {
        return values;
    }
    let word = p.row_scales + r;
    return values * bitcast<f32>(weights[word / 4u][word % 4u]);
}

// Columns c .. c + 7 of row r, c a multiple of 8.
fn eight(r: u32, c: u32) -> mat2x4<f32> {
    let row = r * p.row_vectors;
    switch (FORMAT) {
        case 0u: { return ternary(row, c, r); }
        case 1u: { return f32s(row, c); }
        case 2u: { return f16s(row, c); }
        case 3u: { return bf16s(row, c); }
        case 4u: { return q8_0(row, c); }
        case 5u: { return q6_k(row, c); }
        default: { return q4_k(row, c); }
    }
}

fn fetch_dy(first: u32, r: u32, end: u32, i: u32) -> vec4<f32> {
    let at = r + i % 4u * 4u;
    var values = vec4<f32>();
    if (at < end) {
        values = dy[p.dy_first + min(first + i / 4u, p.max_tokens - 1u) * p.dy_stride + at / 4u];
    }
    return values;
}

fn store_dy(i: u32, values: vec4<f32>) {
    let at = i % 4u * 4u * DY_STRIDE + i / 16u;
    let lane = i / 4u % 4u;
    dy_tile[at][lane] = values.x;
    dy_tile[at + DY_STRIDE][lane] = values.y;
    dy_tile[at + 2u * DY_STRIDE][lane] = values.z;
    dy_tile[at + 3u * DY_STRIDE][lane] = values.w;
}

fn fetch_w(first: u32, r: u32, end: u32, i: u32) -> mat2x4<f32> {
    let row = r + i / COL_THREADS;
    let c = first + i % COL_THREADS * 8u;
    var values = mat2x4<f32>();
    if (row < end && c < p.cols) {
        values = eight(row, c);
    }
    return values;
}

fn store_w(i: u32, values: mat2x4<f32>) {
    let at = i / COL_THREADS * 2u * COL_THREADS + i % COL_THREADS * 2u;
    w_tile[at] = values[0];
    w_tile[at + 1u] = values[1];
}

fn finish(t: u32, c: u32, sum: f32) {
    let at = p.result_first + t * p.result_stride + c;
    if (p.epilogue == 0u) {
        result[at] = sum;
    } else if (p.epilogue == 1u) {
        result[at] = residual[p.residual_first + t * p.residual_stride + c] + sum;
    } else {
        result[at] += sum;
    }
}

fn finish_four(t: u32, count: u32, c: u32, part: u32, sums: vec4<f32>) {
    if (t >= count) {
        return;
    }
    for (var i = 0u; i < 4u; i++) {
        if (c + i < p.cols) {
            finish(t, c + i + part, select(sums[i], sums[i] * p.scale, FORMAT == 0u));
        }
    }
}

@compute @workgroup_size(TOKEN_THREADS * COL_THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let first_col = group.x * 8u * COL_THREADS;
    let first_token = group.y * 8u * TOKEN_THREADS;
    let first_row = group.z * p.rows_of_part;
    let end = min(first_row + p.rows_of_part, p.rows);
    let step = TOKEN_THREADS * COL_THREADS;
    let col_thread = local % COL_THREADS;
    let token_thread = local / COL_THREADS;
    var y0 = vec4<f32>();
    var y1 = vec4<f32>();
    var y2 = vec4<f32>();
    var y3 = vec4<f32>();
    if (DY_LOADS <= 4u) {
        y0 = fetch_dy(first_token, first_row, end, local);
        y1 = fetch_dy(first_token, first_row, end, local + step);
    }
    if (DY_LOADS == 4u) {
        y2 = fetch_dy(first_token, first_row, end, local + 2u * step);
        y3 = fetch_dy(first_token, first_row, end, local + 3u * step);
    }
    var w0 = fetch_w(first_col, first_row, end, local);
    var low0 = vec4<f32>();
    var high0 = vec4<f32>();
    var low1 = vec4<f32>();
    var high1 = vec4<f32>();
    var low2 = vec4<f32>();
    var high2 = vec4<f32>();
    var low3 = vec4<f32>();
    var high3 = vec4<f32>();
    var low4 = vec4<f32>();
    var high4 = vec4<f32>();
    var low5 = vec4<f32>();
    var high5 = vec4<f32>();
    var low6 = vec4<f32>();
    var high6 = vec4<f32>();
    var low7 = vec4<f32>();
    var high7 = vec4<f32>();
    for (var r = first_row; r < end; r += DEPTH) {
        workgroupBarrier();
        if (DY_LOADS <= 4u) {
            store_dy(local, y0);
            store_dy(local + step, y1);
        } else {
            for (var i = 0u; i < DY_LOADS; i++) { // unroll
                store_dy(local + i * step, fetch_dy(first_token, r, end, local + i * step));
            }
        }
        if (DY_LOADS == 4u) {
            store_dy(local + 2u * step, y2);
            store_dy(local + 3u * step, y3);
        }
        store_w(local, w0);
        workgroupBarrier();
        if (DY_LOADS <= 4u) {
            y0 = fetch_dy(first_token, r + DEPTH, end, local);
            y1 = fetch_dy(first_token, r + DEPTH, end, local + step);
        }
        if (DY_LOADS == 4u) {
            y2 = fetch_dy(first_token, r + DEPTH, end, local + 2u * step);
            y3 = fetch_dy(first_token, r + DEPTH, end, local + 3u * step);
        }
        w0 = fetch_w(first_col, r + DEPTH, end, local);
        for (var k = 0u; k < DEPTH; k++) {
            let v0 = w_tile[k * 2u * COL_THREADS + col_thread];
            let v1 = w_tile[k * 2u * COL_THREADS + COL_THREADS + col_thread];
            let d0 = dy_tile[k * DY_STRIDE + token_thread];
            let d1 = dy_tile[k * DY_STRIDE + TOKEN_THREADS + token_thread];
            low0 += v0 * d0.x;
            high0 += v1 * d0.x;
            low1 += v0 * d0.y;
            high1 += v1 * d0.y;
            low2 += v0 * d0.z;
            high2 += v1 * d0.z;
            low3 += v0 * d0.w;
            high3 += v1 * d0.w;
            low4 += v0 * d1.x;
            high4 += v1 * d1.x;
            low5 += v0 * d1.y;
            high5 += v1 * d1.y;
            low6 += v0 * d1.z;
            high6 += v1 * d1.z;
            low7 += v0 * d1.w;
            high7 += v1 * d1.w;
        }
    }
    let count = params[p.count_word];
    let part = group.z * p.part_stride;
    let c = first_col + 4u * col_thread;
    let far = c + 4u * COL_THREADS;
    let t = first_token + 4u * token_thread;
    let late = t + 4u * TOKEN_THREADS;
    finish_four(t, count, c, part, low0);
    finish_four(t, count, far, part, high0);
    finish_four(t + 1u, count, c, part, low1);
    finish_four(t + 1u, count, far, part, high1);
    finish_four(t + 2u, count, c, part, low2);
    finish_four(t + 2u, count, far, part, high2);
    finish_four(t + 3u, count, c, part, low3);
    finish_four(t + 3u, count, far, part, high3);
    finish_four(late, count, c, part, low4);
    finish_four(late, count, far, part, high4);
    finish_four(late + 1u, count, c, part, low5);
    finish_four(late + 1u, count, far, part, high5);
    finish_four(late + 2u, count, c, part, low6);
    finish_four(late + 2u, count, far, part, high6);
    finish_four(late + 3u, count, c, part, low7);
    finish_four(late + 3u, count, far, part, high7);
}
