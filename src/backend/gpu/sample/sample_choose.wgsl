// SAMPLE (src/ops/op.h), second of two: the top_k highest logits, the cuts, the draw, and what the next step reads.
//
//   groups     (1)
//   logits     [n_vocab] f32
//   slices     [n_slices][FRONT] (key, id), see sample_slices.wgsl; n_slices <= MAX_SLICES
//   tokens     [1 + ...] u32: how many there are, and the tokens
//   params     counts_word: COUNTS; with COUNTS[1] = 0 nothing is done. ids_word, positions_word: of the next step.
//              sampler_word: tern_sample_params
//
// The rules are those of src/infer/sampler_cuts.c; sums are in f32 here and in f64 there, so that another token can
// come out where a cut or a draw falls within about 1e-5 of a boundary.
//   x = (logit - highest) / temperature;  w = e^x, 0 for x < -87.3
//   top-p      in order of x (then id): kept up to the first at which the running sum exceeds top_p times the sum
//   min-p      kept when w >= min_p times the highest w
//   draw       in order of id: the first at which the running sum of what is kept exceeds draw times its sum
enable subgroups; // subgroups only

override WORKGROUP: u32 = 256;
override DIRECT: bool = false;

const FRONT = 4u;
const HEADS = 16u;
const SLOTS = 16u;
const NONE = 0xffffffffu;
const RUN = 8u; // ids
const MAX_SLICES = 1024u;
const MAX_TOP_K = 64u;

// Words of tern_sample_params.
const N_DONE = 0u;
const N_WANTED = 1u;
const TOP_K = 2u;
const TEMPERATURE = 3u;
const TOP_P = 4u;
const MIN_P = 5u;
const N_ENDS = 6u;
const END_IDS = 8u;
const DRAWS = 24u;

