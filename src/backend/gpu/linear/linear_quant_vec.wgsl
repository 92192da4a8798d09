enable subgroups; // subgroups only
// LINEAR (src/ops/op.h) for few tokens, weights in blocks: out[t][r] = sum_c w[r][c] x[t][c], then the epilogue. Sums
// in f32.
//
//   groups     (x * z cover the slice's rows, WORKGROUP / LANES * ROWS each; ceil(most tokens / TOKENS))
//   params     word count_word holds the number of tokens
//   x          [tokens] rows of cols floats, from vector x_first, x_stride vectors apart
//   weights    [rows] rows of row_vectors vectors of 16 bytes, as src/backend/gpu/gpu.h lays them out
//   residual   [tokens] rows, read when epilogue is 1
//   result     [tokens] rows; row r of the slice is column result_first + r
//
// LANES invocations share ROWS rows (1, 2 or 4): lane l takes units l, l + LANES, ... of each. A unit is what one load
// of 16 bytes begins: 16 columns of q8_0; 16 of an even group and the same 16 of the next of q4_k; four times 16 of
// half a block of q6_k. TOKENS is 1 or 4. epilogue: 0 none; 1 + residual; 2 + what result holds; 3, 4, 5 times relu2,
// silu, gelu of what result holds.
override FORMAT: u32 = 4; // 4 q8_0, 5 q6_k, 6 q4_k
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

// A unit as it is stored. q8_0: values; q6_k: ql, the ql 32 bytes on, qh, scales; q4_k: values, the block's head. d:
// the f16 scale.
struct Unit {
    a: vec4<u32>,
    b: vec4<u32>,
    c: vec4<u32>,
    scales: vec4<u32>,
    d: f32,
}

// The f16 at an even byte of a row.
fn half_at(row: u32, byte: u32) -> f32 {
    let pair = unpack2x16float(weights[row + byte / 16u][byte / 4u % 4u]);
    return select(pair.x, pair.y, (byte & 2u) != 0u);
}

fn load(row: u32, u: u32) -> Unit {
    var unit: Unit;
    if (FORMAT == 4u) {
        unit.a = weights[row + u];
        unit.d = half_at(row, p.cols + u / 2u * 2u);
    } else if (FORMAT == 5u) {
        let block = row + u / 4u * 13u;
        let side = u / 2u % 2u;
        unit.a = weights[block + 4u * side + u % 2u];
        unit.b = weights[block + 4u * side + 2u + u % 2u];
        unit.c = weights[block + 8u + 2u * side + u % 2u];
        unit.scales = weights[block + 12u];
        unit.d = half_at(row, p.cols / 256u * 208u + u / 4u * 2u);
    } else {
        unit.a = weights[row + u / 8u * 9u + 1u + u % 8u];
        unit.b = weights[row + u / 8u * 9u];
    }
    return unit;
}

// Part `part` of a unit: sixteen values, and the scale of their sum.
struct Sixteen {
    values: mat4x4<f32>,
    scale: f32,
}

// The bytes of a word, the lowest first. (unpack4xU8 would become 8-bit integers in SPIR-V, which not every device
// has.)
fn bytes(v: u32) -> vec4<f32> {
    return vec4<f32>((vec4<u32>(v) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u));
}

fn signed_bytes(v: u32) -> vec4<f32> {
    return vec4<f32>((vec4<i32>(bitcast<i32>(v)) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u));
}

fn bytes_of(v: vec4<u32>) -> mat4x4<f32> {
    return mat4x4<f32>(bytes(v.x), bytes(v.y), bytes(v.z), bytes(v.w));
}

