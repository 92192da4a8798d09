// ATTENTION (src/ops/op.h) of many tokens: tiles of queries against tiles of positions, softmax kept online.
//
//   out[t][h] = softmax over j <= position(t) of (q[t][h] K[j] / sqrt(head_dim)) V[j]
//
// A workgroup has a tile of ROWS queries: the query heads of one KV head (p.heads of them) of p.tokens tokens that follow each other.
// It walks over the positions that any of them sees, KEYS at a time: K to workgroup memory, scores, V to the same memory, softmax and sum
// (4 barriers). Tokens of different sequences are taken run by run; rows of another run see nothing meanwhile. Long tiles come first.
//
//   groups     (n_kv_heads * head_blocks, ceil(most rows / tokens))
//   x          rows of x_stride quads: q from quad x_first
//   k_cache, v_cache  pages [pages][n_kv_heads][32][head_dim], f16 or f32; positions that no query of the tile sees are never read
//   result     rows of out_stride quads from quad out_first
//   params     word count_word holds the number of rows; from positions_word and sequences_word their positions and rows of PAGES
// head_dim: a multiple of 8, at most DIM.
override WORKGROUP: u32 = 128;
override ROWS: u32 = 32;   // at most WORKGROUP
override DIM: u32 = 128;   // a multiple of 64
override KEYS: u32 = 32;   // a multiple of 4
override F16: bool = true; // the caches hold f16, or f32
// Scores: an invocation has 4 neighbouring positions of some rows; sums: 8 columns of some rows.
override KEY_LANES: u32 = KEYS / 4u;
override ROW_LANES: u32 = WORKGROUP / KEY_LANES;
override SCORE_ROWS: u32 = (ROWS + ROW_LANES - 1u) / ROW_LANES; // at most 4
override SUM_LANES: u32 = DIM / 8u;
override SUM_STEP: u32 = WORKGROUP / SUM_LANES;
override SUM_ROWS: u32 = ROWS / SUM_STEP; // at most 8
override TILE_STRIDE: u32 = DIM / 4u + 1u; // quads; odd, so that neighbouring rows lie in different banks
override SCORE_STRIDE: u32 = KEY_LANES + 1u;

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

// Where position k of a tile lies: every fourth one together, so that invocations that have 4 neighbours each read neighbouring rows.
fn row_of(k: u32) -> u32 {
    return (k & 3u) * KEY_LANES + (k >> 2u);
}

fn put_block(at: u32, bits: vec4<u32>) {
    tile[at] = vec4<f32>(unpack2x16float(bits.x), unpack2x16float(bits.y));
    tile[at + 1u] = vec4<f32>(unpack2x16float(bits.z), unpack2x16float(bits.w));
}

// The row of the caches where position j of the run lies.
fn slot_of(table: u32, j: u32, kv_head: u32) -> u32 {
    return (params[table + (j >> 5u)] * p.n_kv_heads + kv_head) * 32u + (j & 31u);
}

