// ATTENTION (src/ops/op.h) of many tokens: tiles of queries against tiles of positions, softmax kept online.
//
//   out[t][h] = softmax over j <= position(t) of (q[t][h] K[j] / sqrt(head_dim)) V[j]
//
// A workgroup has a tile of ROWS queries: the query heads of one KV head (p.heads of them) of p.tokens tokens that
// follow each other. It walks over the positions that any of them sees, KEYS at a time: K to workgroup memory, scores
// and their softmax, V to the same memory, sums: 4 barriers. What comes next to that memory is on its way to registers
// meanwhile. Tokens of different sequences are taken run by run; rows of another run see nothing meanwhile. Long tiles
// come first.
//
//   groups     (n_kv_heads * head_blocks, ceil(most rows / tokens))
//   x          rows of x_stride quads: q from quad x_first
//   k_cache, v_cache  pages [pages][n_kv_heads][32][head_dim], f16 or f32; positions that no query of the tile sees are
//                     never read
//   result     rows of out_stride quads from quad out_first
//   params     word count_word holds the number of rows; from positions_word and sequences_word their positions and
//              rows of PAGES
// head_dim: a multiple of 8, at most DIM. With SUBGROUPS the invocations of one row's scores are neighbours in a
// subgroup (local index and subgroup index agree), so KEYS / 4 of them, 4, 8 or 16, must fit the
// smallest subgroup. The steps over them are written out: drivers do not unroll loops of shifts.
enable subgroups; // subgroups only

override WORKGROUP: u32 = 128;
override ROWS: u32 = 32;   // at most WORKGROUP
override DIM: u32 = 128;   // a multiple of 64
override KEYS: u32 = 32;   // a multiple of 4
override F16: bool = true; // the caches hold f16, or f32
override SUBGROUPS: u32 = 0; // 1: softmax by shuffles
// Scores: an invocation has 4 neighbouring positions of some rows; sums: 8 columns of some rows.
override KEY_LANES: u32 = KEYS / 4u;
override ROW_LANES: u32 = WORKGROUP / KEY_LANES;
override SCORE_ROWS: u32 = (ROWS + ROW_LANES - 1u) / ROW_LANES; // at most 4
override SUM_LANES: u32 = DIM / 8u;
override SUM_STEP: u32 = WORKGROUP / SUM_LANES;
override SUM_ROWS: u32 = ROWS / SUM_STEP; // at most 8
override TILE_STRIDE: u32 = DIM / 4u + 1u; // quads; odd, so that neighbouring rows lie in different banks
override SCORE_STRIDE: u32 = KEY_LANES + 1u;
override HELD_F16: u32 = KEYS * DIM / 8u / WORKGROUP; // vec4 of a tile for each invocation, at most 8
override HELD_F32: u32 = KEYS * DIM / 4u / WORKGROUP;

