// ATTENTION and ROPE_ATTENTION (src/ops/op.h) of few tokens, and of any number where no tile fits (streaming): one
// query row at a time.
//
//   out[t][h] = softmax over j <= position(t) of (q[t][h] K[j] / sqrt(head_dim)) V[j]
//
// A workgroup has HEADS query heads of one KV head and a span of the positions. TEAM invocations share a position: each
// holds VECS blocks of 8 elements of K, V, q and the sum, so K and V are read once, 16 bytes at a time and in rows.
// Every team keeps an online softmax of its own (exponents of 2; no barrier in the loop with SUBGROUPS), then the
// workgroup's teams are merged in one step. The span grows with the position: all splits together cover it, at least
// p.min_span positions each, and those beyond it do nothing. Where one span is all, its workgroup writes the result.
// Otherwise each leaves (sum, m, l) in scratch, and the last one to arrive merges them (p.merge), or
// attention_combine.wgsl does.
//
// p.fused (ROPE_ATTENTION): x is the row of q, k and v before rotation. Every workgroup rotates its q in registers;
// those that own the last position rotate its k too and use it and v from registers, and one for each KV head writes
// them to the caches.
//
//   groups     (n_kv_heads * head_blocks, splits, most rows)
//   x          rows of x_stride quads: q from quad x_first; fused: k and v of the row from quads k_first, v_first
//   table      fused: [positions][head_dim / 2] (cos, sin)
//   k_cache, v_cache  pages [pages][n_kv_heads][32][head_dim], f16 or f32; positions not visible are never read
//   result     rows of out_stride quads from quad out_first
//   scratch    counters, one for each (t, group.x), zero before and after; from word partials [t][group.x][split] HEADS
//              states of head_dim sums, then m (of exponents of 2) and l, padded to (8 + head_dim) words
//   params     word count_word holds the number of rows; from positions_word and sequences_word their positions and
//              rows of PAGES
// head_dim: a multiple of 8, at most 8 TEAM VECS. Lanes of a team are neighbours in a subgroup (local index and
// subgroup index agree).
enable subgroups; // subgroups only

override WORKGROUP: u32 = 128;
override TEAM: u32 = 16;     // 4, 8, 16 or 32
override VECS: u32 = 1;      // HEADS * VECS at most 4
override HEADS: u32 = 1;     // query heads of a workgroup
override UNROLL: u32 = 2;    // positions of a team in flight; UNROLL * VECS and UNROLL * HEADS at most 4
override F16: bool = true;   // the caches hold f16, or f32
override SUBGROUPS: u32 = 0; // 1: sums over a team by shuffles
override TEAMS: u32 = WORKGROUP / TEAM;

