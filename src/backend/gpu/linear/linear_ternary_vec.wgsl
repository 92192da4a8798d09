// LINEAR of ternary weights (src/ops/op.h), a token for each row of workgroups:
//
//   out[t][r] = (sum_c code[r][c] q[t][c] - sum_c q[t][c]) * (inv_scale[t] * scale) + residual[t][r],  code = w + 1
//   GATED:      out[t][r] = act(row r of part 0) * (row r of part 1)
//   NORM:       q, inv_scale = int8(x[t] / sqrt(mean(x[t]^2) + eps) * norm_weight), made anew by every workgroup;
//               else they are a Q8 value's
//
//   groups     (groups of WORKGROUP / LANES * BLOCKS rows of all parts, most tokens)
//   params     word count_word: the number of tokens
//   x          NORM: rows of x_stride vec4 of f32 from x_first, cols a multiple of 4; else a Q8 value: int8 rows of
//              x_stride vec4 words, f32 inverse scales at word scales_word, i32 sums at word sums_word
//   norm_weight       [cols] f32, finite (NORM)
//   w0, w1, w2 the parts: rows of `chunks` vec4 words in i2_s groups (two chunks for 128 columns); row scales from
//              word row_scales, 0: none
//   residual   [tokens] rows of residual_stride floats from residual_first (flag 1); flag 4: it is what result holds
//   result     [tokens] rows of out_stride floats from out_first
//
// LANES invocations share a row; each asks for its first CHUNKS chunks (of both rows, when GATED) before the row of x
// is made, so that the weights are on their way meanwhile. Word i (0..7) of a group holds columns 4i.. of
// each quarter: shifted or masked, its four codes are 1, 4, 16 or 1 times what dot4I8Packed wants, and each quarter
// has its own sum. xs holds x so that a chunk's words come as four vec4, one for each word, of the four quarters:
// neighbouring lanes read neighbouring vec4.
//
// CLUSTER: invocations (a power of two) that are sure to be neighbours in one subgroup and share sums by shuffles, at
// least LANES; 1: none. Sums of floats in any order; int8 values may differ by one from the reference where they lie
// between two (NORM).
enable subgroups; // subgroups only

override NORM: bool = false;
override GATED: bool = false;
override PARTS: u32 = 3;     // 1: one part (or the two of a gated op)
override WORKGROUP: u32 = 256;
override LANES: u32 = 8;     // a power of two
override CHUNKS: u32 = 4;    // 1..8
override FIXED: u32 = 0;      // not 0: every row has so many chunks
override WHOLE: bool = false; // every part has whole groups of rows
override SKIP: bool = true;   // what of CHUNKS lies behind the row's end; without, it is multiplied by zeros
override BLOCKS: u32 = 1;    // so many times WORKGROUP / LANES rows, one after the other
override CLUSTER: u32 = 1;
override XCHUNKS: u32 = 240; // room for so many chunks of x
override UNITS: u32 = 4;     // NORM: 16 columns each that an invocation keeps in registers, 1..4; more are read twice

override POOL: u32 = WORKGROUP / CLUSTER;

