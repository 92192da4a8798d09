enable subgroups; // subgroups only
// LINEAR (src/ops/op.h) for few tokens, weights stored as floats: out[t][r] = sum_c w[r][c] x[t][c], then the epilogue.
// Sums in f32.
//
//   groups     (x * z cover the slice's rows, WORKGROUP / LANES * ROWS each; ceil(most tokens / TOKENS))
//   params     word count_word holds the number of tokens
//   x          [tokens] rows of cols floats, from vector x_first, x_stride vectors apart; cols is a multiple of 4
//   weights    [rows] rows of row_vectors vectors of 16 bytes; values past cols are zero
//   residual   [tokens] rows, read when epilogue is 1
//   result     [tokens] rows; row r of the slice is column result_first + r
//
// LANES invocations share ROWS rows (1, 2 or 4): lane l takes pieces l, l + LANES, ... of eight columns of each. TOKENS
// is 1 or 4. epilogue: 0 none; 1 + residual; 2 + what result holds; 3 to 5 times relu2, silu, gelu of what it holds.
override FORMAT: u32 = 2; // 1 f32, 2 f16, 3 bf16
override WORKGROUP: u32 = 128;
override LANES: u32 = 8;
override ROWS: u32 = 4;
override TOKENS: u32 = 1;
override SUBGROUPS: bool = false;
override PARTIALS: u32 = 128; // WORKGROUP * TOKENS; 1 with subgroups

struct P {
    rows: u32,
    cols: u32,
    row_vectors: u32,
    count_word: u32,
    x_first: u32,
    x_stride: u32,
    result_first: u32,
    result_stride: u32,
    residual_first: u32,
    residual_stride: u32,
    epilogue: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> residual: array<f32>;
@group(0) @binding(5) var<storage, read_write> result: array<f32>;

var<workgroup> partials: array<vec4<f32>, PARTIALS>;

// Where the four rows and four tokens start, and what they have added up to; rows are the components.
struct Starts {
    rows: vec4<u32>,
    tokens: vec4<u32>,
}
struct Sums {
    t0: vec4<f32>,
    t1: vec4<f32>,
    t2: vec4<f32>,
    t3: vec4<f32>,
}

// Eight columns, or the first four of them.
fn piece(row: u32, at: u32, narrow: bool) -> mat2x4<f32> {
    if (FORMAT == 1u) {
        let low = weights[row + 2u * at];
        var high = vec4<u32>();
        if (!narrow) {
            high = weights[row + 2u * at + 1u];
        }
        return mat2x4<f32>(bitcast<vec4<f32>>(low), bitcast<vec4<f32>>(high));
    }
    let w = weights[row + at];
    if (FORMAT == 2u) {
        let low = vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y));
        return mat2x4<f32>(low, vec4<f32>(unpack2x16float(w.z), unpack2x16float(w.w)));
    }
    let even = bitcast<vec4<f32>>(w << vec4<u32>(16u));
    let odd = bitcast<vec4<f32>>(w & vec4<u32>(0xffff0000u));
    return mat2x4<f32>(even.x, odd.x, even.y, odd.y, even.z, odd.z, even.w, odd.w);
}

fn products(
    w0: mat2x4<f32>,
    w1: mat2x4<f32>,
    w2: mat2x4<f32>,
    w3: mat2x4<f32>,
    token: u32,
    at: u32,
    narrow: bool,
) -> vec4<f32> {
    let low = x[token + 2u * at];
    var high = vec4<f32>();
    if (!narrow) {
        high = x[token + 2u * at + 1u];
    }
    var sums = vec4<f32>();
    sums.x = dot(w0[0], low) + dot(w0[1], high);
    if (ROWS >= 2u) {
        sums.y = dot(w1[0], low) + dot(w1[1], high);
    }
    if (ROWS == 4u) {
        sums.z = dot(w2[0], low) + dot(w2[1], high);
        sums.w = dot(w3[0], low) + dot(w3[1], high);
    }
    return sums;
}

fn add(sums: Sums, start: Starts, at: u32, narrow: bool) -> Sums {
    let w0 = piece(start.rows.x, at, narrow);
    var w1 = mat2x4<f32>();
    var w2 = mat2x4<f32>();
    var w3 = mat2x4<f32>();
    if (ROWS >= 2u) {
        w1 = piece(start.rows.y, at, narrow);
    }
    if (ROWS == 4u) {
        w2 = piece(start.rows.z, at, narrow);
        w3 = piece(start.rows.w, at, narrow);
    }
    var s = sums;
    s.t0 += products(w0, w1, w2, w3, start.tokens.x, at, narrow);
    if (TOKENS == 4u) {
        s.t1 += products(w0, w1, w2, w3, start.tokens.y, at, narrow);
        s.t2 += products(w0, w1, w2, w3, start.tokens.z, at, narrow);
        s.t3 += products(w0, w1, w2, w3, start.tokens.w, at, narrow);
    }
    return s;
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

fn finish(t: u32, row: u32, sum: f32) {
    let at = p.result_first + t * p.result_stride + row;
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

// The sum over the lanes of a row, in each of the first ROWS lanes its own row's.
fn total(sums: vec4<f32>, local: u32, token: u32) -> f32 {
    let lane = local % LANES;
    if (SUBGROUPS) {
        var sum = sums;
        for (var apart = LANES / 2u; apart > 0u; apart >>= 1u) { // subgroups only
            sum += subgroupShuffleXor(sum, apart); // subgroups only
        } // subgroups only
        return select(select(sum.w, sum.z, lane == 2u), select(sum.y, sum.x, lane == 0u), lane < 2u);
    }
    partials[token * WORKGROUP + local] = sums;
    workgroupBarrier();
    var sum = 0.0;
    if (lane < ROWS) {
        for (var i = 0u; i < LANES; i++) {
            sum += partials[token * WORKGROUP + local - lane + i][lane];
        }
    }
    return sum;
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let lane = local % LANES;
    let first = ((group.z * groups.x + group.x) * (WORKGROUP / LANES) + local / LANES) * ROWS;
    let t = group.y * TOKENS;
    let count = params[p.count_word];
    var sums = Sums();
    if (t < count && first < p.rows) {
        let rows = min(vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(p.rows - 1u));
        let tokens = min(vec4<u32>(t) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(count - 1u));
        let start = Starts(rows * p.row_vectors, p.x_first + tokens * p.x_stride);
        let pieces = p.cols / 8u;
        var at = lane;
        for (; at + LANES < pieces; at += 2u * LANES) {
            sums = add(sums, start, at, false);
            sums = add(sums, start, at + LANES, false);
        }
        if (at < pieces) {
            sums = add(sums, start, at, false);
        }
        if (lane == 0u && 8u * pieces < p.cols) {
            sums = add(sums, start, pieces, true);
        }
    }
    let sum0 = total(sums.t0, local, 0u);
    let mine = lane < ROWS && first + lane < p.rows;
    if (mine && t < count) {
        finish(t, first + lane, sum0);
    }
    if (TOKENS == 4u) {
        let sum1 = total(sums.t1, local, 1u);
        let sum2 = total(sums.t2, local, 2u);
        let sum3 = total(sums.t3, local, 3u);
        if (mine && t + 1u < count) {
            finish(t + 1u, first + lane, sum1);
        }
        if (mine && t + 2u < count) {
            finish(t + 2u, first + lane, sum2);
        }
        if (mine && t + 3u < count) {
            finish(t + 3u, first + lane, sum3);
        }
    }
}
