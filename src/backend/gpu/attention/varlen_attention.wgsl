// VARLEN_ATTENTION (src/ops/op.h): causal attention over the rows of a packed batch, softmax kept online.
//
//   s_j = dot(q[t], k[j]) * scale for j in starts[t] .. t;  m = max s_j;  l = sum e^(s_j - m)
//   out[t] = sum e^(s_j - m) v[j] / l;  statistics[t] = m of each head, then l of each
//   Query head h has KV head h / group.
//
//   groups      (heads, ceil(most rows / ROWS)): a workgroup owns ROWS rows of one head and goes over the keys that they
//               see, KEYS at a time. Documents lie one behind the other, so starts never falls.
//   q, k, v, out  rows of *_stride quads, from *_first
//   statistics  rows of statistics_stride floats, from statistics_first
//   params      word count_word holds the number of rows, from starts_word their starts
//
// The products of rows and keys go through workgroup memory STEP quads of the head at a time, the sum of values CHUNK
// keys at a time; what the next of these needs is loaded while one is worked on. DIM is at least head_dim, in quads `quads`.
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
override PARTS: u32 = WORKGROUP / ROWS;      // invocations of a row in the softmax
override PART_QUADS: u32 = KEY_LANES / PARTS; // at most 4
override SUM_STEP: u32 = WORKGROUP / 16u;
override SUM_ROWS: u32 = ROWS / SUM_STEP;    // at most 4
override SUM_QUADS: u32 = DIM / 64u;         // of a row of out, for each of 16 lanes; at most 4
override CHUNK: u32 = ROWS * 8u * STEP / DIM;
override HELD: u32 = TILE / STRIDE * STEP / WORKGROUP; // at most 4

const NOTHING: f32 = -1e30; // the maximum of no scores
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
    out_first: u32,
    out_stride: u32,
    statistics_first: u32,
    statistics_stride: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> q: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> k: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> v: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> statistics: array<f32>;
@group(0) @binding(6) var<storage, read_write> result: array<vec4<f32>>;

var<workgroup> tile: array<vec4<f32>, TILE>;
var<workgroup> scores: array<vec4<f32>, ROWS * SCORE_STRIDE>; // [row][4 keys]
var<workgroup> parts: array<f32, 2u * WORKGROUP>;             // a maximum, then a sum
var<workgroup> row_start: array<u32, ROWS>;
var<workgroup> row_scale: array<f32, ROWS>;
var<workgroup> range: vec2<u32>;

var<private> held: array<vec4<f32>, 4>; // of the next tile

// Which key lies in row r of its part of a tile: every fourth one together, so that invocations that have 4 neighbours
// each read neighbouring rows.
fn key_of(r: u32) -> u32 {
    return (r % KEY_LANES) * 4u + r / KEY_LANES;
}

