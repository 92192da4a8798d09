// LINEAR_DW (src/ops/op.h): dw[r][c] += sum_t dy[t][r] x[t][c]. Sums in f32.
//
//   groups     (ceil(cols / 8 / COL_THREADS), ceil(rows / 8 / ROW_THREADS), runs of tokens_of_part tokens)
//   params     word count_word holds the number of tokens
//   dy         [tokens] rows, from vector dy_first, dy_stride vectors apart; `rows` floats of each
//   x          [tokens] rows, from vector x_first, x_stride vectors apart; `cols` floats of each
//   q          Q8, instead of x: int8 rows of x_stride words, inverse scales at word scales_word, which dy is
//              multiplied with
//   result     [rows][cols] floats to add to; where there are several runs: to write, part_stride floats apart
//
// A workgroup makes a tile of 8 ROW_THREADS rows and 8 COL_THREADS columns, an invocation 8 x 8 of it: four and four
// rows (and columns) half a tile apart, so that neighbours read neighbouring vectors. It takes DEPTH tokens at a time;
// the next ones are fetched into registers while these are multiplied, unless they are many.
override Q8: bool = false;
override ROW_THREADS: u32 = 16;
override COL_THREADS: u32 = 8;

const DEPTH: u32 = 16u;
override DY_LOADS: u32 = 2u * DEPTH / COL_THREADS; // vectors, of an invocation: 2, 4 or 16
override X_LOADS: u32 = 2u * DEPTH / ROW_THREADS; // 2 or 16

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
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> dy: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> q: array<u32>;
@group(0) @binding(5) var<storage, read_write> result: array<f32>;

// [DEPTH][rows / 4], [DEPTH][columns / 4]
var<workgroup> dy_tile: array<vec4<f32>, DEPTH * 2u * ROW_THREADS>;
var<workgroup> x_tile: array<vec4<f32>, DEPTH * 2u * COL_THREADS>;

// The bytes of a word, the lowest first. (unpack4xI8 would become 8-bit integers in SPIR-V, which not every device
// has.)
fn signed_bytes(v: u32) -> vec4<f32> {
    return vec4<f32>((vec4<i32>(bitcast<i32>(v)) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u));
}

fn fetch_dy(first: u32, t: u32, end: u32, i: u32) -> vec4<f32> {
    let token = t + i / (2u * ROW_THREADS);
    let r = first + i % (2u * ROW_THREADS) * 4u;
    var values = vec4<f32>();
    if (token < end && r < p.rows) {
        values = dy[p.dy_first + token * p.dy_stride + r / 4u];
        if (Q8) {
            values *= bitcast<f32>(q[p.scales_word + token]);
        }
    }
    return values;
}

fn fetch_x(first: u32, t: u32, end: u32, i: u32) -> vec4<f32> {
    let token = t + i / (2u * COL_THREADS);
    let c = first + i % (2u * COL_THREADS) * 4u;
    var values = vec4<f32>();
    if (token < end && c < p.cols) {
        if (Q8) {
            values = signed_bytes(q[token * p.x_stride + c / 4u]);
        } else {
            values = x[p.x_first + token * p.x_stride + c / 4u];
        }
    }
    return values;
}

fn finish_four(r: u32, c: u32, part: u32, sums: vec4<f32>) {
    if (r >= p.rows) {
        return;
    }
    for (var i = 0u; i < 4u; i++) {
        if (c + i < p.cols) {
            let at = part + r * p.cols + c + i;
            var sum = sums[i];
            if (p.adds != 0u) {
                sum += result[at];
            }
            result[at] = sum;
        }
    }
}

