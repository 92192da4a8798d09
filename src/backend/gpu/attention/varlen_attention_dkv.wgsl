// VARLEN_ATTENTION_BACKWARD (src/ops/op.h), the gradients of k and v; probabilities are computed again from m and l.
//
//   s = dot(q[t], k[j]) * scale;  p = e^(s - m) / l;  ds = p * (dot(dout[t], v[j]) - delta) * scale
//   dv[j] = sum of p * dout[t];  dk[j] = sum of ds * q[t]   over the rows t that see j and the heads of the KV head
//
//   groups      (KV heads * splits, ceil(most rows / ROWS)): a workgroup owns ROWS keys and goes over `heads` heads of
//               their KV head, and for each over the rows that see them, KEYS at a time. With splits (group / heads) the
//               sums of these heads lie beside each other, [rows][KV heads * splits], for sum_heads.wgsl. Documents lie
//               one behind the other, so starts never falls.
//   q, k, v, dout  rows of *_stride quads, from *_first
//   dk, dv      rows of *_stride quads, from *_first, [KV heads * splits] heads in each
//   scratch     quad scratch_quad + t * n_heads + head: m, 1 / l, delta (varlen_attention_delta.wgsl)
//   params      word count_word holds the number of rows, from starts_word their starts
//
// Work is cut as in varlen_attention.wgsl, with keys where it has rows.
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
override SUM_QUADS: u32 = DIM / 64u;         // of a row of dk and dv, for each of 16 lanes; at most 4
override CHUNK: u32 = ROWS * 8u * STEP / DIM;
override HELD: u32 = TILE / STRIDE * STEP / WORKGROUP; // at most 4

const LOG2E: f32 = 1.4426950409;