fn part_of(unit: Unit, u: u32, part: u32) -> Sixteen {
    if (FORMAT == 4u) {
        let v = unit.a;
        return Sixteen(mat4x4<f32>(signed_bytes(v.x), signed_bytes(v.y), signed_bytes(v.z), signed_bytes(v.w)), unit.d);
    }
    if (FORMAT == 5u) {
        var low = unit.a;
        if (part % 2u == 1u) {
            low = unit.b;
        }
        let nibbles = (low >> vec4<u32>(part / 2u * 4u)) & vec4<u32>(0x0f0f0f0fu);
        let high = ((unit.c >> vec4<u32>(part * 2u)) & vec4<u32>(0x03030303u)) << vec4<u32>(4u);
        let index = u / 2u % 2u * 8u + part * 2u + u % 2u;
        let scale = extractBits(bitcast<i32>(unit.scales[index / 4u]), index % 4u * 8u, 8u);
        let middle = vec4<f32>(32.0);
        return Sixteen(bytes_of(nibbles | high) - mat4x4<f32>(middle, middle, middle, middle), unit.d * f32(scale));
    }
    let group = u % 8u / 2u * 2u + part;
    let shift = group % 4u * 8u;
    var scale = (unit.b.y >> shift) & 63u;
    var least = (unit.b.z >> shift) & 63u;
    if (group >= 4u) {
        scale = ((unit.b.w >> shift) & 15u) | (((unit.b.y >> (shift + 6u)) & 3u) << 4u);
        least = ((unit.b.w >> (shift + 4u)) & 15u) | (((unit.b.z >> (shift + 6u)) & 3u) << 4u);
    }
    let ds = unpack2x16float(unit.b.x);
    let values = bytes_of((unit.a >> vec4<u32>(part * 4u)) & vec4<u32>(0x0f0f0f0fu)) * (ds.x * f32(scale));
    let minus = vec4<f32>(ds.y * f32(least));
    return Sixteen(values - mat4x4<f32>(minus, minus, minus, minus), 1.0);
}

// The first column of a part, in vectors of x.
fn column_of(u: u32, part: u32) -> u32 {
    if (FORMAT == 4u) {
        return 4u * u;
    }
    if (FORMAT == 5u) {
        return u / 2u * 32u + part * 8u + u % 2u * 4u;
    }
    return u / 2u * 16u + part * 8u + u % 2u * 4u;
}

fn product(w: Sixteen, x0: vec4<f32>, x1: vec4<f32>, x2: vec4<f32>, x3: vec4<f32>) -> f32 {
    let four = w.values[0] * x0 + w.values[1] * x1 + w.values[2] * x2 + w.values[3] * x3;
    return (four.x + four.y + (four.z + four.w)) * w.scale;
}

fn products(w0: Sixteen, w1: Sixteen, w2: Sixteen, w3: Sixteen, at: u32) -> vec4<f32> {
    let x0 = x[at];
    let x1 = x[at + 1u];
    let x2 = x[at + 2u];
    let x3 = x[at + 3u];
    var sums = vec4<f32>();
    sums.x = product(w0, x0, x1, x2, x3);
    if (ROWS >= 2u) {
        sums.y = product(w1, x0, x1, x2, x3);
    }
    if (ROWS == 4u) {
        sums.z = product(w2, x0, x1, x2, x3);
        sums.w = product(w3, x0, x1, x2, x3);
    }
    return sums;
}

fn add_part(sums: Sums, start: Starts, u0: Unit, u1: Unit, u2: Unit, u3: Unit, u: u32, part: u32) -> Sums {
    let w0 = part_of(u0, u, part);
    var w1: Sixteen;
    var w2: Sixteen;
    var w3: Sixteen;
    if (ROWS >= 2u) {
        w1 = part_of(u1, u, part);
    }
    if (ROWS == 4u) {
        w2 = part_of(u2, u, part);
        w3 = part_of(u3, u, part);
    }
    let at = start.tokens + column_of(u, part);
    var s = sums;
    s.t0 += products(w0, w1, w2, w3, at.x);
    if (TOKENS == 4u) {
        s.t1 += products(w0, w1, w2, w3, at.y);
        s.t2 += products(w0, w1, w2, w3, at.z);
        s.t3 += products(w0, w1, w2, w3, at.w);
    }
    return s;
}

fn add(sums: Sums, start: Starts, u: u32) -> Sums {
    let u0 = load(start.rows.x, u);
    var u1: Unit;
    var u2: Unit;
    var u3: Unit;
    if (ROWS >= 2u) {
        u1 = load(start.rows.y, u);
    }
    if (ROWS == 4u) {
        u2 = load(start.rows.z, u);
        u3 = load(start.rows.w, u);
    }
    var s = add_part(sums, start, u0, u1, u2, u3, u, 0u);
    if (FORMAT >= 5u) {
        s = add_part(s, start, u0, u1, u2, u3, u, 1u);
    }
    if (FORMAT == 5u) {
        s = add_part(s, start, u0, u1, u2, u3, u, 2u);
        s = add_part(s, start, u0, u1, u2, u3, u, 3u);
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
        var columns = 16u;
        if (FORMAT >= 5u) {
            columns = select(32u, 64u, FORMAT == 5u);
        }
        let units = p.cols / columns;
        for (var u = lane; u < units; u += LANES) {
            sums = add(sums, start, u);
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
