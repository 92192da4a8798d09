// VARLEN_ATTENTION_BACKWARD (src/ops/op.h), the gradient of q; probabilities are computed again from m and l.
//
//   s_j = dot(q[t], k[j]) * scale;  p = e^(s_j - m) / l;  ds = p * (dot(dout[t], v[j]) - delta) * scale
//   dq[t] = sum over j in starts[t] .. t of ds * k[j]
//
//   groups      (heads, ceil(most rows / ROWS)): a workgroup owns ROWS rows of one head and goes over the keys that they
//               see, KEYS at a time. Documents lie one behind the other, so starts never falls.
//   q, k, v, dout, dq  rows of *_stride quads, from *_first
//   scratch     quad scratch_quad + t * n_heads + head: m, 1 / l, delta (varlen_attention_delta.wgsl)
//   params      word count_word holds the number of rows, from starts_word their starts
//
// Work is cut as in varlen_attention.wgsl.
override WORKGROUP: u32 = 256;
override ROWS: u32 = 64;
override KEYS: u32 = 64; // as many as ROWS
override DIM: u32 = 128; // 64, 128 or 256
override STEP: u32 = 4;  // quads

override STRIDE: u32 = STEP + 1u; // quads; odd, so that neighbouring rows lie in different banks
override TILE: u32 = (ROWS + KEYS) * STRIDE;
override KEY_LANES: u32 = KEYS / 4u;
override ROW_LANES: u32 = WORKGROUP / KEY_LANES;
override SCORE_ROWS: u32 = ROWS / ROW_LANES; // of an invocation, at most 4
override SCORE_STRIDE: u32 = KEY_LANES + 1u;
override SUM_STEP: u32 = WORKGROUP / 16u;
override SUM_ROWS: u32 = ROWS / SUM_STEP;    // at most 4
override SUM_QUADS: u32 = DIM / 64u;         // of a row of dq, for each of 16 lanes; at most 4
override CHUNK: u32 = ROWS * 8u * STEP / DIM;
override HELD: u32 = TILE / STRIDE * STEP / WORKGROUP; // at most 4

const LOG2E: f32 = 1.4426950409;