struct P {
    quads: u32, // head_dim / 4
    n_heads: u32,
    splits: u32, // workgroups for the heads of a KV head
    heads: u32,  // of each
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
    dk_first: u32,
    dk_stride: u32,
    dv_first: u32,
    dv_stride: u32,
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
@group(0) @binding(7) var<storage, read_write> dk: array<vec4<f32>>;
@group(0) @binding(8) var<storage, read_write> dv: array<vec4<f32>>;

var<workgroup> tile: array<vec4<f32>, TILE>;
var<workgroup> scores: array<vec4<f32>, ROWS * SCORE_STRIDE>; // p, then ds: [key][4 rows]
var<workgroup> starts: array<u32, KEYS>;                      // of the rows
var<workgroup> row_statistics: array<vec4<f32>, KEYS>;
var<workgroup> blocks: atomic<u32>;
var<workgroup> range: vec2<u32>;

var<private> held: array<vec4<f32>, 4>; // of the next tile

// Which row lies in row r of its part of a tile: every fourth one together, so that invocations that have 4 neighbours
// each read neighbouring rows.
fn row_of(r: u32) -> u32 {
    return (r % KEY_LANES) * 4u + r / KEY_LANES;
}

// Quads `step` to step + STEP - 1 of the keys and of the rows of q, or with `second` of the values and of dout; zeros
// from row `end` and quad `quads` on.
fn fetch_pair(second: bool, first: u32, base: u32, step: u32, end: u32, head: u32, kv_head: u32, local: u32) {
    let last = max(end, 1u) - 1u;
    for (var i = 0u; i < HELD; i++) { // unroll
        let item = local + WORKGROUP * i;
        let row = item / STEP;
        let quad = step * STEP + item % STEP;
        let c = min(quad, p.quads - 1u);
        let t = select(base + row_of(row - ROWS), first + row, row < ROWS);
        var value: vec4<f32>;
        if (row < ROWS) {
            if (second) {
                value = v[p.v_first + min(t, last) * p.v_stride + kv_head * p.quads + c];
            } else {
                value = k[p.k_first + min(t, last) * p.k_stride + kv_head * p.quads + c];
            }
        } else {
            if (second) {
                value = dout[p.dout_first + min(t, last) * p.dout_stride + head * p.quads + c];
            } else {
                value = q[p.q_first + min(t, last) * p.q_stride + head * p.quads + c];
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

// CHUNK rows of q, or with `second` of dout, from `first` on, whole.
fn fetch_rows(second: bool, first: u32, end: u32, head: u32, local: u32) {
    let last = max(end, 1u) - 1u;
    for (var i = 0u; i < CHUNK * DIM / 4u / WORKGROUP; i++) { // unroll
        let item = local + WORKGROUP * i;
        let t = first + item / (DIM / 4u);
        let quad = item % (DIM / 4u);
        let c = head * p.quads + min(quad, p.quads - 1u);
        var value: vec4<f32>;
        if (second) {
            value = dout[p.dout_first + min(t, last) * p.dout_stride + c];
        } else {
            value = q[p.q_first + min(t, last) * p.q_stride + c];
        }
        held[i] = select(vec4<f32>(), value, t < end && quad < p.quads);
    }
}

fn put_rows(local: u32) {
    for (var i = 0u; i < CHUNK * DIM / 4u / WORKGROUP; i++) { // unroll
        tile[local + WORKGROUP * i] = held[i];
    }
}

fn add_dot(a: vec4<f32>, b: vec4<f32>, sum: f32) -> f32 {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

// Adds to sums[row][4 rows] the products of the tile's quads.
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
    let kv_head = group.x / p.splits;
    let first = group.y * ROWS;
    let first_head = group.x * p.heads;
    if (local == 0u) {
        atomicStore(&blocks, 0u);
        range = vec2<u32>(params[p.count_word], 0u);
    }
    let n = workgroupUniformLoad(&range).x;
    // Blocks of rows from the first key on, up to the last whose first row sees one of the keys.
    for (var t = first + local * KEYS; t < n; t += WORKGROUP * KEYS) {
        if (params[p.starts_word + t] <= min(first + ROWS, n) - 1u) {
            atomicMax(&blocks, (t - first) / KEYS + 1u);
        }
    }
    workgroupBarrier();
    if (local == 0u) {
        range = vec2<u32>(first, min(first + atomicLoad(&blocks) * KEYS, n));
    }
    let end = workgroupUniformLoad(&range).y;
    let key_lane = local % KEY_LANES;
    let score_row = local / KEY_LANES;
    let sum_lane = local % 16u;
    let sum_row = local / 16u;
    let steps = (p.quads + STEP - 1u) / STEP;
    var k_sum: array<vec4<f32>, 16>; // [key][quad]
    var v_sum: array<vec4<f32>, 16>;
    for (var i = 0u; i < 4u * SUM_ROWS; i++) { // unroll
        k_sum[i] = vec4<f32>();
        v_sum[i] = vec4<f32>();
    }
    fetch_pair(false, first, first, 0u, n, first_head, kv_head, local);
    for (var head = first_head; head < first_head + p.heads; head++) {
        for (var base = first; base < end; base += KEYS) {
            if (local < KEYS) {
                let t = min(base + local, n - 1u);
                starts[local] = select(0xffffffffu, params[p.starts_word + t], base + local < n);
                row_statistics[local] = scratch[p.scratch_quad + t * p.n_heads + head];
            }
            var s: array<vec4<f32>, 4>; // [key][4 rows]
            var d: array<vec4<f32>, 4>; // the products of dout and v
            for (var i = 0u; i < SCORE_ROWS; i++) { // unroll
                s[i] = vec4<f32>();
                d[i] = vec4<f32>();
            }
            for (var step = 0u; step < steps; step++) {
                put_pair(local);
                workgroupBarrier();
                if (step + 1u < steps) {
                    fetch_pair(false, first, base, step + 1u, n, head, kv_head, local);
                } else {
                    fetch_pair(true, first, base, 0u, n, head, kv_head, local);
                }
                multiply(&s, score_row, key_lane);
                workgroupBarrier();
            }
            for (var step = 0u; step < steps; step++) {
                put_pair(local);
                workgroupBarrier();
                if (step + 1u < steps) {
                    fetch_pair(true, first, base, step + 1u, n, head, kv_head, local);
                } else {
                    fetch_rows(true, base, n, head, local);
                }
                multiply(&d, score_row, key_lane);
                workgroupBarrier();
            }
            for (var i = 0u; i < SCORE_ROWS; i++) { // unroll
                let j = first + score_row + ROW_LANES * i;
                for (var c = 0u; c < 4u; c++) { // unroll
                    let row = 4u * key_lane + c;
                    let st = row_statistics[row];
                    let e = exp2((s[i][c] * p.scale - st.x) * LOG2E) * st.y;
                    let sees = j >= starts[row] && j <= base + row;
                    s[i][c] = select(0.0, e, sees);
                    d[i][c] = select(0.0, e * (d[i][c] - st.z) * p.scale, sees);
                }
                scores[(score_row + ROW_LANES * i) * SCORE_STRIDE + key_lane] = s[i];
            }
            for (var chunk = 0u; chunk < KEYS; chunk += CHUNK) {
                put_rows(local);
                workgroupBarrier();
                if (chunk + CHUNK < KEYS) {
                    fetch_rows(true, base + chunk + CHUNK, n, head, local);
                } else {
                    fetch_rows(false, base, n, head, local);
                }
                accumulate(&v_sum, sum_row, sum_lane, chunk / 4u);
                workgroupBarrier();
            }
            for (var i = 0u; i < SCORE_ROWS; i++) { // unroll
                scores[(score_row + ROW_LANES * i) * SCORE_STRIDE + key_lane] = d[i];
            }
            for (var chunk = 0u; chunk < KEYS; chunk += CHUNK) {
                put_rows(local);
                workgroupBarrier();
                if (chunk + CHUNK < KEYS) {
                    fetch_rows(false, base + chunk + CHUNK, n, head, local);
                } else if (base + KEYS < end) {
                    fetch_pair(false, first, base + KEYS, 0u, n, head, kv_head, local);
                } else {
                    fetch_pair(false, first, first, 0u, n, min(head + 1u, p.n_heads - 1u), kv_head, local);
                }
                accumulate(&k_sum, sum_row, sum_lane, chunk / 4u);
                workgroupBarrier();
            }
        }
    }
    for (var i = 0u; i < SUM_ROWS; i++) { // unroll
        let j = first + sum_row + SUM_STEP * i;
        for (var c = 0u; c < SUM_QUADS; c++) { // unroll
            let quad = sum_lane + 16u * c;
            if (j < n && quad < p.quads) {
                dk[p.dk_first + j * p.dk_stride + group.x * p.quads + quad] = k_sum[4u * i + c];
                dv[p.dv_first + j * p.dv_stride + group.x * p.quads + quad] = v_sum[4u * i + c];
            }
        }
    }
}
