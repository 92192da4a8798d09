// LINEAR (src/ops/op.h) for many tokens, dense weights: out[t][r] = sum_c w[r][c] x[t][c], then the epilogue. Sums in
// f32.
//
//   groups     (ceil(rows / 8 / ROW_THREADS), ceil(most tokens / 8 / TOKEN_THREADS), runs of cols_of_part columns)
//   params     word count_word holds the number of tokens
//   x          [tokens] rows of cols floats, from vector x_first, x_stride vectors apart; cols is a multiple of 4
//   weights    [rows] rows of row_vectors vectors of 16 bytes, as src/backend/gpu/gpu.h lays them out; values past cols
//              are zero
//   residual   [tokens] rows, read when epilogue is 1
//   result     [tokens] rows; row r of the slice is column result_first + r; part_stride floats further for each run
//
// A workgroup makes a tile of 8 ROW_THREADS rows and 8 TOKEN_THREADS tokens, an invocation 8 x 8 of it: four and four
// rows (and tokens) half a tile apart, so that neighbours read neighbouring vectors. Weights are decoded once, into
// workgroup memory, COLUMNS at a time. epilogue: 0 none; 1 + residual; 2 + what result holds; 3 to 5 times relu2,
// silu, gelu of what result holds.
override FORMAT: u32 = 2; // 1 f32, 2 f16, 3 bf16, 4 q8_0, 5 q6_k, 6 q4_k
override ROW_THREADS: u32 = 16;
override TOKEN_THREADS: u32 = 8;

const COLUMNS: u32 = 16u;
override X_STRIDE: u32 = 2u * TOKEN_THREADS + 1u; // a pad against bank conflicts