struct P {
    quads: u32, // head_dim / 4
    n_heads: u32,
    group: u32,
    count_word: u32,
    starts_word: u32,
    q_first: u32,
    q_stride: u32,
    k_first: u32,
    k_stride: u32,
    v_first: u32,
    v_stride: u32,
    dout_first: u32,
    dout_stride: u32,
    dq_first: u32,
    dq_stride: u32,
    scratch_quad: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> q: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> k: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> v: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> dout: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> scratch: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> dq: array<vec4<f32>>;

var<workgroup> tile: array<vec4<f32>, TILE>;
var<workgroup> scores: array<vec4<f32>, ROWS * SCORE_STRIDE>; // ds: [row][4 keys]
var<workgroup> row_start: array<u32, ROWS>;
var<workgroup> row_statistics: array<vec4<f32>, ROWS>;
var<workgroup> range: vec2<u32>;

var<private> held: array<vec4<f32>, 4>; // of the next tile

// Which key lies in row r of its part of a tile: every fourth one together, so that invocations that have 4 neighbours
// each read neighbouring rows.
fn key_of(r: u32) -> u32 {
    return (r % KEY_LANES) * 4u + r / KEY_LANES;
}

// Quads `step` to step + STEP - 1 of the rows of q and of the keys, or with `second` of dout and of the values; zeros
// from row `end` and quad `quads` on.
fn fetch_pair(second: bool, first: u32, base: u32, step: u32, end: u32, head: u32, kv_head: u32, local: u32) {
    let last = max(end, 1u) - 1u;
    for (var i = 0u; i < HELD; i++) { // unroll
        let item = local + WORKGROUP * i;
        let row = item / STEP;
        let quad = step * STEP + item % STEP;
        let c = min(quad, p.quads - 1u);
        let t = select(base + key_of(row - ROWS), first + row, row < ROWS);
        var value: vec4<f32>;
        if (row < ROWS) {
            if (second) {
                value = dout[p.dout_first + min(t, last) * p.dout_stride + head * p.quads + c];
            } else {
                value = q[p.q_first + min(t, last) * p.q_stride + head * p.quads + c];
            }
        } else {
            if (second) {
                value = v[p.v_first + min(t, last) * p.v_stride + kv_head * p.quads + c];
            } else {
                value = k[p.k_first + min(t, last) * p.k_stride + kv_head * p.quads + c];
            }
        }
        held[i] = select(vec4<f32>(), value, t < end && quad < p.quads);
    }
}

fn put_pair(local: u32) {
    for (var i = 0u; i < HELD; i++) { // unroll
        let item = local + WORKGROUP * i;
        tile[(item / STEP) * STRIDE + item % STEP] = held[i];
    }
}

// CHUNK keys from `first` on, whole.
fn fetch_keys(first: u32, end: u32, kv_head: u32, local: u32) {
    let last = max(end, 1u) - 1u;
    for (var i = 0u; i < CHUNK * DIM / 4u / WORKGROUP; i++) { // unroll
        let item = local + WORKGROUP * i;
        let t = first + item / (DIM / 4u);
        let quad = item % (DIM / 4u);
        let value = k[p.k_first + min(t, last) * p.k_stride + kv_head * p.quads + min(quad, p.quads - 1u)];
        held[i] = select(vec4<f32>(), value, t < end && quad < p.quads);
    }
}

fn put_keys(local: u32) {
    for (var i = 0u; i < CHUNK * DIM / 4u / WORKGROUP; i++) { // unroll
        tile[local + WORKGROUP * i] = held[i];
    }
}

fn add_dot(a: vec4<f32>, b: vec4<f32>, sum: f32) -> f32 {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

// Adds to sums[row][4 keys] the products of the tile's quads.
fn multiply(sums: ptr<function, array<vec4<f32>, 4>>, score_row: u32, key_lane: u32) {
    for (var c = 0u; c < STEP; c++) { // unroll
        let b0 = tile[(ROWS + key_lane) * STRIDE + c];
        let b1 = tile[(ROWS + KEY_LANES + key_lane) * STRIDE + c];
        let b2 = tile[(ROWS + 2u * KEY_LANES + key_lane) * STRIDE + c];
        let b3 = tile[(ROWS + 3u * KEY_LANES + key_lane) * STRIDE + c];
        for (var i = 0u; i < SCORE_ROWS; i++) { // unroll
            let a = tile[(score_row + ROW_LANES * i) * STRIDE + c];
            let sum = (*sums)[i];
            (*sums)[i] = vec4<f32>(add_dot(a, b0, sum.x), add_dot(a, b1, sum.y), add_dot(a, b2, sum.z),
                                   add_dot(a, b3, sum.w));
        }
    }
}

// Adds to sums[row][quad] the products of the scores from quad `from_quad` on with the tile's CHUNK rows.
fn accumulate(sums: ptr<function, array<vec4<f32>, 16>>, sum_row: u32, sum_lane: u32, from_quad: u32) {
    for (var j = 0u; j < CHUNK; j += 4u) {
        var weights: array<vec4<f32>, 4>;
        for (var i = 0u; i < SUM_ROWS; i++) { // unroll
            weights[i] = scores[(sum_row + SUM_STEP * i) * SCORE_STRIDE + from_quad + j / 4u];
        }
        for (var n = 0u; n < 4u; n++) { // unroll
            for (var d = 0u; d < SUM_QUADS; d++) { // unroll
                let value = tile[(j + n) * (DIM / 4u) + sum_lane + 16u * d];
                for (var i = 0u; i < SUM_ROWS; i++) { // unroll
                    (*sums)[4u * i + d] = fma(vec4<f32>(weights[i][n]), value, (*sums)[4u * i + d]);
                }
            }
        }
    }
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let head = group.x;
    let kv_head = head / p.group;
    let first = group.y * ROWS;
    if (local == 0u) {
        let n = params[p.count_word];
        let start = params[p.starts_word + min(first, max(n, 1u) - 1u)];
        range = select(vec2<u32>(), vec2<u32>(start, min(first + ROWS, n)), first < n);
    }
    let span = workgroupUniformLoad(&range);
    let end = span.y;
    if (local < ROWS) {
        let t = min(first + local, max(end, 1u) - 1u);
        row_start[local] = select(0xffffffffu, params[p.starts_word + t], first + local < end);
        row_statistics[local] = scratch[p.scratch_quad + t * p.n_heads + head];
    }
    let key_lane = local % KEY_LANES;
    let score_row = local / KEY_LANES;
    let sum_lane = local % 16u;
    let sum_row = local / 16u;
    let steps = (p.quads + STEP - 1u) / STEP;
    var acc: array<vec4<f32>, 16>; // [row][quad]
    for (var i = 0u; i < 4u * SUM_ROWS; i++) { // unroll
        acc[i] = vec4<f32>();
    }
    fetch_pair(false, first, span.x, 0u, end, head, kv_head, local);
    for (var base = span.x; base < end; base += KEYS) {
        var s: array<vec4<f32>, 4>; // [row][4 keys]
        var d: array<vec4<f32>, 4>; // the products of dout and v
        for (var i = 0u; i < SCORE_ROWS; i++) { // unroll
            s[i] = vec4<f32>();
            d[i] = vec4<f32>();
        }
        for (var step = 0u; step < steps; step++) {
            put_pair(local);
            workgroupBarrier();
            if (step + 1u < steps) {
                fetch_pair(false, first, base, step + 1u, end, head, kv_head, local);
            } else {
                fetch_pair(true, first, base, 0u, end, head, kv_head, local);
            }
            multiply(&s, score_row, key_lane);
            workgroupBarrier();
        }
        for (var step = 0u; step < steps; step++) {
            put_pair(local);
            workgroupBarrier();
            if (step + 1u < steps) {
                fetch_pair(true, first, base, step + 1u, end, head, kv_head, local);
            } else {
                fetch_keys(base, end, kv_head, local);
            }
            multiply(&d, score_row, key_lane);
            workgroupBarrier();
        }
        let j = vec4<u32>(base + 4u * key_lane) + vec4<u32>(0u, 1u, 2u, 3u);
        for (var i = 0u; i < SCORE_ROWS; i++) { // unroll
            let row = score_row + ROW_LANES * i;
            let st = row_statistics[row];
            let sees = (j >= vec4<u32>(row_start[row])) & (j <= vec4<u32>(first + row));
            let e = exp2((s[i] * p.scale - st.x) * LOG2E) * st.y;
            let ds = e * (d[i] - st.z) * p.scale;
            scores[row * SCORE_STRIDE + key_lane] = select(vec4<f32>(), ds, sees);
        }
        for (var chunk = 0u; chunk < KEYS; chunk += CHUNK) {
            put_keys(local);
            workgroupBarrier();
            if (chunk + CHUNK < KEYS) {
                fetch_keys(base + chunk + CHUNK, end, kv_head, local);
            } else {
                fetch_pair(false, first, base + KEYS, 0u, end, head, kv_head, local);
            }
            accumulate(&acc, sum_row, sum_lane, chunk / 4u);
            workgroupBarrier();
        }
    }
    for (var i = 0u; i < SUM_ROWS; i++) { // unroll
        let t = first + sum_row + SUM_STEP * i;
        for (var n = 0u; n < SUM_QUADS; n++) { // unroll
            let quad = sum_lane + 16u * n;
            if (t < end && quad < p.quads) {
                dq[p.dq_first + t * p.dq_stride + head * p.quads + quad] = acc[4u * i + n];
            }
        }
    }
}