// Quads `step` to step + STEP - 1 of the rows and of the keys; zeros from row `end` and quad `quads` on.
fn fetch_pair(first: u32, base: u32, step: u32, end: u32, head: u32, kv_head: u32, local: u32) {
    let last = max(end, 1u) - 1u;
    for (var i = 0u; i < HELD; i++) { // unroll
        let item = local + WORKGROUP * i;
        let row = item / STEP;
        let quad = step * STEP + item % STEP;
        let c = min(quad, p.quads - 1u);
        var t = first + row;
        var value: vec4<f32>;
        if (row < ROWS) {
            value = q[p.q_first + min(t, last) * p.q_stride + head * p.quads + c];
        } else {
            t = base + key_of(row - ROWS);
            value = k[p.k_first + min(t, last) * p.k_stride + kv_head * p.quads + c];
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

// Values of CHUNK keys from `first` on.
fn fetch_values(first: u32, end: u32, kv_head: u32, local: u32) {
    let last = max(end, 1u) - 1u;
    for (var i = 0u; i < CHUNK * DIM / 4u / WORKGROUP; i++) { // unroll
        let item = local + WORKGROUP * i;
        let t = first + item / (DIM / 4u);
        let quad = item % (DIM / 4u);
        let value = v[p.v_first + min(t, last) * p.v_stride + kv_head * p.quads + min(quad, p.quads - 1u)];
        held[i] = select(vec4<f32>(), value, t < end && quad < p.quads);
    }
}

fn put_values(local: u32) {
    for (var i = 0u; i < CHUNK * DIM / 4u / WORKGROUP; i++) { // unroll
        tile[local + WORKGROUP * i] = held[i];
    }
}

fn add_dot(a: vec4<f32>, b: vec4<f32>, sum: f32) -> f32 {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
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
        let t = first + local;
        row_start[local] = select(0xffffffffu, params[p.starts_word + min(t, max(end, 1u) - 1u)], t < end);
    }
    let key_lane = local % KEY_LANES;
    let score_row = local / KEY_LANES;
    let part = local % PARTS;
    let soft_row = local / PARTS;
    let sum_lane = local % 16u;
    let sum_row = local / 16u;
    let steps = (p.quads + STEP - 1u) / STEP;
    var m = NOTHING; // of soft_row
    var l = 0.0;
    var acc: array<vec4<f32>, 16>; // [row][quad]
    for (var i = 0u; i < 4u * SUM_ROWS; i++) { // unroll
        acc[i] = vec4<f32>();
    }
    fetch_pair(first, span.x, 0u, end, head, kv_head, local);
    for (var base = span.x; base < end; base += KEYS) {
        var s: array<vec4<f32>, 4>; // [row][4 keys]
        for (var i = 0u; i < SCORE_ROWS; i++) { // unroll
            s[i] = vec4<f32>();
        }
        for (var step = 0u; step < steps; step++) {
            put_pair(local);
            workgroupBarrier();
            if (step + 1u < steps) {
                fetch_pair(first, base, step + 1u, end, head, kv_head, local);
            } else {
                fetch_values(base, end, kv_head, local);
            }
            for (var c = 0u; c < STEP; c++) { // unroll
                let k0 = tile[(ROWS + key_lane) * STRIDE + c];
                let k1 = tile[(ROWS + KEY_LANES + key_lane) * STRIDE + c];
                let k2 = tile[(ROWS + 2u * KEY_LANES + key_lane) * STRIDE + c];
                let k3 = tile[(ROWS + 3u * KEY_LANES + key_lane) * STRIDE + c];
                for (var i = 0u; i < SCORE_ROWS; i++) { // unroll
                    let a = tile[(score_row + ROW_LANES * i) * STRIDE + c];
                    s[i] = vec4<f32>(add_dot(a, k0, s[i].x), add_dot(a, k1, s[i].y), add_dot(a, k2, s[i].z),
                                     add_dot(a, k3, s[i].w));
                }
            }
            workgroupBarrier();
        }
        for (var i = 0u; i < SCORE_ROWS; i++) { // unroll
            scores[(score_row + ROW_LANES * i) * SCORE_STRIDE + key_lane] = s[i] * p.scale;
        }
        workgroupBarrier();

        // A row's scores become exponentials; its maximum m and sum l move on.
        var e: array<vec4<f32>, 4>;
        var highest = NOTHING;
        for (var i = 0u; i < PART_QUADS; i++) { // unroll
            let quad = part + PARTS * i;
            let j = vec4<u32>(base + 4u * quad) + vec4<u32>(0u, 1u, 2u, 3u);
            let sees = (j >= vec4<u32>(row_start[soft_row])) & (j <= vec4<u32>(first + soft_row));
            e[i] = select(vec4<f32>(NOTHING), scores[soft_row * SCORE_STRIDE + quad], sees);
            highest = max(highest, max(max(e[i].x, e[i].y), max(e[i].z, e[i].w)));
        }
        parts[local] = highest;
        workgroupBarrier();
        highest = m;
        for (var i = 0u; i < PARTS; i++) { // unroll
            highest = max(highest, parts[soft_row * PARTS + i]);
        }
        var sum = 0.0;
        for (var i = 0u; i < PART_QUADS; i++) { // unroll
            let quad = part + PARTS * i;
            let j = vec4<u32>(base + 4u * quad) + vec4<u32>(0u, 1u, 2u, 3u);
            let sees = (j >= vec4<u32>(row_start[soft_row])) & (j <= vec4<u32>(first + soft_row));
            e[i] = select(vec4<f32>(), exp2((e[i] - highest) * LOG2E), sees);
            scores[soft_row * SCORE_STRIDE + quad] = e[i];
            sum += (e[i].x + e[i].y) + (e[i].z + e[i].w);
        }
        let c = exp2((m - highest) * LOG2E);
        m = highest;
        l *= c;
        parts[WORKGROUP + local] = sum;
        if (part == 0u) {
            row_scale[soft_row] = c;
        }

        for (var chunk = 0u; chunk < KEYS; chunk += CHUNK) {
            put_values(local);
            workgroupBarrier();
            if (chunk + CHUNK < KEYS) {
                fetch_values(base + chunk + CHUNK, end, kv_head, local);
            } else {
                fetch_pair(first, base + KEYS, 0u, end, head, kv_head, local);
            }
            if (chunk == 0u) {
                for (var i = 0u; i < SUM_ROWS; i++) { // unroll
                    for (var d = 0u; d < SUM_QUADS; d++) { // unroll
                        acc[4u * i + d] *= row_scale[sum_row + SUM_STEP * i];
                    }
                }
            }
            for (var j = 0u; j < CHUNK; j += 4u) {
                var weights: array<vec4<f32>, 4>;
                for (var i = 0u; i < SUM_ROWS; i++) { // unroll
                    weights[i] = scores[(sum_row + SUM_STEP * i) * SCORE_STRIDE + (chunk + j) / 4u];
                }
                for (var n = 0u; n < 4u; n++) { // unroll
                    for (var d = 0u; d < SUM_QUADS; d++) { // unroll
                        let value = tile[(j + n) * (DIM / 4u) + sum_lane + 16u * d];
                        for (var i = 0u; i < SUM_ROWS; i++) { // unroll
                            acc[4u * i + d] = fma(vec4<f32>(weights[i][n]), value, acc[4u * i + d]);
                        }
                    }
                }
            }
            workgroupBarrier();
        }
        for (var i = 0u; i < PARTS; i++) { // unroll
            l += parts[WORKGROUP + soft_row * PARTS + i];
        }
    }
    if (part == 0u) {
        row_scale[soft_row] = l;
        let t = first + soft_row;
        if (t < end) {
            let at = p.statistics_first + t * p.statistics_stride + head;
            statistics[at] = m;
            statistics[at + p.n_heads] = l;
        }
    }
    workgroupBarrier();
    for (var i = 0u; i < SUM_ROWS; i++) { // unroll
        let row = sum_row + SUM_STEP * i;
        for (var d = 0u; d < SUM_QUADS; d++) { // unroll
            let quad = sum_lane + 16u * d;
            if (first + row < end && quad < p.quads) {
                result[p.out_first + (first + row) * p.out_stride + head * p.quads + quad] = acc[4u * i + d] / row_scale[row];
            }
        }
    }
}