struct P {
    rows: u32,
    cols: u32,
    row_vectors: u32,
    count_word: u32,
    max_tokens: u32, // not used
    x_first: u32,
    x_stride: u32,
    result_first: u32,
    result_stride: u32,
    residual_first: u32,
    residual_stride: u32,
    epilogue: u32,
    cols_of_part: u32, // a multiple of COLUMNS
    part_stride: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> residual: array<f32>;
@group(0) @binding(5) var<storage, read_write> result: array<f32>;

var<workgroup> n_tokens: u32;
// [COLUMNS][rows / 4], [COLUMNS][tokens / 4]
var<workgroup> w_tile: array<vec4<f32>, COLUMNS * 2u * ROW_THREADS>;
var<workgroup> x_tile: array<vec4<f32>, COLUMNS * X_STRIDE>;

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

// Columns c .. c + 7 of the row that starts at vector `row`, c a multiple of 8.
fn eight(row: u32, c: u32) -> mat2x4<f32> {
    switch (FORMAT) {
        case 1u: { return f32s(row, c); }
        case 2u: { return f16s(row, c); }
        case 3u: { return bf16s(row, c); }
        case 4u: { return q8_0(row, c); }
        case 5u: { return q6_k(row, c); }
        default: { return q4_k(row, c); }
    }
}

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

fn finish(t: u32, row: u32, part: u32, sum: f32) {
    let at = part + p.result_first + t * p.result_stride + row;
    if (p.epilogue == 0u) {
        result[at] = sum;
    } else if (p.epilogue == 1u) {
        result[at] = residual[p.residual_first + t * p.residual_stride + row] + sum;
    } else {
        let held = result[at];
        if (p.epilogue == 2u) {
            result[at] = held + sum;
        } else if (p.epilogue == 3u) {
            let positive = select(0.0, held, held > 0.0);
            result[at] = positive * positive * sum;
        } else if (p.epilogue == 4u) {
            result[at] = silu(held) * sum;
        } else {
            result[at] = gelu(held) * sum;
        }
    }
}

fn load_weights(first: u32, c: u32, local: u32) {
    let tile = 8u * ROW_THREADS;
    for (var i = local; i < tile * COLUMNS / 8u; i += ROW_THREADS * TOKEN_THREADS) {
        let row = i % tile;
        let piece = i / tile * 8u;
        var values = mat2x4<f32>();
        if (c + piece < p.cols) {
            values = eight(min(first + row, p.rows - 1u) * p.row_vectors, c + piece);
        }
        let at = piece * (tile / 4u) + row / 4u;
        w_tile[at][row % 4u] = values[0].x;
        w_tile[at + tile / 4u][row % 4u] = values[0].y;
        w_tile[at + tile / 2u][row % 4u] = values[0].z;
        w_tile[at + tile / 4u * 3u][row % 4u] = values[0].w;
        w_tile[at + tile][row % 4u] = values[1].x;
        w_tile[at + tile / 4u * 5u][row % 4u] = values[1].y;
        w_tile[at + tile / 2u * 3u][row % 4u] = values[1].z;
        w_tile[at + tile / 4u * 7u][row % 4u] = values[1].w;
    }
}

fn load_x(first: u32, count: u32, c: u32, local: u32) {
    for (var i = local; i < 2u * TOKEN_THREADS * COLUMNS; i += ROW_THREADS * TOKEN_THREADS) {
        let token = i / (COLUMNS / 4u);
        let four = i % (COLUMNS / 4u) * 4u;
        var values = vec4<f32>();
        if (c + four < p.cols) {
            values = x[p.x_first + min(first + token, count - 1u) * p.x_stride + (c + four) / 4u];
        }
        let at = four * X_STRIDE + token / 4u;
        x_tile[at][token % 4u] = values.x;
        x_tile[at + X_STRIDE][token % 4u] = values.y;
        x_tile[at + 2u * X_STRIDE][token % 4u] = values.z;
        x_tile[at + 3u * X_STRIDE][token % 4u] = values.w;
    }
}

fn finish_four(t: u32, count: u32, row: u32, part: u32, sums: vec4<f32>) {
    if (t >= count) {
        return;
    }
    for (var i = 0u; i < 4u; i++) {
        if (row + i < p.rows) {
            finish(t, row + i, part, sums[i]);
        }
    }
}

@compute @workgroup_size(ROW_THREADS * TOKEN_THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    if (local == 0u) {
        n_tokens = params[p.count_word];
    }
    let count = workgroupUniformLoad(&n_tokens);
    let first_row = group.x * 8u * ROW_THREADS;
    let first_token = group.y * 8u * TOKEN_THREADS;
    if (first_token >= count) {
        return;
    }
    let row_thread = local % ROW_THREADS;
    let token_thread = local / ROW_THREADS;
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
    let first_col = group.z * p.cols_of_part;
    let end = min(first_col + p.cols_of_part, p.cols);
    for (var c = first_col; c < end; c += COLUMNS) {
        load_weights(first_row, c, local);
        load_x(first_token, count, c, local);
        workgroupBarrier();
        for (var k = 0u; k < COLUMNS; k++) {
            let w0 = w_tile[k * 2u * ROW_THREADS + row_thread];
            let w1 = w_tile[k * 2u * ROW_THREADS + ROW_THREADS + row_thread];
            let x0 = x_tile[k * X_STRIDE + token_thread];
            let x1 = x_tile[k * X_STRIDE + TOKEN_THREADS + token_thread];
            low0 += w0 * x0.x;
            high0 += w1 * x0.x;
            low1 += w0 * x0.y;
            high1 += w1 * x0.y;
            low2 += w0 * x0.z;
            high2 += w1 * x0.z;
            low3 += w0 * x0.w;
            high3 += w1 * x0.w;
            low4 += w0 * x1.x;
            high4 += w1 * x1.x;
            low5 += w0 * x1.y;
            high5 += w1 * x1.y;
            low6 += w0 * x1.z;
            high6 += w1 * x1.z;
            low7 += w0 * x1.w;
            high7 += w1 * x1.w;
        }
        workgroupBarrier();
    }
    let row = first_row + 4u * row_thread;
    let part = group.z * p.part_stride;
    let t = first_token + 4u * token_thread;
    finish_four(t + 0u, count, row, part, low0);
    finish_four(t + 0u, count, row + 4u * ROW_THREADS, part, high0);
    finish_four(t + 1u, count, row, part, low1);
    finish_four(t + 1u, count, row + 4u * ROW_THREADS, part, high1);
    finish_four(t + 2u, count, row, part, low2);
    finish_four(t + 2u, count, row + 4u * ROW_THREADS, part, high2);
    finish_four(t + 3u, count, row, part, low3);
    finish_four(t + 3u, count, row + 4u * ROW_THREADS, part, high3);
    finish_four(t + 4u * TOKEN_THREADS + 0u, count, row, part, low4);
    finish_four(t + 4u * TOKEN_THREADS + 0u, count, row + 4u * ROW_THREADS, part, high4);
    finish_four(t + 4u * TOKEN_THREADS + 1u, count, row, part, low5);
    finish_four(t + 4u * TOKEN_THREADS + 1u, count, row + 4u * ROW_THREADS, part, high5);
    finish_four(t + 4u * TOKEN_THREADS + 2u, count, row, part, low6);
    finish_four(t + 4u * TOKEN_THREADS + 2u, count, row + 4u * ROW_THREADS, part, high6);
    finish_four(t + 4u * TOKEN_THREADS + 3u, count, row, part, low7);
    finish_four(t + 4u * TOKEN_THREADS + 3u, count, row + 4u * ROW_THREADS, part, high7);
}