struct P {
    head_dim: u32,
    n_kv_heads: u32,
    group: u32, // query heads of a KV head
    head_blocks: u32, // ceil(group / HEADS)
    count_word: u32,
    positions_word: u32,
    sequences_word: u32,
    pages_word: u32,
    max_pages: u32,
    x_first: u32,
    x_stride: u32,
    k_first: u32,
    v_first: u32,
    out_first: u32,
    out_stride: u32,
    scale: f32, // log2(e) / sqrt(head_dim)
    split_bits: u32, // 2 to the power of it are the splits, at most TEAMS
    min_span: u32,
    fused: u32,
    adjacent: u32,
    merge: u32,
    partials: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> table: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> k_cache: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> v_cache: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> result: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> scratch: array<atomic<u32>>; // coherent

const NOTHING: f32 = -3.4028234e38; // the maximum of no scores

var<workgroup> visible_and_table: vec2<u32>; // visible positions, first entry of the page table
var<workgroup> dots: array<f32, WORKGROUP * UNROLL * HEADS * (1u - SUBGROUPS) + 1u>;
var<workgroup> team_m: array<f32, TEAMS * HEADS>;
var<workgroup> team_l: array<f32, TEAMS * HEADS>;
var<workgroup> team_acc: array<vec4<f32>, WORKGROUP * HEADS * VECS * 2u>; // [head][team][quad]
var<workgroup> is_last: u32;

// A team's part of the softmax; block i of head h at (h * VECS + i) * 2.
var<private> q: array<vec4<f32>, 8>;
var<private> acc: array<vec4<f32>, 8>;
var<private> m: array<f32, 4>;
var<private> l: array<f32, 4>;
// Positions on their way: bits of block i of position u at (u * VECS + i) * 4, K then V, two vec4 each where they are
// f32.
var<private> held: array<vec4<u32>, 16>;
// Positions at hand: block i of position u at (u * VECS + i) * 2.
var<private> keys: array<vec4<f32>, 8>;
var<private> values: array<vec4<f32>, 8>;
// The new token's own.
var<private> new_keys: array<vec4<f32>, 8>;
var<private> new_values: array<vec4<f32>, 8>;
var<private> scores: array<f32, 16>; // [UNROLL][HEADS]

struct Block {
    low: vec4<f32>,
    high: vec4<f32>,
}

fn halves(bits: vec4<u32>) -> Block {
    let low = vec4<f32>(unpack2x16float(bits.x), unpack2x16float(bits.y));
    return Block(low, vec4<f32>(unpack2x16float(bits.z), unpack2x16float(bits.w)));
}

fn packed(b: Block) -> vec4<u32> {
    let low = vec2<u32>(pack2x16float(b.low.xy), pack2x16float(b.low.zw));
    return vec4<u32>(low, pack2x16float(b.high.xy), pack2x16float(b.high.zw));
}

// What the caches will hold of a block. Drivers take unpacking what was packed for nothing to do, and leave out the
// rounding; p.fused is 0 or 1, which they cannot know.
fn rounded(b: Block) -> Block {
    return halves(packed(b) | vec4<u32>(p.fused >> 1u));
}

// A lane past the head's end has the last block's elements, which count for nothing.
fn block_of(lane: u32, i: u32) -> u32 {
    return min(lane + TEAM * i, p.head_dim / 8u - 1u);
}

fn is_live(lane: u32, i: u32) -> bool {
    return (lane + TEAM * i) * 8u < p.head_dim;
}

// What quad c of a head is rotated with at a position: rotated = own * cosines + other * sines, `other` from
// partner_of(c).
struct Angles {
    cosines: vec4<f32>,
    sines: vec4<f32>,
}

fn angles_of(position: u32, c: u32) -> Angles {
    let quads = p.head_dim / 4u;
    let adjacent = p.adjacent != 0u;
    let upper = c * 8u >= p.head_dim;
    let k = 2u * select(c, c - quads / 2u, upper);
    let t0 = table[position * quads + select(k, c, adjacent)];
    let t1 = table[position * quads + select(k + 1u, c, adjacent)];
    let sines = vec4<f32>(t0.yw, t1.yw);
    return Angles(select(vec4<f32>(t0.xz, t1.xz), t0.xxzz, adjacent),
                  select(select(-sines, sines, upper), vec4<f32>(-t0.y, t0.y, -t0.w, t0.w), adjacent));
}

fn partner_of(c: u32) -> u32 {
    let half = p.head_dim / 8u;
    return select(select(c + half, c - half, c >= half), c, p.adjacent != 0u);
}

fn rotated(start: u32, c: u32, angles: Angles) -> vec4<f32> {
    let other = x[start + partner_of(c)];
    return x[start + c] * angles.cosines + select(other, other.yxwz, p.adjacent != 0u) * angles.sines;
}

// Blocks of the queries, scaled for exponents of 2. A head past the last one has the last one's.
fn load_queries(row: u32, n_heads: u32, lane: u32) {
    for (var h = 0u; h < HEADS; h++) { // unroll
        let start = row + min(h, n_heads - 1u) * (p.head_dim / 4u);
        for (var i = 0u; i < VECS; i++) { // unroll
            let quad = 2u * block_of(lane, i);
            q[(h * VECS + i) * 2u] = x[start + quad] * p.scale;
            q[(h * VECS + i) * 2u + 1u] = x[start + quad + 1u] * p.scale;
        }
    }
}

// The same from what is not rotated yet, and the token's own k and v, as the caches will hold them.
fn load_token(row: u32, first_head: u32, n_heads: u32, kv_head: u32, lane: u32, position: u32) {
    let quads = p.head_dim / 4u;
    let k_start = row + p.k_first + kv_head * quads;
    let v_start = row + p.v_first + kv_head * quads;
    for (var i = 0u; i < VECS; i++) { // unroll
        let quad = 2u * block_of(lane, i);
        let low = angles_of(position, quad);
        let high = angles_of(position, quad + 1u);
        for (var h = 0u; h < HEADS; h++) { // unroll
            let start = row + p.x_first + (first_head + min(h, n_heads - 1u)) * quads;
            q[(h * VECS + i) * 2u] = rotated(start, quad, low) * p.scale;
            q[(h * VECS + i) * 2u + 1u] = rotated(start, quad + 1u, high) * p.scale;
        }
        var k = Block(rotated(k_start, quad, low), rotated(k_start, quad + 1u, high));
        var v = Block(x[v_start + quad], x[v_start + quad + 1u]);
        if (F16) {
            k = rounded(k);
            v = rounded(v);
        }
        new_keys[2u * i] = k.low;
        new_keys[2u * i + 1u] = k.high;
        new_values[2u * i] = v.low;
        new_values[2u * i + 1u] = v.high;
    }
}

// The token's own k and v to row `slot` of the caches.
fn store_token(slot: u32, lane: u32) {
    for (var i = 0u; i < VECS; i++) { // unroll
        if (is_live(lane, i)) {
            let k = Block(new_keys[2u * i], new_keys[2u * i + 1u]);
            let v = Block(new_values[2u * i], new_values[2u * i + 1u]);
            if (F16) {
                let block = slot * (p.head_dim / 8u) + block_of(lane, i);
                k_cache[block] = packed(k);
                v_cache[block] = packed(v);
            } else {
                let quad = slot * (p.head_dim / 4u) + 2u * block_of(lane, i);
                k_cache[quad] = bitcast<vec4<u32>>(k.low);
                k_cache[quad + 1u] = bitcast<vec4<u32>>(k.high);
                v_cache[quad] = bitcast<vec4<u32>>(v.low);
                v_cache[quad + 1u] = bitcast<vec4<u32>>(v.high);
            }
        }
    }
}

// The row of the caches where position j lies.
fn slot_of(first_entry: u32, j: u32, kv_head: u32) -> u32 {
    return (params[first_entry + (j >> 5u)] * p.n_kv_heads + kv_head) * 32u + (j & 31u);
}

// Sends for the team's next positions. Past the end it is the last one again, which does not count: no load waits for a
// condition, and many are under way at once.
fn fetch(first_entry: u32, base: u32, last: u32, kv_head: u32, team: u32, lane: u32) {
    var slots: array<u32, 4>;
    for (var u = 0u; u < UNROLL; u++) { // unroll
        slots[u] = slot_of(first_entry, min(base + u * TEAMS + team, last - 1u), kv_head);
    }
    for (var u = 0u; u < UNROLL; u++) { // unroll
        for (var i = 0u; i < VECS; i++) { // unroll
            let at = (u * VECS + i) * 4u;
            if (F16) {
                let block = slots[u] * (p.head_dim / 8u) + block_of(lane, i);
                held[at] = k_cache[block];
                held[at + 2u] = v_cache[block];
            } else {
                let quad = slots[u] * (p.head_dim / 4u) + 2u * block_of(lane, i);
                held[at] = k_cache[quad];
                held[at + 1u] = k_cache[quad + 1u];
                held[at + 2u] = v_cache[quad];
                held[at + 3u] = v_cache[quad + 1u];
            }
        }
    }
}

fn take() {
    for (var b = 0u; b < UNROLL * VECS; b++) { // unroll
        var k = Block(bitcast<vec4<f32>>(held[4u * b]), bitcast<vec4<f32>>(held[4u * b + 1u]));
        var v = Block(bitcast<vec4<f32>>(held[4u * b + 2u]), bitcast<vec4<f32>>(held[4u * b + 3u]));
        if (F16) {
            k = halves(held[4u * b]);
            v = halves(held[4u * b + 2u]);
        }
        keys[2u * b] = k.low;
        keys[2u * b + 1u] = k.high;
        values[2u * b] = v.low;
        values[2u * b + 1u] = v.high;
    }
}

fn take_token() {
    for (var i = 0u; i < 2u * VECS; i++) { // unroll
        keys[i] = new_keys[i];
        values[i] = new_values[i];
    }
}

// The sum over a team; without SUBGROUPS what it was.
fn over_team(mine: f32) -> f32 {
    var s = mine;
    // Steps that a loop would hide from unrolling.
    if (TEAM > 16u) { // subgroups only
        s += subgroupShuffleXor(s, 16u); // subgroups only
    } // subgroups only
    if (TEAM > 8u) { // subgroups only
        s += subgroupShuffleXor(s, 8u); // subgroups only
    } // subgroups only
    if (TEAM > 4u) { // subgroups only
        s += subgroupShuffleXor(s, 4u); // subgroups only
    } // subgroups only
    s += subgroupShuffleXor(s, 2u); // subgroups only
    s += subgroupShuffleXor(s, 1u); // subgroups only
    return s;
}

// scores[u][h] = q[h] keys[u], summed over the team, for the first n of UNROLL.
fn score(n: u32, local: u32, lane: u32) {
    for (var u = 0u; u < n; u++) { // unroll
        for (var h = 0u; h < HEADS; h++) { // unroll
            var s = 0.0;
            for (var i = 0u; i < VECS; i++) { // unroll
                let a = (h * VECS + i) * 2u;
                let b = (u * VECS + i) * 2u;
                let sum = q[a] * keys[b] + q[a + 1u] * keys[b + 1u];
                s += select(0.0, (sum.x + sum.y) + (sum.z + sum.w), is_live(lane, i));
            }
            scores[u * HEADS + h] = over_team(s);
        }
    }
    if (SUBGROUPS == 0u) {
        workgroupBarrier();
        for (var i = 0u; i < n * HEADS; i++) { // unroll
            dots[i * WORKGROUP + local] = scores[i];
        }
        workgroupBarrier();
        for (var i = 0u; i < n * HEADS; i++) { // unroll
            var s = 0.0;
            for (var k = 0u; k < TEAM; k++) {
                s += dots[i * WORKGROUP + local - lane + k];
            }
            scores[i] = s;
        }
    }
}

// The positions in flight join the team's softmax; bit u of `visible` says which count.
fn accumulate(n: u32, visible: u32) {
    for (var h = 0u; h < HEADS; h++) { // unroll
        var highest = m[h];
        for (var u = 0u; u < n; u++) { // unroll
            let s = scores[u * HEADS + h];
            // A NaN is no maximum.
            highest = select(highest, s, (visible & (1u << u)) != 0u && s > highest);
        }
        let c = exp2(m[h] - highest);
        m[h] = highest;
        l[h] *= c;
        for (var i = 0u; i < 2u * VECS; i++) { // unroll
            acc[h * VECS * 2u + i] *= c;
        }
        for (var u = 0u; u < n; u++) { // unroll
            let e = select(0.0, exp2(scores[u * HEADS + h] - highest), (visible & (1u << u)) != 0u);
            l[h] += e;
            for (var i = 0u; i < 2u * VECS; i++) { // unroll
                acc[h * VECS * 2u + i] += e * values[u * VECS * 2u + i];
            }
        }
    }
}

// The teams' states to workgroup memory. Barriers around it are the caller's.
fn put_states(team: u32, lane: u32) {
    for (var h = 0u; h < HEADS; h++) { // unroll
        if (lane == 0u) {
            team_m[h * TEAMS + team] = m[h];
            team_l[h * TEAMS + team] = l[h];
        }
        for (var i = 0u; i < VECS; i++) { // unroll
            let at = (h * TEAMS + team) * TEAM * VECS * 2u + (lane + TEAM * i) * 2u;
            team_acc[at] = acc[(h * VECS + i) * 2u];
            team_acc[at + 1u] = acc[(h * VECS + i) * 2u + 1u];
        }
    }
}

struct Merged {
    sum: vec4<f32>,
    m: f32,
    l: f32,
}

// Quad c of head h of all teams together.
fn merged(h: u32, c: u32) -> Merged {
    var r = Merged(vec4<f32>(), team_m[h * TEAMS], 0.0);
    for (var i = 1u; i < TEAMS; i++) { // unroll
        r.m = max(r.m, team_m[h * TEAMS + i]);
    }
    for (var i = 0u; i < TEAMS; i++) { // unroll
        let at = h * TEAMS + i;
        let f = exp2(team_m[at] - r.m);
        r.l += f * team_l[at];
        r.sum += f * team_acc[at * TEAM * VECS * 2u + c];
    }
    return r;
}

fn write_result(row: u32, n_heads: u32, local: u32) {
    for (var h = 0u; h < n_heads; h++) {
        for (var c = local; c * 4u < p.head_dim; c += WORKGROUP) {
            let r = merged(h, c);
            result[row + h * (p.head_dim / 4u) + c] = r.sum / r.l;
        }
    }
}

fn write_partial(state: u32, n_heads: u32, local: u32) {
    for (var h = 0u; h < n_heads; h++) {
        let at = state + h * (p.head_dim + 8u);
        for (var c = local; c * 4u < p.head_dim; c += WORKGROUP) {
            let r = merged(h, c);
            for (var i = 0u; i < 4u; i++) { // unroll
                atomicStore(&scratch[at + 4u * c + i], bitcast<u32>(r.sum[i]));
            }
            if (c == 0u) {
                atomicStore(&scratch[at + p.head_dim], bitcast<u32>(r.m));
                atomicStore(&scratch[at + p.head_dim + 1u], bitcast<u32>(r.l));
            }
        }
    }
}

fn scratch_quad(at: u32) -> vec4<f32> {
    let low = vec2<u32>(atomicLoad(&scratch[at]), atomicLoad(&scratch[at + 1u]));
    return bitcast<vec4<f32>>(vec4<u32>(low, atomicLoad(&scratch[at + 2u]), atomicLoad(&scratch[at + 3u])));
}

// The state of split `team` into the team's registers.
fn load_partial(state: u32, n_heads: u32, lane: u32, there: bool) {
    for (var h = 0u; h < HEADS; h++) { // unroll
        m[h] = NOTHING;
        l[h] = 0.0;
        let at = state + h * (p.head_dim + 8u);
        let live = there && h < n_heads;
        if (live) {
            m[h] = bitcast<f32>(atomicLoad(&scratch[at + p.head_dim]));
            l[h] = bitcast<f32>(atomicLoad(&scratch[at + p.head_dim + 1u]));
        }
        for (var i = 0u; i < VECS; i++) { // unroll
            let block = lane + TEAM * i;
            var a = vec4<f32>();
            var b = vec4<f32>();
            if (live && is_live(lane, i)) {
                a = scratch_quad(at + block * 8u);
                b = scratch_quad(at + block * 8u + 4u);
            }
            acc[(h * VECS + i) * 2u] = a;
            acc[(h * VECS + i) * 2u + 1u] = b;
        }
    }
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let t = group.z;
    let kv_head = group.x / p.head_blocks;
    let block = group.x - kv_head * p.head_blocks;
    if (local == 0u) {
        let there = t < params[p.count_word];
        let position = params[p.positions_word + t];
        let first_entry = p.pages_word + params[p.sequences_word + t] * p.max_pages;
        visible_and_table = vec2<u32>(select(0u, position + 1u, there), first_entry);
        is_last = 0u;
    }
    let now = workgroupUniformLoad(&visible_and_table);
    let n = now.x;
    let splits = 1u << p.split_bits;
    let span = max(p.min_span, (n + splits - 1u) >> p.split_bits);
    let first = group.y * span;
    if (first < n) {
        let position = n - 1u;
        let end = min(n, first + span);
        let first_head = kv_head * p.group + block * HEADS;
        let n_heads = min(HEADS, p.group - block * HEADS);
        let team = local / TEAM;
        let lane = local % TEAM;
        for (var h = 0u; h < HEADS; h++) { // unroll
            m[h] = NOTHING;
            l[h] = 0.0;
            for (var i = 0u; i < 2u * VECS; i++) { // unroll
                acc[h * VECS * 2u + i] = vec4<f32>();
            }
        }
        let row = t * p.x_stride;
        let owns_new = p.fused != 0u && end == n;
        let last = select(end, position, owns_new);
        let new_slot = slot_of(now.y, position, kv_head);
        if (first < last) {
            fetch(now.y, first, last, kv_head, team, lane);
        }
        if (p.fused != 0u) {
            load_token(row, first_head, n_heads, kv_head, lane, position);
        } else {
            load_queries(row + p.x_first + first_head * (p.head_dim / 4u), n_heads, lane);
        }
        if (owns_new && block == 0u && team == 0u) {
            store_token(new_slot, lane);
        }
        for (var base = first; base < last; base += TEAMS * UNROLL) {
            var visible = 0u;
            for (var u = 0u; u < UNROLL; u++) { // unroll
                visible |= select(0u, 1u << u, base + u * TEAMS + team < last);
            }
            take();
            if (base + TEAMS * UNROLL < last) {
                fetch(now.y, base + TEAMS * UNROLL, last, kv_head, team, lane);
            }
            score(UNROLL, local, lane);
            accumulate(UNROLL, visible);
        }
        if (owns_new) {
            take_token();
            score(1u, local, lane);
            accumulate(1u, select(0u, 1u, team == 0u));
        }
        put_states(team, lane);
        workgroupBarrier();
        let out_row = p.out_first + t * p.out_stride + first_head * (p.head_dim / 4u);
        let state_words = HEADS * (p.head_dim + 8u);
        let item = t * p.n_kv_heads * p.head_blocks + group.x;
        let states = p.partials + item * splits * state_words;
        if (span >= n) {
            write_result(out_row, n_heads, local);
        } else {
            write_partial(states + group.y * state_words, n_heads, local);
        }
        if (span < n && p.merge != 0u) {
            let spans = (n + span - 1u) / span;
            storageBarrier();
            if (local == 0u) {
                is_last = u32(atomicAdd(&scratch[item], 1u) == spans - 1u);
            }
            if (workgroupUniformLoad(&is_last) != 0u) {
                storageBarrier();
                load_partial(states + team * state_words, n_heads, lane, team < spans);
                put_states(team, lane);
                workgroupBarrier();
                write_result(out_row, n_heads, local);
                if (local == 0u) {
                    atomicStore(&scratch[item], 0u);
                }
            }
        }
    }
}