struct P {
    head_dim: u32,
    n_kv_heads: u32,
    group: u32, // query heads of a KV head
    head_blocks: u32, // ceil(group / heads)
    heads: u32,
    tokens: u32, // heads * tokens is at most ROWS
    count_word: u32,
    positions_word: u32,
    sequences_word: u32,
    pages_word: u32,
    max_pages: u32,
    x_first: u32,
    x_stride: u32,
    out_first: u32,
    out_stride: u32,
    scale: f32, // log2(e) / sqrt(head_dim)
    tiles: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> k_cache: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> v_cache: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> result: array<vec4<f32>>;

const NOTHING: f32 = -3.4028234e38; // the maximum of no scores

struct Run {
    end: u32,   // its first token is where the one before ended
    last: u32,  // positions that some row sees
    least: u32, // positions that all rows of the tile see
    table: u32, // word of its page table
}

var<workgroup> tile: array<vec4<f32>, KEYS * TILE_STRIDE>;    // K, then V; see row_of
var<workgroup> scores: array<vec4<f32>, ROWS * SCORE_STRIDE>; // [row][4 positions]
var<workgroup> row_visible: array<u32, ROWS>;
var<workgroup> row_scale: array<f32, ROWS>;
var<workgroup> positions: array<u32, ROWS>;                   // of the tile's tokens
var<workgroup> sequences: array<u32, ROWS>;
var<workgroup> n_tokens: u32;
var<workgroup> run_end: atomic<u32>;
var<workgroup> run_last: atomic<u32>;
var<workgroup> run_least: atomic<u32>;
var<workgroup> run: Run;

// Where position k of a tile lies: every fourth one together, so that invocations that have 4 neighbours each read
// neighbouring rows.
fn row_of(k: u32) -> u32 {
    return (k & 3u) * KEY_LANES + (k >> 2u);
}

// The row of the caches where position j of the run lies.
fn slot_of(table: u32, j: u32, kv_head: u32) -> u32 {
    return (params[table + (j >> 5u)] * p.n_kv_heads + kv_head) * 32u + (j & 31u);
}

// What this invocation brings of the next tile. From `last` on it is position last - 1 again, past head_dim the last
// columns: not used.
var<private> held: array<vec4<u32>, 8>;

fn fetch(values: bool, table: u32, base: u32, last: u32, kv_head: u32, local: u32) {
    if (F16) {
        for (var i = 0u; i < HELD_F16; i++) { // unroll
            let item = local + WORKGROUP * i;
            let slot = slot_of(table, min(base + item / (DIM / 8u), last - 1u), kv_head);
            let at = slot * (p.head_dim / 8u) + min(item % (DIM / 8u), p.head_dim / 8u - 1u);
            if (values) {
                held[i] = v_cache[at];
            } else {
                held[i] = k_cache[at];
            }
        }
    } else {
        for (var i = 0u; i < HELD_F32; i++) { // unroll
            let item = local + WORKGROUP * i;
            let slot = slot_of(table, min(base + item / (DIM / 4u), last - 1u), kv_head);
            let at = slot * (p.head_dim / 4u) + min(item % (DIM / 4u), p.head_dim / 4u - 1u);
            if (values) {
                held[i] = v_cache[at];
            } else {
                held[i] = k_cache[at];
            }
        }
    }
}

fn put(local: u32) {
    if (F16) {
        for (var i = 0u; i < HELD_F16; i++) { // unroll
            let item = local + WORKGROUP * i;
            let at = row_of(item / (DIM / 8u)) * TILE_STRIDE + 2u * (item % (DIM / 8u));
            tile[at] = vec4<f32>(unpack2x16float(held[i].x), unpack2x16float(held[i].y));
            tile[at + 1u] = vec4<f32>(unpack2x16float(held[i].z), unpack2x16float(held[i].w));
        }
    } else {
        for (var i = 0u; i < HELD_F32; i++) { // unroll
            let item = local + WORKGROUP * i;
            tile[row_of(item / (DIM / 4u)) * TILE_STRIDE + item % (DIM / 4u)] = bitcast<vec4<f32>>(held[i]);
        }
    }
}

// Finds the run of tokens of one sequence that starts at `start`, and what each row sees of it.
fn find_run(start: u32, n: u32, local: u32) -> Run {
    if (local == 0u) {
        atomicStore(&run_end, n);
        atomicStore(&run_last, 0u);
        atomicStore(&run_least, 0xffffffffu);
    }
    workgroupBarrier();
    if (local > start && local < n) {
        if (sequences[local] != sequences[start]) {
            atomicMin(&run_end, local);
        }
    }
    workgroupBarrier();
    let end = atomicLoad(&run_end);
    if (local < ROWS) {
        // Rows past the end do as the first one does; nobody sees them.
        let t = local / p.heads;
        let token = select(0u, t, t < n);
        let visible = select(0u, positions[token] + 1u, token >= start && token < end);
        row_visible[local] = visible;
        atomicMax(&run_last, visible);
        atomicMin(&run_least, visible);
    }
    workgroupBarrier();
    if (local == 0u) {
        run = Run(end, atomicLoad(&run_last), atomicLoad(&run_least), p.pages_word + sequences[start] * p.max_pages);
    }
    return workgroupUniformLoad(&run);
}

// The quad where a row's head starts, in rows of `stride` quads.
fn row_start(row: u32, n: u32, first: u32, stride: u32, first_token: u32, first_head: u32) -> u32 {
    let t = row / p.heads;
    let inside = t < n;
    let h = min(first_head + row - t * p.heads, p.n_kv_heads * p.group - 1u);
    return first + (first_token + select(0u, t, inside)) * stride + select(first_head, h, inside) * (p.head_dim / 4u);
}

// State of the softmax: of row `local`, or with SUBGROUPS of the rows whose scores this invocation has.
var<private> m: array<f32, 4>;
var<private> l: array<f32, 4>;

// A row's scores of one tile become exponentials; its maximum m[0] and sum l[0] move on. Positions it does not see
// count for nothing.
fn soften_row(row: u32, base: u32) {
    let visible = row_visible[row];
    var highest = m[0];
    for (var i = 0u; i < KEY_LANES; i++) {
        let s = scores[row * SCORE_STRIDE + i];
        for (var k = 0u; k < 4u; k++) { // unroll
            // A NaN is no maximum.
            if (base + 4u * i + k < visible && s[k] > highest) {
                highest = s[k];
            }
        }
    }
    let c = exp2(m[0] - highest);
    var sum = 0.0;
    for (var i = 0u; i < KEY_LANES; i++) {
        let sees = (vec4<u32>(base + 4u * i) + vec4<u32>(0u, 1u, 2u, 3u)) < vec4<u32>(visible);
        let e = select(vec4<f32>(), exp2(scores[row * SCORE_STRIDE + i] - highest), sees);
        scores[row * SCORE_STRIDE + i] = e;
        sum += (e.x + e.y) + (e.z + e.w);
    }
    row_scale[row] = c;
    m[0] = highest;
    l[0] = l[0] * c + sum;
}

// The same from registers: s are the scores of positions base + 4 key_lane .. + 3 of score row i.
fn soften_lanes(i: u32, row: u32, key_lane: u32, base: u32, s: vec4<f32>) {
    let visible = vec4<u32>(row_visible[row]);
    let sees = (vec4<u32>(base + 4u * key_lane) + vec4<u32>(0u, 1u, 2u, 3u)) < visible;
    var highest = m[i];
    for (var k = 0u; k < 4u; k++) { // unroll
        // A NaN is no maximum.
        highest = select(highest, s[k], sees[k] && s[k] > highest);
    }
    if (KEY_LANES > 8u) { // subgroups only
        highest = max(highest, subgroupShuffleXor(highest, 8u)); // subgroups only
    } // subgroups only
    if (KEY_LANES > 4u) { // subgroups only
        highest = max(highest, subgroupShuffleXor(highest, 4u)); // subgroups only
    } // subgroups only
    highest = max(highest, subgroupShuffleXor(highest, 2u)); // subgroups only
    highest = max(highest, subgroupShuffleXor(highest, 1u)); // subgroups only
    let e = select(vec4<f32>(), exp2(s - highest), sees);
    var sum = (e.x + e.y) + (e.z + e.w);
    if (KEY_LANES > 8u) { // subgroups only
        sum += subgroupShuffleXor(sum, 8u); // subgroups only
    } // subgroups only
    if (KEY_LANES > 4u) { // subgroups only
        sum += subgroupShuffleXor(sum, 4u); // subgroups only
    } // subgroups only
    sum += subgroupShuffleXor(sum, 2u); // subgroups only
    sum += subgroupShuffleXor(sum, 1u); // subgroups only
    let c = exp2(m[i] - highest);
    m[i] = highest;
    l[i] = l[i] * c + sum;
    scores[row * SCORE_STRIDE + key_lane] = e;
    if (key_lane == 0u) {
        row_scale[row] = c;
    }
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let first_token = (p.tiles - 1u - group.y) * p.tokens;
    let kv_head = group.x / p.head_blocks;
    let block = group.x - kv_head * p.head_blocks;
    let first_head = kv_head * p.group + block * p.heads;
    if (local == 0u) {
        let count = params[p.count_word];
        n_tokens = min(p.tokens, select(0u, count - first_token, count > first_token));
    }
    let n = workgroupUniformLoad(&n_tokens);
    if (local < n) {
        positions[local] = params[p.positions_word + first_token + local];
        sequences[local] = params[p.sequences_word + first_token + local];
    }
    let key_lane = local % KEY_LANES;
    let score_row = local / KEY_LANES;
    let sum_lane = local % SUM_LANES;
    let sum_row = local / SUM_LANES;
    var q_start: array<u32, 4>;
    for (var i = 0u; i < SCORE_ROWS; i++) { // unroll
        q_start[i] = row_start(score_row + ROW_LANES * i, n, p.x_first, p.x_stride, first_token, first_head);
    }
    var acc: array<vec4<f32>, 16>; // [row][2 quads]
    for (var i = 0u; i < 2u * SUM_ROWS; i++) { // unroll
        acc[i] = vec4<f32>();
    }
    for (var i = 0u; i < 4u; i++) { // unroll
        m[i] = NOTHING;
        l[i] = 0.0;
    }
    var start = 0u;
    while (start < n) {
        let now = find_run(start, n, local);
        fetch(false, now.table, 0u, now.last, kv_head, local);
        for (var base = 0u; base < now.last; base += KEYS) {
            put(local);
            workgroupBarrier();
            fetch(true, now.table, base, now.last, kv_head, local);
            var s: array<vec4<f32>, 16>; // [row][4 positions], 4 parts of each sum
            for (var i = 0u; i < 4u * SCORE_ROWS; i++) { // unroll
                s[i] = vec4<f32>();
            }
            for (var c = 0u; c < p.head_dim / 4u; c += 2u) {
                for (var e = 0u; e < 2u; e++) { // unroll
                    let k0 = tile[key_lane * TILE_STRIDE + c + e];
                    let k1 = tile[(KEY_LANES + key_lane) * TILE_STRIDE + c + e];
                    let k2 = tile[(2u * KEY_LANES + key_lane) * TILE_STRIDE + c + e];
                    let k3 = tile[(3u * KEY_LANES + key_lane) * TILE_STRIDE + c + e];
                    for (var i = 0u; i < SCORE_ROWS; i++) { // unroll
                        let q = x[q_start[i] + c + e];
                        s[4u * i] += q * k0;
                        s[4u * i + 1u] += q * k1;
                        s[4u * i + 2u] += q * k2;
                        s[4u * i + 3u] += q * k3;
                    }
                }
            }
            for (var i = 0u; i < SCORE_ROWS; i++) { // unroll
                let row = score_row + ROW_LANES * i;
                let a = vec4<f32>(s[4u * i].x, s[4u * i + 1u].x, s[4u * i + 2u].x, s[4u * i + 3u].x);
                let b = vec4<f32>(s[4u * i].y, s[4u * i + 1u].y, s[4u * i + 2u].y, s[4u * i + 3u].y);
                let d = vec4<f32>(s[4u * i].z, s[4u * i + 1u].z, s[4u * i + 2u].z, s[4u * i + 3u].z);
                let e = vec4<f32>(s[4u * i].w, s[4u * i + 1u].w, s[4u * i + 2u].w, s[4u * i + 3u].w);
                let sum = ((a + b) + (d + e)) * p.scale;
                if (SUBGROUPS == 1u) {
                    soften_lanes(i, row, key_lane, base, sum);
                } else if (row < ROWS) {
                    scores[row * SCORE_STRIDE + key_lane] = sum;
                }
            }
            workgroupBarrier();
            put(local);
            if (SUBGROUPS == 0u && local < ROWS) {
                soften_row(local, base);
            }
            workgroupBarrier();
            fetch(false, now.table, base + KEYS, now.last, kv_head, local);
            for (var i = 0u; i < SUM_ROWS; i++) { // unroll
                let c = row_scale[sum_row + SUM_STEP * i];
                acc[2u * i] *= c;
                acc[2u * i + 1u] *= c;
            }
            var weights: array<vec4<f32>, 8>;
            if (base + KEYS <= now.least) {
                for (var kq = 0u; kq < KEY_LANES; kq++) {
                    for (var i = 0u; i < SUM_ROWS; i++) { // unroll
                        weights[i] = scores[(sum_row + SUM_STEP * i) * SCORE_STRIDE + kq];
                    }
                    for (var k = 0u; k < 4u; k++) { // unroll
                        let v0 = tile[(k * KEY_LANES + kq) * TILE_STRIDE + sum_lane];
                        let v1 = tile[(k * KEY_LANES + kq) * TILE_STRIDE + SUM_LANES + sum_lane];
                        for (var i = 0u; i < SUM_ROWS; i++) { // unroll
                            let e = weights[i][k];
                            acc[2u * i] += e * v0;
                            acc[2u * i + 1u] += e * v1;
                        }
                    }
                }
            } else {
                // Some row must not see some of these values, not even as 0 * NaN.
                for (var kq = 0u; kq < KEY_LANES; kq++) {
                    for (var i = 0u; i < SUM_ROWS; i++) { // unroll
                        weights[i] = scores[(sum_row + SUM_STEP * i) * SCORE_STRIDE + kq];
                    }
                    for (var k = 0u; k < 4u; k++) { // unroll
                        let v0 = tile[(k * KEY_LANES + kq) * TILE_STRIDE + sum_lane];
                        let v1 = tile[(k * KEY_LANES + kq) * TILE_STRIDE + SUM_LANES + sum_lane];
                        for (var i = 0u; i < SUM_ROWS; i++) { // unroll
                            let e = weights[i][k];
                            acc[2u * i] += select(e * v0, vec4<f32>(), e == 0.0);
                            acc[2u * i + 1u] += select(e * v1, vec4<f32>(), e == 0.0);
                        }
                    }
                }
            }
            workgroupBarrier();
        }
        start = now.end;
    }
    if (SUBGROUPS == 0u && local < ROWS) {
        row_scale[local] = l[0];
    }
    for (var i = 0u; i < SCORE_ROWS * SUBGROUPS; i++) { // unroll
        if (key_lane == 0u) {
            row_scale[score_row + ROW_LANES * i] = l[i];
        }
    }
    workgroupBarrier();
    for (var i = 0u; i < SUM_ROWS; i++) { // unroll
        let row = sum_row + SUM_STEP * i;
        let t = row / p.heads;
        let h = row - t * p.heads;
        if (t < n && block * p.heads + h < p.group) {
            let at = row_start(row, n, p.out_first, p.out_stride, first_token, first_head);
            if (sum_lane * 4u < p.head_dim) {
                result[at + sum_lane] = acc[2u * i] / row_scale[row];
            }
            if ((SUM_LANES + sum_lane) * 4u < p.head_dim) {
                result[at + SUM_LANES + sum_lane] = acc[2u * i + 1u] / row_scale[row];
            }
        }
    }
}