@compute @workgroup_size(ROW_THREADS * COL_THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let first_col = group.x * 8u * COL_THREADS;
    let first_row = group.y * 8u * ROW_THREADS;
    let first_token = group.z * p.tokens_of_part;
    let last = first_token + p.tokens_of_part;
    let end = min(params[p.count_word], last);
    let step = ROW_THREADS * COL_THREADS;
    let col_thread = local % COL_THREADS;
    let row_thread = local / COL_THREADS;
    var y0 = vec4<f32>();
    var y1 = vec4<f32>();
    var y2 = vec4<f32>();
    var y3 = vec4<f32>();
    var x0 = vec4<f32>();
    var x1 = vec4<f32>();
    if (DY_LOADS <= 4u) {
        y0 = fetch_dy(first_row, first_token, end, local);
        y1 = fetch_dy(first_row, first_token, end, local + step);
    }
    if (DY_LOADS == 4u) {
        y2 = fetch_dy(first_row, first_token, end, local + 2u * step);
        y3 = fetch_dy(first_row, first_token, end, local + 3u * step);
    }
    if (X_LOADS == 2u) {
        x0 = fetch_x(first_col, first_token, end, local);
        x1 = fetch_x(first_col, first_token, end, local + step);
    }
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
    for (var t = first_token; t < last; t += DEPTH) {
        workgroupBarrier();
        if (DY_LOADS <= 4u) {
            dy_tile[local] = y0;
            dy_tile[local + step] = y1;
        } else {
            for (var i = 0u; i < DY_LOADS; i++) { // unroll
                dy_tile[local + i * step] = fetch_dy(first_row, t, end, local + i * step);
            }
        }
        if (DY_LOADS == 4u) {
            dy_tile[local + 2u * step] = y2;
            dy_tile[local + 3u * step] = y3;
        }
        if (X_LOADS == 2u) {
            x_tile[local] = x0;
            x_tile[local + step] = x1;
        } else {
            for (var i = 0u; i < X_LOADS; i++) { // unroll
                x_tile[local + i * step] = fetch_x(first_col, t, end, local + i * step);
            }
        }
        workgroupBarrier();
        if (DY_LOADS <= 4u) {
            y0 = fetch_dy(first_row, t + DEPTH, end, local);
            y1 = fetch_dy(first_row, t + DEPTH, end, local + step);
        }
        if (DY_LOADS == 4u) {
            y2 = fetch_dy(first_row, t + DEPTH, end, local + 2u * step);
            y3 = fetch_dy(first_row, t + DEPTH, end, local + 3u * step);
        }
        if (X_LOADS == 2u) {
            x0 = fetch_x(first_col, t + DEPTH, end, local);
            x1 = fetch_x(first_col, t + DEPTH, end, local + step);
        }
        for (var k = 0u; k < DEPTH; k++) {
            let v0 = x_tile[k * 2u * COL_THREADS + col_thread];
            let v1 = x_tile[k * 2u * COL_THREADS + COL_THREADS + col_thread];
            let d0 = dy_tile[k * 2u * ROW_THREADS + row_thread];
            let d1 = dy_tile[k * 2u * ROW_THREADS + ROW_THREADS + row_thread];
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
    let part = group.z * p.part_stride;
    let c = first_col + 4u * col_thread;
    let far = c + 4u * COL_THREADS;
    let r = first_row + 4u * row_thread;
    let low = r + 4u * ROW_THREADS;
    finish_four(r, c, part, low0);
    finish_four(r, far, part, high0);
    finish_four(r + 1u, c, part, low1);
    finish_four(r + 1u, far, part, high1);
    finish_four(r + 2u, c, part, low2);
    finish_four(r + 2u, far, part, high2);
    finish_four(r + 3u, c, part, low3);
    finish_four(r + 3u, far, part, high3);
    finish_four(low, c, part, low4);
    finish_four(low, far, part, high4);
    finish_four(low + 1u, c, part, low5);
    finish_four(low + 1u, far, part, high5);
    finish_four(low + 2u, c, part, low6);
    finish_four(low + 2u, far, part, high6);
    finish_four(low + 3u, c, part, low7);
    finish_four(low + 3u, far, part, high7);
}
