// SAMPLE (src/ops/op.h), first of two: the highest logits of each slice of the vocabulary.
//
//   groups     (n_slices): slice g has the ids whose id / 8 leaves g when divided by n_slices, so that neighbours,
//              which are often likely together, are spread over slices and memory is still read in runs
//   logits     [n_vocab] f32
//   slices     [n_slices][FRONT] (key, id): the slice's best, best first; only the first when top_k is 1. (0, NONE)
//              where there is no more
//   params     counts_word: COUNTS; with COUNTS[1] = 0 nothing is done. sampler_word: tern_sample_params
//
// The order of candidates: higher logits first, then lower ids. key() maps logits to numbers in that order: +-0 are
// one, +infinity is the largest finite value, and NaN and -infinity, which never win, are 0.
enable subgroups; // subgroups only

override WORKGROUP: u32 = 256;
override DIRECT: bool = false;

const FRONT = 4u;
const HEADS = 16u;
const SLOTS = 16u;
const NONE = 0xffffffffu;
const RUN = 8u; // ids

struct P {
    n_vocab: u32,
    n_slices: u32,
    counts_word: u32,
    sampler_word: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> logits: array<u32>;
@group(0) @binding(3) var<storage, read_write> slices: array<vec2<u32>>;

var<workgroup> partial: array<vec2<u32>, WORKGROUP>;
var<workgroup> heads: array<vec2<u32>, HEADS>;
var<workgroup> wanted: u32;

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

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(subgroup_size) subgroup_lanes: u32, // subgroups only
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    var lanes = 1u;
    lanes = subgroup_lanes; // subgroups only
    if (local == 0u) {
        wanted = select(select(1u, FRONT, params[p.sampler_word + 2u] > 1u), 0u, params[p.counts_word + 1u] == 0u);
    }
    let slice = group.x;
    let first = ((local / RUN) * p.n_slices + slice) * RUN + local % RUN;
    var mine = vec2<u32>(0u, NONE);
    if (first < p.n_vocab) {
        mine = vec2<u32>(key(logits[first]), first);
    }
    let n = workgroupUniformLoad(&wanted);
    var last = vec2<u32>(NONE, NONE); // before every candidate
    for (var round = 0u; round < n; round++) {
        var best = vec2<u32>(0u, NONE);
        if (better(last, mine)) {
            best = mine;
        }
        var id = first + WORKGROUP * p.n_slices;
        while (id < p.n_vocab) {
            let candidate = vec2<u32>(key(logits[id]), id);
            if (better(last, candidate) && better(candidate, best)) {
                best = candidate;
            }
            id += WORKGROUP * p.n_slices;
        }
        last = workgroup_best(best, local, lanes, round);
        if (local == 0u) {
            slices[slice * FRONT + round] = last;
        }
    }
}
