// LINEAR of ternary weights on f32 rows (src/ops/op.h, W1.58A32), one part or both of a gated op:
//
//   out[t][r] = scale * sum_c w[r][c] x[t][c] + residual[t][r]
//   GATED:      out[t][r] = act(row r of part 0) * (row r of part 1)
//
//   groups     (ceil(rows / (WORKGROUP / LANES)), most tokens)
//   params     word count_word: the number of tokens
//   x          rows of x_stride floats from x_first, cols of them used
//   w0, w1     rows of `chunks` vec4 words in i2_s groups (two for 128 columns); row scales at word row_scales, 0: none
//   residual   [tokens] rows of residual_stride floats from residual_first (flag 1); flag 4: it is what result holds
//   result     [tokens] rows of out_stride floats from out_first
//
// Sums in any order. LANES invocations share a row.
override GATED: bool = false;
override WORKGROUP: u32 = 128;
override LANES: u32 = 8;

struct P {
    count_word: u32,
    cols: u32,
    chunks: u32,
    flags: u32, // 1: residual, 2: silu instead of relu2, 4: the residual lies in result already, 8: gelu
    rows: u32,
    x_first: u32,
    x_stride: u32,
    row_scales: u32,
    scale0: f32,
    scale1: f32,
    residual_first: u32,
    residual_stride: u32,
    out_first: u32,
    out_stride: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;
@group(0) @binding(3) var<storage, read> w0: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> w1: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> residual: array<f32>;
@group(0) @binding(6) var<storage, read_write> result: array<f32>;

var<workgroup> sums: array<vec2<f32>, WORKGROUP>;

// Four columns from `c` on times the codes in the bytes of `codes`.
fn four(row: u32, c: u32, codes: u32) -> f32 {
    var sum = 0.0;
    for (var i = 0u; i < 4u; i++) {
        let code = (codes >> (8u * i)) & 3u;
        if (c + i < p.cols && code != 1u) {
            sum += select(x[row + c + i], -x[row + c + i], code == 0u);
        }
    }
    return sum;
}

// One chunk's 64 columns: words first .. first + 3 of its group, four columns of each quarter in a word.
fn chunk(row: u32, at: u32, w: vec4<u32>) -> f32 {
    var sum = 0.0;
    for (var e = 0u; e < 4u; e++) {
        let c = (at >> 1u) * 128u + (at & 1u) * 16u + e * 4u;
        for (var q = 0u; q < 4u; q++) {
            sum += four(row, c + q * 32u, w[e] >> (6u - 2u * q));
        }
    }
    return sum;
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

fn scaled(r: u32, sum: vec2<f32>) -> f32 {
    let word = p.row_scales + r; // row 0 of the weights when there are no row scales
    var y = sum.x * select(bitcast<f32>(w0[word >> 2u][word & 3u]), p.scale0, p.row_scales == 0u);
    if (GATED) {
        y = activation(y, sum.y * select(bitcast<f32>(w1[word >> 2u][word & 3u]), p.scale1, p.row_scales == 0u));
    }
    return y;
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let t = group.y;
    let lane = local % LANES;
    let r = group.x * (WORKGROUP / LANES) + local / LANES;
    let used = t < params[p.count_word] && r < p.rows;
    let row = p.x_first + t * p.x_stride;
    var sum = vec2<f32>();
    if (used) {
        for (var c = lane; c < p.chunks; c += LANES) {
            sum.x += chunk(row, c, w0[r * p.chunks + c]);
            if (GATED) {
                sum.y += chunk(row, c, w1[r * p.chunks + c]);
            }
        }
    }
    sums[local] = sum;
    workgroupBarrier();
    if (lane != 0u || !used) {
        return;
    }
    for (var i = 1u; i < LANES; i++) {
        sum += sums[local + i];
    }
    let at = p.out_first + t * p.out_stride + r;
    var y = scaled(r, sum);
    if ((p.flags & 1u) != 0u) {
        y += residual[p.residual_first + t * p.residual_stride + r];
    } else if ((p.flags & 4u) != 0u) {
        y += result[at];
    }
    result[at] = y;
}
