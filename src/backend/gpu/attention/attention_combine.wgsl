// ATTENTION (src/ops/op.h), second part: merges the partial softmaxes that attention_decode.wesl left, on devices where
// its workgroups cannot do so themselves. Steps whose positions fitted one span are finished already.
//
//   groups     (n_heads, most rows)
//   scratch    from word partials [t][n_kv_heads * head_blocks][splits][heads] states of head_dim sums, then m (of
//              exponents of 2) and l, padded to (8 + head_dim) words
//   result     rows of out_stride floats from out_first
//   params     word count_word holds the number of rows, from positions_word their positions
override WORKGROUP: u32 = 128;

struct P {
    head_dim: u32,
    n_kv_heads: u32,
    group: u32, // query heads of a KV head
    head_blocks: u32,
    heads: u32, // of a workgroup of attention_decode
    count_word: u32,
    positions_word: u32,
    split_bits: u32, // at most 5
    min_span: u32,
    partials: u32,
    out_first: u32,
    out_stride: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> scratch: array<u32>;
@group(0) @binding(3) var<storage, read_write> result: array<f32>;

var<workgroup> maxima: array<f32, 32>;
var<workgroup> sums: array<f32, 32>;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let head = group.x;
    let t = group.y;
    let n = select(0u, params[p.positions_word + t] + 1u, t < params[p.count_word]);
    let splits = 1u << p.split_bits;
    let span = max(p.min_span, (n + splits - 1u) >> p.split_bits);
    let spans = select(0u, (n + span - 1u) / span, n > span);
    let kv_head = head / p.group;
    let in_group = head - kv_head * p.group;
    let block = in_group / p.heads;
    let stride = p.heads * (p.head_dim + 8u);
    let item = (t * p.n_kv_heads + kv_head) * p.head_blocks + block;
    let first = p.partials + item * splits * stride + (in_group - block * p.heads) * (p.head_dim + 8u);
    if (local < spans) {
        maxima[local] = bitcast<f32>(scratch[first + local * stride + p.head_dim]);
        sums[local] = bitcast<f32>(scratch[first + local * stride + p.head_dim + 1u]);
    }
    workgroupBarrier();
    var highest = -3.4028234e38;
    for (var s = 0u; s < spans; s++) {
        highest = max(highest, maxima[s]);
    }
    var total = 0.0;
    for (var s = 0u; s < spans; s++) {
        total += exp2(maxima[s] - highest) * sums[s];
    }
    for (var c = local; c < select(0u, p.head_dim, spans > 0u); c += WORKGROUP) {
        var sum = 0.0;
        for (var s = 0u; s < spans; s++) {
            sum += exp2(maxima[s] - highest) * bitcast<f32>(scratch[first + s * stride + c]);
        }
        result[p.out_first + t * p.out_stride + head * p.head_dim + c] = sum / total;
    }
}