// Positions from `base` of K or V to the tile; zeros from `last` on.
fn load_tile(values: bool, table: u32, base: u32, last: u32, kv_head: u32, local: u32) {
    if (F16) {
        for (var item = local; item < KEYS * (DIM / 8u); item += WORKGROUP) { // unroll
            let k = item / (DIM / 8u);
            let block = item % (DIM / 8u);
            if (block * 8u < p.head_dim) {
                var bits = vec4<u32>();
                if (base + k < last) {
                    let at = slot_of(table, base + k, kv_head) * (p.head_dim / 8u) + block;
                    if (values) {
                        bits = v_cache[at];
                    } else {
                        bits = k_cache[at];
                    }
                }
                put_block(row_of(k) * TILE_STRIDE + 2u * block, bits);
            }
        }
    } else {
        for (var item = local; item < KEYS * (DIM / 4u); item += WORKGROUP) { // unroll
            let k = item / (DIM / 4u);
            let quad = item % (DIM / 4u);
            if (quad * 4u < p.head_dim) {
                var bits = vec4<u32>();
                if (base + k < last) {
                    let at = slot_of(table, base + k, kv_head) * (p.head_dim / 4u) + quad;
                    if (values) {
                        bits = v_cache[at];
                    } else {
                        bits = k_cache[at];
                    }
                }
                tile[row_of(k) * TILE_STRIDE + quad] = bitcast<vec4<f32>>(bits);
            }
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

// A row's scores of one tile become exponentials; its maximum m and sum l move on. Positions from `visible` on count for nothing.
fn soften(row: u32, base: u32, visible: u32, state: vec2<f32>) -> vec2<f32> {
    var m = state.x;
    for (var i = 0u; i < KEY_LANES; i++) {
        let s = scores[row * SCORE_STRIDE + i];
        for (var k = 0u; k < 4u; k++) { // unroll
            // A NaN is no maximum.
            if (base + 4u * i + k < visible && s[k] > m) {
                m = s[k];
            }
        }
    }
    let c = exp2(state.x - m);
    var sum = 0.0;
    for (var i = 0u; i < KEY_LANES; i++) {
        let j = vec4<u32>(base + 4u * i) + vec4<u32>(0u, 1u, 2u, 3u);
        let e = select(vec4<f32>(), exp2(scores[row * SCORE_STRIDE + i] - m), j < vec4<u32>(visible));
        scores[row * SCORE_STRIDE + i] = e;
        sum += (e.x + e.y) + (e.z + e.w);
    }
    row_scale[row] = c;
    return vec2<f32>(m, state.y * c + sum);
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
    var state = vec2<f32>(NOTHING, 0.0); // maximum and sum of row `local`
    var start = 0u;
    while (start < n) {
        let now = find_run(start, n, local);
        for (var base = 0u; base < now.last; base += KEYS) {
            load_tile(false, now.table, base, now.last, kv_head, local);
            workgroupBarrier();
            var s: array<vec4<f32>, 16>; // [row][4 positions], 4 parts of each sum
            for (var i = 0u; i < 4u * SCORE_ROWS; i++) { // unroll
                s[i] = vec4<f32>();
            }
            for (var c = 0u; c < p.head_dim / 4u; c++) {
                let k0 = tile[key_lane * TILE_STRIDE + c];
                let k1 = tile[(KEY_LANES + key_lane) * TILE_STRIDE + c];
                let k2 = tile[(2u * KEY_LANES + key_lane) * TILE_STRIDE + c];
                let k3 = tile[(3u * KEY_LANES + key_lane) * TILE_STRIDE + c];
                for (var i = 0u; i < SCORE_ROWS; i++) { // unroll
                    let q = x[q_start[i] + c];
                    s[4u * i] += q * k0;
                    s[4u * i + 1u] += q * k1;
                    s[4u * i + 2u] += q * k2;
                    s[4u * i + 3u] += q * k3;
                }
            }
            for (var i = 0u; i < SCORE_ROWS; i++) { // unroll
                let row = score_row + ROW_LANES * i;
                if (row < ROWS) {
                    let a = vec4<f32>(s[4u * i].x, s[4u * i + 1u].x, s[4u * i + 2u].x, s[4u * i + 3u].x);
                    let b = vec4<f32>(s[4u * i].y, s[4u * i + 1u].y, s[4u * i + 2u].y, s[4u * i + 3u].y);
                    let d = vec4<f32>(s[4u * i].z, s[4u * i + 1u].z, s[4u * i + 2u].z, s[4u * i + 3u].z);
                    let e = vec4<f32>(s[4u * i].w, s[4u * i + 1u].w, s[4u * i + 2u].w, s[4u * i + 3u].w);
                    scores[row * SCORE_STRIDE + key_lane] = ((a + b) + (d + e)) * p.scale;
                }
            }
            workgroupBarrier();
            load_tile(true, now.table, base, now.last, kv_head, local);
            if (local < ROWS) {
                state = soften(local, base, row_visible[local], state);
            }
            workgroupBarrier();
            for (var i = 0u; i < SUM_ROWS; i++) { // unroll
                let c = row_scale[sum_row + SUM_STEP * i];
                acc[2u * i] *= c;
                acc[2u * i + 1u] *= c;
            }
            if (base + KEYS <= now.least) {
                for (var kq = 0u; kq < KEY_LANES; kq++) {
                    for (var k = 0u; k < 4u; k++) { // unroll
                        let v0 = tile[(k * KEY_LANES + kq) * TILE_STRIDE + sum_lane];
                        let v1 = tile[(k * KEY_LANES + kq) * TILE_STRIDE + SUM_LANES + sum_lane];
                        for (var i = 0u; i < SUM_ROWS; i++) { // unroll
                            let e = scores[(sum_row + SUM_STEP * i) * SCORE_STRIDE + kq][k];
                            acc[2u * i] += e * v0;
                            acc[2u * i + 1u] += e * v1;
                        }
                    }
                }
            } else {
                // Some row must not see some of these values, not even as 0 * NaN.
                for (var kq = 0u; kq < KEY_LANES; kq++) {
                    for (var k = 0u; k < 4u; k++) { // unroll
                        let v0 = tile[(k * KEY_LANES + kq) * TILE_STRIDE + sum_lane];
                        let v1 = tile[(k * KEY_LANES + kq) * TILE_STRIDE + SUM_LANES + sum_lane];
                        for (var i = 0u; i < SUM_ROWS; i++) { // unroll
                            let e = scores[(sum_row + SUM_STEP * i) * SCORE_STRIDE + kq][k];
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
    if (local < ROWS) {
        row_scale[local] = state.y;
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