struct P {
    count_word: u32,
    cols: u32,
    chunks: u32,
    padded: u32, // chunks that the lanes go through: those behind the row's end meet zeros in xs
    flags: u32, // 1: residual, 2: silu instead of relu2, 4: the residual lies in result already, 8: gelu
    eps: f32,
    x_first: u32,
    x_stride: u32,
    scales_word: u32,
    sums_word: u32,
    rows0: u32,
    rows1: u32,
    rows2: u32,
    block1: u32, // first block of part 1
    block2: u32,
    scale0: f32,
    scale1: f32,
    scale2: f32,
    row_scales0: u32,
    row_scales1: u32,
    row_scales2: u32,
    residual_first: u32,
    residual_stride: u32,
    out_first: u32,
    out_stride: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> norm_weight: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> w0: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> w1: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read> w2: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read_write> residual: array<f32>;
@group(0) @binding(8) var<storage, read_write> result: array<f32>;

var<workgroup> xs: array<vec4<u32>, 4 * XCHUNKS>; // word e of chunk c, all quarters: e * XCHUNKS + c
var<workgroup> pool: array<vec2<u32>, POOL>;
var<workgroup> code_sum: atomic<i32>;

// --- weights

struct Block {
    c0: vec4<u32>,
    c1: vec4<u32>,
    c2: vec4<u32>,
    c3: vec4<u32>,
    c4: vec4<u32>,
    c5: vec4<u32>,
    c6: vec4<u32>,
    c7: vec4<u32>,
}

fn n_chunks() -> u32 {
    if (FIXED != 0u) {
        return FIXED;
    }
    return p.chunks;
}

// A chunk that is there; no load waits for a condition.
fn within(c: u32) -> u32 {
    if (FIXED == LANES * CHUNKS) {
        return c;
    }
    return min(c, n_chunks() - 1u);
}

fn chunk0(at: u32, c: u32) -> vec4<u32> {
    return w0[at + within(c)];
}

fn chunk1(at: u32, c: u32) -> vec4<u32> {
    return w1[at + within(c)];
}

fn chunk2(at: u32, c: u32) -> vec4<u32> {
    return w2[at + within(c)];
}

fn block0(at: u32, c: u32) -> Block {
    var b: Block;
    b.c0 = chunk0(at, c);
    if (CHUNKS > 1u) { b.c1 = chunk0(at, c + LANES); }
    if (CHUNKS > 2u) { b.c2 = chunk0(at, c + 2u * LANES); }
    if (CHUNKS > 3u) { b.c3 = chunk0(at, c + 3u * LANES); }
    if (CHUNKS > 4u) { b.c4 = chunk0(at, c + 4u * LANES); }
    if (CHUNKS > 5u) { b.c5 = chunk0(at, c + 5u * LANES); }
    if (CHUNKS > 6u) { b.c6 = chunk0(at, c + 6u * LANES); }
    if (CHUNKS > 7u) { b.c7 = chunk0(at, c + 7u * LANES); }
    return b;
}

fn block1(at: u32, c: u32) -> Block {
    var b: Block;
    b.c0 = chunk1(at, c);
    if (CHUNKS > 1u) { b.c1 = chunk1(at, c + LANES); }
    if (CHUNKS > 2u) { b.c2 = chunk1(at, c + 2u * LANES); }
    if (CHUNKS > 3u) { b.c3 = chunk1(at, c + 3u * LANES); }
    if (CHUNKS > 4u) { b.c4 = chunk1(at, c + 4u * LANES); }
    if (CHUNKS > 5u) { b.c5 = chunk1(at, c + 5u * LANES); }
    if (CHUNKS > 6u) { b.c6 = chunk1(at, c + 6u * LANES); }
    if (CHUNKS > 7u) { b.c7 = chunk1(at, c + 7u * LANES); }
    return b;
}

fn block2(at: u32, c: u32) -> Block {
    var b: Block;
    b.c0 = chunk2(at, c);
    if (CHUNKS > 1u) { b.c1 = chunk2(at, c + LANES); }
    if (CHUNKS > 2u) { b.c2 = chunk2(at, c + 2u * LANES); }
    if (CHUNKS > 3u) { b.c3 = chunk2(at, c + 3u * LANES); }
    if (CHUNKS > 4u) { b.c4 = chunk2(at, c + 4u * LANES); }
    if (CHUNKS > 5u) { b.c5 = chunk2(at, c + 5u * LANES); }
    if (CHUNKS > 6u) { b.c6 = chunk2(at, c + 6u * LANES); }
    if (CHUNKS > 7u) { b.c7 = chunk2(at, c + 7u * LANES); }
    return b;
}

struct Blocks {
    a: Block,
    b: Block, // of part 1, when GATED
}

// Chunks c, c + LANES, ... of the row that starts at chunk `first` of its part.
fn blocks(part: u32, first: u32, c: u32) -> Blocks {
    var two: Blocks;
    if (PARTS == 1u || part == 0u) {
        two.a = block0(first, c);
        if (GATED) {
            two.b = block1(first, c);
        }
    } else if (part == 1u) {
        two.a = block1(first, c);
    } else {
        two.a = block2(first, c);
    }
    return two;
}

// --- sums

struct Sums {
    a: vec4<i32>, // by quarter: 1, 16, 4 and 1 times the sum
    b: vec4<i32>,
}

fn multiply(sum: vec4<i32>, w: vec4<u32>, x0: vec4<u32>, x1: vec4<u32>, x2: vec4<u32>, x3: vec4<u32>) -> vec4<i32> {
    return multiply_word(multiply_word(multiply_word(multiply_word(sum, w.x, x0), w.y, x1), w.z, x2), w.w, x3);
}

fn multiply_word(sum: vec4<i32>, w: u32, q: vec4<u32>) -> vec4<i32> {
    return vec4<i32>(sum.x + dot4I8Packed(q.x, (w >> 6u) & 0x03030303u), sum.y + dot4I8Packed(q.y, w & 0x30303030u),
                     sum.z + dot4I8Packed(q.z, w & 0x0c0c0c0cu), sum.w + dot4I8Packed(q.w, w & 0x03030303u));
}

fn multiply_chunk(s: Sums, a: vec4<u32>, b: vec4<u32>, c: u32) -> Sums {
    let x0 = xs[c];
    let x1 = xs[XCHUNKS + c];
    let x2 = xs[2u * XCHUNKS + c];
    let x3 = xs[3u * XCHUNKS + c];
    var r = s;
    r.a = multiply(s.a, a, x0, x1, x2, x3);
    if (GATED) {
        r.b = multiply(s.b, b, x0, x1, x2, x3);
    }
    return r;
}

// The chunks of a Block; `done`: how many all lanes have gone through before.
fn multiply_blocks(sums: Sums, w: Blocks, c: u32, done: u32) -> Sums {
    var s = multiply_chunk(sums, w.a.c0, w.b.c0, c);
    let left = select(CHUNKS * LANES, n_chunks() - done, SKIP);
    if (CHUNKS > 1u && left > LANES) { s = multiply_chunk(s, w.a.c1, w.b.c1, c + LANES); }
    if (CHUNKS > 2u && left > 2u * LANES) { s = multiply_chunk(s, w.a.c2, w.b.c2, c + 2u * LANES); }
    if (CHUNKS > 3u && left > 3u * LANES) { s = multiply_chunk(s, w.a.c3, w.b.c3, c + 3u * LANES); }
    if (CHUNKS > 4u && left > 4u * LANES) { s = multiply_chunk(s, w.a.c4, w.b.c4, c + 4u * LANES); }
    if (CHUNKS > 5u && left > 5u * LANES) { s = multiply_chunk(s, w.a.c5, w.b.c5, c + 5u * LANES); }
    if (CHUNKS > 6u && left > 6u * LANES) { s = multiply_chunk(s, w.a.c6, w.b.c6, c + 6u * LANES); }
    if (CHUNKS > 7u && left > 7u * LANES) { s = multiply_chunk(s, w.a.c7, w.b.c7, c + 7u * LANES); }
    return s;
}

fn joined(s: vec4<i32>) -> i32 {
    return s.x + (s.y >> 4u) + (s.z >> 2u) + s.w;
}

// The sums of a row's lanes, for its first lane at least. All invocations call it.
fn row_sums(mine: vec2<i32>, local: u32) -> vec2<i32> {
    var sum = mine;
    if (CLUSTER > 1u) {
        if (LANES > 16u) { sum += subgroupShuffleXor(sum, 16u); } // subgroups only
        if (LANES > 8u) { sum += subgroupShuffleXor(sum, 8u); } // subgroups only
        if (LANES > 4u) { sum += subgroupShuffleXor(sum, 4u); } // subgroups only
        if (LANES > 2u) { sum += subgroupShuffleXor(sum, 2u); } // subgroups only
        if (LANES > 1u) { sum += subgroupShuffleXor(sum, 1u); } // subgroups only
    } else {
        pool[local] = bitcast<vec2<u32>>(mine);
        workgroupBarrier();
        for (var i = 1u; i < LANES; i++) {
            sum += bitcast<vec2<i32>>(pool[(local + i) % WORKGROUP]);
        }
    }
    return sum;
}

// --- x

// One vec4 of xs: word i of a group is columns 4i .. 4i + 3 of each quarter.
struct Unit {
    q0: vec4<f32>,
    q1: vec4<f32>,
    q2: vec4<f32>,
    q3: vec4<f32>,
}

struct Normed {
    y: Unit, // x * norm_weight
    squares: f32,
    top: f32, // of |y|
}

fn largest(v: vec4<f32>) -> f32 {
    let a = abs(v);
    return max(max(a.x, a.y), max(a.z, a.w));
}

fn normed_unit(before: Normed, row: u32, unit: u32) -> Normed {
    let at = (unit >> 3u) * 32u + (unit & 7u);
    let n = p.cols >> 2u;
    let at0 = min(at, n - 1u); // no load waits for a condition
    let at1 = min(at + 8u, n - 1u);
    let at2 = min(at + 16u, n - 1u);
    let at3 = min(at + 24u, n - 1u);
    let raw0 = x[row + at0];
    let raw1 = x[row + at1];
    let raw2 = x[row + at2];
    let raw3 = x[row + at3];
    let norm_weight0 = norm_weight[at0];
    let norm_weight1 = norm_weight[at1];
    let norm_weight2 = norm_weight[at2];
    let norm_weight3 = norm_weight[at3];
    let zero = vec4<f32>();
    let x0 = select(zero, bitcast<vec4<f32>>(raw0), at < n);
    let x1 = select(zero, bitcast<vec4<f32>>(raw1), at + 8u < n);
    let x2 = select(zero, bitcast<vec4<f32>>(raw2), at + 16u < n);
    let x3 = select(zero, bitcast<vec4<f32>>(raw3), at + 24u < n);
    let y = Unit(x0 * norm_weight0, x1 * norm_weight1, x2 * norm_weight2, x3 * norm_weight3);
    let top = max(max(largest(y.q0), largest(y.q1)), max(largest(y.q2), largest(y.q3)));
    let squares = (dot(x0, x0) + dot(x1, x1)) + (dot(x2, x2) + dot(x3, x3));
    return Normed(y, before.squares + squares, max(before.top, top));
}

fn joined_pair(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(a.x + b.x, max(a.y, b.y));
}

// Entries first, first + 16, ... of the pool.
fn pool_stride(first: u32) -> vec2<f32> {
    var both = bitcast<vec2<f32>>(pool[first]);
    for (var i = first + 16u; i < POOL; i += 16u) {
        both = with_entry(both, i);
    }
    return both;
}

fn with_entry(both: vec2<f32>, i: u32) -> vec2<f32> {
    return joined_pair(both, bitcast<vec2<f32>>(pool[i]));
}

// The first 16 entries of the pool, or as many as there are.
fn pool_start() -> vec2<f32> {
    var both = bitcast<vec2<f32>>(pool[0]);
    if (POOL > 1u) { both = with_entry(both, 1u); }
    if (POOL > 2u) { both = with_entry(with_entry(both, 2u), 3u); }
    if (POOL > 4u) { both = with_entry(with_entry(with_entry(with_entry(both, 4u), 5u), 6u), 7u); }
    if (POOL > 8u) {
        both = with_entry(with_entry(with_entry(with_entry(both, 8u), 9u), 10u), 11u);
        both = with_entry(with_entry(with_entry(with_entry(both, 12u), 13u), 14u), 15u);
    }
    return both;
}

// The sum and the maximum over the workgroup.
fn sum_and_top(squares: f32, top: f32, local: u32) -> vec2<f32> {
    var mine = vec2<f32>(squares, top);
    if (CLUSTER > 16u) { mine = joined_pair(mine, subgroupShuffleXor(mine, 16u)); } // subgroups only
    if (CLUSTER > 8u) { mine = joined_pair(mine, subgroupShuffleXor(mine, 8u)); } // subgroups only
    if (CLUSTER > 4u) { mine = joined_pair(mine, subgroupShuffleXor(mine, 4u)); } // subgroups only
    if (CLUSTER > 2u) { mine = joined_pair(mine, subgroupShuffleXor(mine, 2u)); } // subgroups only
    if (CLUSTER > 1u) { mine = joined_pair(mine, subgroupShuffleXor(mine, 1u)); } // subgroups only
    if (local % CLUSTER == 0u) {
        pool[local / CLUSTER] = bitcast<vec2<u32>>(mine);
    }
    if (local == 0u) {
        atomicStore(&code_sum, 0);
    }
    workgroupBarrier();
    if (POOL > 16u) { // first into 16
        if (local < 16u) {
            pool[local] = bitcast<vec2<u32>>(pool_stride(local));
        }
        workgroupBarrier();
    }
    return pool_start();
}

fn int8_word(v: vec4<f32>, norm: f32, scale: f32) -> u32 {
    let i = vec4<i32>(round(v * norm * scale)); // within -127 .. 127, since scale is of the largest
    let b = bitcast<vec4<u32>>(i) & vec4<u32>(0xffu); // by hand: naga's pack4xI8 wants 8-bit integers of the device
    return b.x | (b.y << 8u) | (b.z << 16u) | (b.w << 24u);
}

struct Scaling {
    norm: f32,
    scale: f32,
    mask: vec4<u32>,
}

// Of the sum of a row's squares, and the largest of |x norm_weight|. Where the sum is no number or infinite, the normed values
// are all 0 or NaN, and so their int8 are 0 (src/ops/ref/ref.h). 127 and the divisor are divided by 16: devices may
// divide by more than 2^126 as if it were infinite.
fn scaling_of(squares: f32, top: f32) -> Scaling {
    let real = (bitcast<u32>(squares) & 0x7f800000u) != 0x7f800000u;
    let norm = select(0.0, 1.0 / sqrt(squares / f32(p.cols) + p.eps), real);
    let most = select(0.0, top * norm, real);
    return Scaling(norm, 7.9375 / max(0.0625 * most, 6.25e-7), vec4<u32>(select(0u, 0xffffffffu, real)));
}

// Stores a unit as int8; gives the sum of its values.
fn store_unit(unit: u32, y: Unit, by: Scaling) -> i32 {
    let words = by.mask & vec4<u32>(int8_word(y.q0, by.norm, by.scale), int8_word(y.q1, by.norm, by.scale),
                                    int8_word(y.q2, by.norm, by.scale), int8_word(y.q3, by.norm, by.scale));
    let ones = 0x01010101u;
    if (unit < 4u * XCHUNKS) {
        xs[(unit & 3u) * XCHUNKS + (unit >> 2u)] = words;
    }
    return dot4I8Packed(words.x, ones) + dot4I8Packed(words.y, ones) + dot4I8Packed(words.z, ones) +
           dot4I8Packed(words.w, ones);
}

struct Row {
    inverse: f32,
    sum: i32,
}

// Norm and quantiser of row t, into xs. leader: the first of its subgroup; without subgroups, all are.
fn make_row(t: u32, local: u32, leader: bool) -> Row {
    let row = p.x_first + t * p.x_stride;
    var n: Normed;
    if (UNITS > 1u || local < 4u * n_chunks()) { // whole subgroups may have nothing to do
        n = normed_unit(n, row, local);
    }
    let y0 = n.y;
    if (UNITS > 1u) { n = normed_unit(n, row, local + WORKGROUP); }
    let y1 = n.y;
    if (UNITS > 2u) { n = normed_unit(n, row, local + 2u * WORKGROUP); }
    let y2 = n.y;
    if (UNITS > 3u) { n = normed_unit(n, row, local + 3u * WORKGROUP); }
    let y3 = n.y;
    if (UNITS * WORKGROUP < 4u * XCHUNKS) { // too many to keep: read again below
        for (var unit = local + UNITS * WORKGROUP; unit < 4u * p.padded; unit += WORKGROUP) {
            n = normed_unit(n, row, unit);
        }
    }
    let both = sum_and_top(n.squares, n.top, local);
    let by = scaling_of(both.x, both.y);
    var sum = 0;
    if (UNITS > 1u || local < 4u * XCHUNKS) {
        sum = store_unit(local, y0, by);
    }
    if (UNITS > 1u) { sum += store_unit(local + WORKGROUP, y1, by); }
    if (UNITS > 2u) { sum += store_unit(local + 2u * WORKGROUP, y2, by); }
    if (UNITS > 3u) { sum += store_unit(local + 3u * WORKGROUP, y3, by); }
    if (UNITS * WORKGROUP < 4u * XCHUNKS) {
        for (var unit = local + UNITS * WORKGROUP; unit < 4u * p.padded; unit += WORKGROUP) {
            sum += store_unit(unit, normed_unit(Normed(), row, unit).y, by);
        }
    }
    sum = subgroupAdd(sum); // subgroups only
    if (leader) {
        atomicAdd(&code_sum, sum);
    }
    workgroupBarrier();
    return Row(1.0 / by.scale, atomicLoad(&code_sum));
}

fn x_word(word: u32) -> u32 {
    return x[word >> 2u][word & 3u];
}

// Row t of a Q8 value, into xs.
fn copy_row(t: u32, local: u32) -> Row {
    for (var c = local; c < p.padded; c += WORKGROUP) {
        let at = t * p.x_stride + (within(c) >> 1u) * 8u + (within(c) & 1u);
        let mask = vec4<u32>(select(0u, 0xffffffffu, c < n_chunks()));
        let q0 = x[at] & mask;
        let q1 = x[at + 2u] & mask;
        let q2 = x[at + 4u] & mask;
        let q3 = x[at + 6u] & mask;
        xs[c] = vec4<u32>(q0.x, q1.x, q2.x, q3.x);
        xs[XCHUNKS + c] = vec4<u32>(q0.y, q1.y, q2.y, q3.y);
        xs[2u * XCHUNKS + c] = vec4<u32>(q0.z, q1.z, q2.z, q3.z);
        xs[3u * XCHUNKS + c] = vec4<u32>(q0.w, q1.w, q2.w, q3.w);
    }
    let row = Row(bitcast<f32>(x_word(p.scales_word + t)), bitcast<i32>(x_word(p.sums_word + t)));
    workgroupBarrier();
    return row;
}

// --- results

// Where an invocation works.
struct Place {
    part: u32,
    rows: u32, // of the part
    col: u32,  // of the part's first row in the output
    lane: u32,
    r: u32,     // its row
    first: u32, // chunk where that starts
}

fn with_row(place: Place, r: u32) -> Place {
    var q = place;
    q.r = r;
    let last = select(place.rows - 1u, 0xffffffffu, WHOLE);
    q.first = min(r, last) * n_chunks();
    return q;
}

fn place_of(group: u32, local: u32) -> Place {
    var q = Place(0u, p.rows0, 0u, local % LANES, 0u, 0u);
    var block = group;
    if (PARTS > 1u && group >= p.block2) {
        q.part = 2u;
        block -= p.block2;
        q.rows = p.rows2;
        q.col = p.rows0 + p.rows1;
    } else if (PARTS > 1u && group >= p.block1) {
        q.part = 1u;
        block -= p.block1;
        q.rows = p.rows1;
        q.col = p.rows0;
    }
    return with_row(q, block * BLOCKS * (WORKGROUP / LANES) + local / LANES);
}

// The same place in the workgroup's next block.
fn moved(place: Place) -> Place {
    return with_row(place, place.r + WORKGROUP / LANES);
}

fn word0(word: u32) -> f32 {
    return bitcast<f32>(w0[word >> 2u][word & 3u]);
}

fn word1(word: u32) -> f32 {
    return bitcast<f32>(w1[word >> 2u][word & 3u]);
}

fn word2(word: u32) -> f32 {
    return bitcast<f32>(w2[word >> 2u][word & 3u]);
}

fn weight_scale(part: u32, r: u32) -> f32 {
    var scale = p.scale0;
    if (part == 0u) {
        if (p.row_scales0 != 0u) { scale = word0(p.row_scales0 + r); }
    } else if (part == 1u) {
        scale = p.scale1;
        if (p.row_scales1 != 0u) { scale = word1(p.row_scales1 + r); }
    } else {
        scale = p.scale2;
        if (p.row_scales2 != 0u) { scale = word2(p.row_scales2 + r); }
    }
    return scale;
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

// What is added to the row of a place, for the invocation that writes it: nobody else may read what it writes.
fn addend(place: Place, t: u32) -> f32 {
    let col = place.col + place.r;
    var v = 0.0;
    if (!GATED && place.lane == 0u && place.r < place.rows) {
        if ((p.flags & 1u) != 0u) {
            v = residual[p.residual_first + t * p.residual_stride + col];
        } else if ((p.flags & 4u) != 0u) {
            v = result[p.out_first + t * p.out_stride + col];
        }
    }
    return v;
}

// Multiplies the row of a place with xs, from its first chunks `w` on, and writes the result.
fn finish(place: Place, w: Blocks, row: Row, plus: f32, t: u32, count: u32, local: u32) {
    let step = LANES * CHUNKS;
    var c = place.lane;
    var sums = multiply_blocks(Sums(), w, c, 0u);
    if (FIXED != step) {
        for (var done = step; done < n_chunks(); done += step) {
            c += step;
            sums = multiply_blocks(sums, blocks(place.part, place.first, c), c, done);
        }
    }
    let dots = row_sums(vec2<i32>(joined(sums.a), joined(sums.b)), local);
    let r = place.r;
    if (place.lane == 0u && r < place.rows && t < count) {
        let at = p.out_first + t * p.out_stride + place.col + r;
        let a = f32(dots.x - row.sum) * (row.inverse * weight_scale(place.part, r));
        if (GATED) {
            result[at] = activation(a, f32(dots.y - row.sum) * (row.inverse * weight_scale(1u, r)));
        } else {
            result[at] = a + plus;
        }
    }
}

@compute @workgroup_size(WORKGROUP)
fn main(
        @builtin(subgroup_invocation_id) invocation: u32, // subgroups only
        @builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    var leader = true;
    leader = invocation == 0u; // subgroups only
    let t = group.y;
    var place = place_of(group.x, local);
    var w = blocks(place.part, place.first, place.lane);
    var plus = addend(place, t);
    let count = params[p.count_word];
    var row: Row;
    if (NORM) {
        row = make_row(t, local, leader);
    } else {
        row = copy_row(t, local);
    }
    finish(place, w, row, plus, t, count, local);
    for (var i = 1u; i < BLOCKS; i++) {
        if (CLUSTER == 1u) {
            workgroupBarrier(); // the pool is used again
        }
        place = moved(place);
        w = blocks(place.part, place.first, place.lane);
        plus = addend(place, t);
        finish(place, w, row, plus, t, count, local);
    }
}