struct P {
    n_vocab: u32,
    n_slices: u32,
    counts_word: u32,
    sampler_word: u32,
    ids_word: u32,
    positions_word: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> logits: array<u32>;
@group(0) @binding(3) var<storage, read_write> slices: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read_write> tokens: array<u32>;

var<workgroup> partial: array<vec2<u32>, WORKGROUP>;
var<workgroup> heads: array<vec2<u32>, HEADS>;
var<workgroup> fronts: array<vec2<u32>, MAX_SLICES>; // the best of each slice that is not chosen yet
var<workgroup> wanted: u32;
var<workgroup> settings: array<u32, DRAWS>; // tern_sample_params, read by invocation 0, which changes it at the end
var<workgroup> uniform_draw: f32;
var<workgroup> ids: array<u32, MAX_TOP_K>; // of the candidates, best first
var<workgroup> xs: array<f32, MAX_TOP_K>;
var<workgroup> weights: array<f32, MAX_TOP_K>;
var<workgroup> drawn: atomic<u32>;
var<workgroup> largest: atomic<u32>;

fn key(bits: u32) -> u32 {
    let size = bits & 0x7fffffffu;
    if (size > 0x7f800000u || bits == 0xff800000u) {
        return 0u;
    }
    if (size == 0u) {
        return 0x80000000u;
    }
    return select(min(bits, 0x7f7fffffu) | 0x80000000u, ~bits, bits >= 0x80000000u);
}

fn logit_of(order: u32) -> f32 {
    return bitcast<f32>(select(~order, order & 0x7fffffffu, order >= 0x80000000u));
}

fn better(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.x > b.x || (a.x == b.x && a.y < b.y);
}

// The best of a subgroup's candidates, in each of its invocations.
fn subgroup_best(mine: vec2<u32>) -> vec2<u32> {
    var best = mine;
    best.x = subgroupMax(mine.x); // subgroups only
    best.y = subgroupMin(select(NONE, mine.y, mine.x == best.x)); // subgroups only
    return best;
}

// The best of all invocations' candidates, in every one of them. A subgroup has `lanes` consecutive invocations. With
// DIRECT (and 256 in all) these are 16 or more: each looks through the values of all 16 places, of which one round uses
// the first half of `partial` and the next one the second.
fn workgroup_best(mine: vec2<u32>, local: u32, lanes: u32, round: u32) -> vec2<u32> {
    var best = subgroup_best(mine);
    if (DIRECT) {
        let places = (round & 1u) * SLOTS;
        if ((local & 15u) == 0u) {
            partial[places + (local >> 4u)] = best;
        }
        workgroupBarrier();
        return subgroup_best(partial[places + (local & 15u)]);
    }
    if ((local & (lanes - 1u)) == 0u) {
        partial[local >> countTrailingZeros(lanes)] = best;
    }
    workgroupBarrier();
    if (local < HEADS) {
        best = vec2<u32>(0u, NONE);
        for (var i = local; i < (WORKGROUP >> countTrailingZeros(lanes)); i += HEADS) {
            let other = partial[i];
            if (better(other, best)) {
                best = other;
            }
        }
        heads[local] = best;
    }
    workgroupBarrier();
    best = heads[0];
    for (var i = 1u; i < HEADS; i++) {
        let other = heads[i];
        if (better(other, best)) {
            best = other;
        }
    }
    return best;
}

// The best of a slice after `last`: from its list or, when that is used up, from the logits.
fn next_of(slice: u32, last: vec2<u32>) -> vec2<u32> {
    let second = slices[slice * FRONT + 1u];
    let third = slices[slice * FRONT + 2u];
    let fourth = slices[slice * FRONT + 3u];
    if (second.x == 0u || better(last, second)) {
        return second;
    }
    if (third.x == 0u || better(last, third)) {
        return third;
    }
    if (fourth.x == 0u || better(last, fourth)) {
        return fourth;
    }
    var best = vec2<u32>(0u, NONE);
    var first = slice * RUN;
    while (first < p.n_vocab) {
        for (var id = first; id < min(first + RUN, p.n_vocab); id++) {
            let candidate = vec2<u32>(key(logits[id]), id);
            if (better(last, candidate) && better(candidate, best)) {
                best = candidate;
            }
        }
        first += RUN * p.n_slices;
    }
    return best;
}

// The best of the slices that this invocation looks after.
fn best_of_mine(local: u32) -> vec2<u32> {
    var best = vec2<u32>(0u, NONE);
    for (var s = local; s < p.n_slices; s += WORKGROUP) {
        let candidate = fronts[s];
        if (better(candidate, best)) {
            best = candidate;
        }
    }
    return best;
}

// e^x for -87.3 <= x <= 0 (src/ops/ref/ref_exp.c).
fn exponential(x: f32) -> f32 {
    let n = round(x * 0x1.715476p+0f);
    let r = (x - n * 0x1.62p-1f) - n * 0x1.c85fe0p-10f;
    var e = ((0x1.6d110ep-10f * r + 0x1.120b72p-7f) * r + 0x1.55551ap-5f) * r + 0x1.5554dcp-3f;
    e = ((e * r + 0.5) * r + 1.0) * r + 1.0;
    return bitcast<f32>(bitcast<u32>(e) + (bitcast<u32>(i32(n)) << 23u));
}

fn real(word: u32) -> f32 {
    return bitcast<f32>(settings[word]);
}

// The weight of candidate i after the cuts; 0 when it is cut. n candidates.
fn kept_weight(i: u32, n: u32) -> f32 {
    var before = 0.0;
    var total = 0.0;
    var most = 0.0;
    for (var j = 0u; j < n; j++) {
        let first = xs[j] > xs[i] || (xs[j] == xs[i] && ids[j] < ids[i]);
        before += select(0.0, weights[j], first);
        total += weights[j];
        most = max(most, weights[j]);
    }
    let inside = real(TOP_P) >= 1.0 || before <= real(TOP_P) * total;
    return select(0.0, weights[i], inside && weights[i] >= real(MIN_P) * most);
}

// Notes candidate i when the draw can be it. weights[] are those after the cuts.
fn draw(i: u32, n: u32, u: f32) {
    var upto = 0.0;
    var total = 0.0;
    for (var j = 0u; j < n; j++) {
        upto += select(0.0, weights[j], ids[j] <= ids[i]);
        total += weights[j];
    }
    if (weights[i] > 0.0) {
        atomicMax(&largest, ids[i]);
        if (upto > u * total) {
            atomicMin(&drawn, ids[i]);
        }
    }
}

// Leaves the draw in drawn, or, where rounding keeps the sum from exceeding it, the last candidate in `largest`.
fn cut_and_draw(local: u32, n: u32) {
    var x = 0.0;
    if (local < n) {
        // No further down than what is cut, and no temperature too small to divide by: all stays finite.
        let temperature = max(real(TEMPERATURE), 1e-30);
        x = max(0.5 * xs[local] - 0.5 * xs[0], -50.0 * temperature) / (0.5 * temperature);
    }
    workgroupBarrier();
    if (local < n) {
        xs[local] = x;
        weights[local] = select(0.0, exponential(max(x, -87.3)), x >= -87.3);
    }
    workgroupBarrier();
    var weight = 0.0;
    if (local < n) {
        weight = kept_weight(local, n);
    }
    workgroupBarrier();
    if (local < n) {
        weights[local] = weight;
    }
    workgroupBarrier();
    if (local < n) {
        draw(local, n, uniform_draw);
    }
    workgroupBarrier();
}

fn is_end(token: u32) -> bool {
    var found = false;
    for (var i = 0u; i < settings[N_ENDS]; i++) {
        found = found || settings[END_IDS + i] == token;
    }
    return found;
}

// Writes the token where the host and the next step find it; that one is at `position`.
fn finish(token: u32, position: u32) {
    let done = settings[N_DONE] + 1u;
    params[p.sampler_word + N_DONE] = done;
    tokens[0] = done;
    tokens[done] = token;
    params[p.ids_word] = token;
    params[p.positions_word] = position;
    if (done >= settings[N_WANTED] || is_end(token)) {
        params[p.counts_word] = 0u;
        params[p.counts_word + 1u] = 0u;
    }
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(subgroup_size) subgroup_lanes: u32, // subgroups only
    @builtin(local_invocation_index) local: u32,
) {
    var lanes = 1u;
    lanes = subgroup_lanes; // subgroups only
    // Everything is asked for at once; no load waits for another.
    var position = 0u;
    if (local == 0u) {
        for (var i = 0u; i < DRAWS; i++) { // unroll
            settings[i] = params[p.sampler_word + i];
        }
        position = params[p.positions_word] + 1u;
        wanted = select(min(settings[TOP_K], MAX_TOP_K), 0u, params[p.counts_word + 1u] == 0u);
        atomicStore(&drawn, NONE);
        atomicStore(&largest, 0u);
    }
    for (var s = local; s < p.n_slices; s += WORKGROUP) {
        fronts[s] = slices[s * FRONT];
    }
    var mine = best_of_mine(local);
    let top_k = workgroupUniformLoad(&wanted);
    if (top_k == 0u) {
        return;
    }
    if (local == 0u && top_k > 1u) {
        uniform_draw = bitcast<f32>(params[p.sampler_word + DRAWS + settings[N_DONE]]);
    }
    var n = 0u; // candidates
    for (var round = 0u; round < top_k; round++) {
        let best = workgroup_best(mine, local, lanes, round);
        n += u32(best.x > 0u);
        if (local == 0u) {
            ids[round] = best.y;
            xs[round] = logit_of(best.x);
        }
        if (best.x > 0u && mine.y == best.y && round + 1u < top_k) {
            let slice = (best.y / RUN) % p.n_slices;
            fronts[slice] = next_of(slice, best);
            mine = best_of_mine(local);
        }
    }
    workgroupBarrier();
    if (top_k > 1u) {
        cut_and_draw(local, n);
    }
    if (local == 0u) {
        let from_draw = select(atomicLoad(&largest), atomicLoad(&drawn), atomicLoad(&drawn) != NONE);
        finish(select(0u, select(ids[0], from_draw, top_k > 1u), n > 0u), position);
    }
}
