// EMBED_BACKWARD (src/ops/op.h): dw[ids[t]][c] += dy[t][c], t ascending, for the rows of dw in a slice.
//
//   groups     (most rows): a workgroup for each token. Where an earlier one has the same id it does nothing; else it
//              adds the rows of all tokens with this id, in order, to the row of dw, which no other workgroup touches.
//   dw         rows first_id .. first_id + n_ids - 1, of cols floats
//   dy         rows of dy_stride floats, from dy_first
//   params     word count_word holds the number of rows, from ids_word their ids
override WORKGROUP: u32 = 256;

const WORDS = 256u; // of the mask: tokens that are looked at together, by 32

struct P {
    cols: u32,
    count_word: u32,
    ids_word: u32,
    first_id: u32,
    n_ids: u32,
    dy_first: u32,
    dy_stride: u32,
    segments: u32, // of 32 * WORDS tokens that the largest step has
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> dy: array<f32>;
@group(0) @binding(3) var<storage, read_write> dw: array<f32>;

var<workgroup> seen: array<atomic<u32>, WORDS>; // whose id is the token's
var<workgroup> earlier: atomic<u32>;            // whether a token before it has its id

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let t = group.x;
    let n = params[p.count_word];
    let id = params[p.ids_word + t];
    let row = id - p.first_id;
    let mine = t < n && id >= p.first_id && row < p.n_ids;
    if (local == 0u) {
        atomicStore(&earlier, 0u);
    }
    workgroupBarrier();
    if (mine) {
        var found = false;
        for (var i = local; i < t; i += WORKGROUP) {
            found = found || params[p.ids_word + i] == id;
        }
        if (found) {
            atomicOr(&earlier, 1u);
        }
    }
    workgroupBarrier();
    let first = mine && atomicLoad(&earlier) == 0u;
    for (var segment = t / (32u * WORDS); segment < p.segments; segment++) {
        let base = segment * 32u * WORDS;
        for (var i = local; i < WORDS; i += WORKGROUP) {
            atomicStore(&seen[i], 0u);
        }
        workgroupBarrier();
        if (first) {
            for (var i = local; i < min(n - min(base, n), 32u * WORDS); i += WORKGROUP) {
                if (base + i >= t && params[p.ids_word + base + i] == id) {
                    atomicOr(&seen[i >> 5u], 1u << (i & 31u));
                }
            }
        }
        workgroupBarrier();
        if (first) {
            let start = (max(t, base) - base) >> 5u;
            let end = min((n - min(base, n) + 31u) >> 5u, WORDS);
            for (var c = local; c < p.cols; c += WORKGROUP) {
                var sum = dw[row * p.cols + c];
                for (var i = start; i < end; i++) {
                    var bits = atomicLoad(&seen[i]);
                    while (bits != 0u) {
                        let other = base + 32u * i + countTrailingZeros(bits);
                        bits &= bits - 1u;
                        sum += dy[p.dy_first + other * p.dy_stride + c];
                    }
                }
                dw[row * p.cols + c] = sum;
            }
        }
        workgroupBarrier();
    }
}
