// QUANTIZE and, with NORM, NORM_QUANT (src/ops/op.h): rows of f32, normed first or not, to int8 (src/ops/ref/ref.h);
// with FAKE, FAKE_QUANTIZE: what these int8 stand for, blended with x, in rows of f32.
//
//   v[c] = x[t][c], or x[t][c] * norm_weight[c] / sqrt(mean_c(x[t][c]^2) + eps)
//   s = 127 / max(max_c |v[c]|, 1e-5);  q[t][c] = round_half_even(v[c] * s)
//   NaN counts as 0, an infinity as the largest finite value
//
//   groups     (most rows): a workgroup for each row
//   x          rows of x_stride times ALIGN floats, from ALIGN times x_first
//   norm_weight       [cols] f32; nothing without NORM
//   q8         word t * row_words + i: columns 4 i to 4 i + 3 of row t, the first in the lowest byte, then zeros;
//              word scales_word + t: 1 / s as f32;  word sums_word + t: sum_c q[t][c] as i32
//              FAKE: float scales_word + t * sums_word + c: x[t][c] + blend * (q[t][c] / s - x[t][c])
//   params     word count_word holds the number of rows, word blend_word the blend as f32 (FAKE)
//
// Invocations take four columns at a time. With ALIGN = 4 these are one vector of memory: cols, and where rows
// start, are multiples of four. The first KEPT vectors of each invocation stay in registers; what a longer row has
// beyond them is read again. int8 differ from the definition only where v[c] * s is within rounding of a half. cols is
// at most 131072, so that a sum of int8 is exact in f32.
enable subgroups; // subgroups only

override WORKGROUP: u32 = 256;
override ALIGN: u32 = 4;
override DIRECT: bool = false;
override NORM: bool = true;
override FAKE: bool = false;

const KEPT = 8u;
const HEADS = 16u;
const SLOTS = 16u;

struct P {
    cols: u32,
    count_word: u32,
    x_first: u32,
    x_stride: u32,
    row_words: u32,
    scales_word: u32,
    sums_word: u32,
    eps: f32,
    blend_word: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> norm_weight: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> q8: array<u32>;

var<workgroup> partial: array<f32, WORKGROUP>;
var<workgroup> heads: array<f32, HEADS>;

// A subgroup has `lanes` consecutive invocations. With DIRECT (and 256 in all) these are 16 or more, and everyone adds
// up the values of SLOTS at most, each place of `partial` written once; else HEADS invocations take parts first.
// Returns the sum of all invocations' values to every one of them.
fn workgroup_sum(value: f32, local: u32, lanes: u32, region: u32) -> f32 {
    var all = value;
    all = subgroupAdd(value); // subgroups only
    if (DIRECT) {
        if ((local & 15u) == 0u) {
            partial[region * SLOTS + (local >> 4u)] = select(0.0, all, (local & (lanes - 1u)) == 0u);
        }
        workgroupBarrier();
        all = 0.0;
        for (var i = 0u; i < SLOTS; i++) { // unroll
            all = all + partial[region * SLOTS + i];
        }
        return all;
    }
    if ((local & (lanes - 1u)) == 0u) {
        partial[local >> countTrailingZeros(lanes)] = all;
    }
    workgroupBarrier();
    if (local < HEADS) {
        all = 0.0;
        for (var i = local; i < (WORKGROUP >> countTrailingZeros(lanes)); i += HEADS) {
            all = all + partial[i];
        }
        heads[local] = all;
    }
    workgroupBarrier();
    all = 0.0;
    for (var i = 0u; i < HEADS; i++) { // unroll
        all = all + heads[i];
    }
    return all;
}

// The same for the largest of values that are not below 0.
fn workgroup_max(value: f32, local: u32, lanes: u32, region: u32) -> f32 {
    var all = value;
    all = subgroupMax(value); // subgroups only
    if (DIRECT) {
        if ((local & 15u) == 0u) {
            partial[region * SLOTS + (local >> 4u)] = select(0.0, all, (local & (lanes - 1u)) == 0u);
        }
        workgroupBarrier();
        all = 0.0;
        for (var i = 0u; i < SLOTS; i++) { // unroll
            all = max(all, partial[region * SLOTS + i]);
        }
        return all;
    }
    if ((local & (lanes - 1u)) == 0u) {
        partial[local >> countTrailingZeros(lanes)] = all;
    }
    workgroupBarrier();
    if (local < HEADS) {
        all = 0.0;
        for (var i = local; i < (WORKGROUP >> countTrailingZeros(lanes)); i += HEADS) {
            all = max(all, partial[i]);
        }
        heads[local] = all;
    }
    workgroupBarrier();
    all = 0.0;
    for (var i = 0u; i < HEADS; i++) { // unroll
        all = max(all, heads[i]);
    }
    return all;
}

fn x1(i: u32) -> f32 {
    return x[i >> 2u][i & 3u];
}

fn norm_weight1(c: u32) -> f32 {
    return norm_weight[c >> 2u][c & 3u];
}

// Columns c to c + 3 of the row that starts at float `row`; zeros from column `cols` on.
fn x4(row: u32, c: u32, cols: u32) -> vec4<f32> {
    let i = row + c;
    var v = vec4<f32>();
    if (ALIGN == 4u) {
        if (c < cols) {
            v = x[i >> 2u];
        }
    } else {
        if (c < cols) { v.x = x1(i); }
        if (c + 1u < cols) { v.y = x1(i + 1u); }
        if (c + 2u < cols) { v.z = x1(i + 2u); }
        if (c + 3u < cols) { v.w = x1(i + 3u); }
    }
    return v;
}

fn norm_weight4(c: u32, cols: u32) -> vec4<f32> {
    var v = vec4<f32>();
    if (!NORM) { // then the binding holds nothing
        return v;
    }
    if (ALIGN == 4u) {
        if (c < cols) {
            v = norm_weight[c >> 2u];
        }
    } else {
        if (c < cols) { v.x = norm_weight1(c); }
        if (c + 1u < cols) { v.y = norm_weight1(c + 1u); }
        if (c + 2u < cols) { v.z = norm_weight1(c + 2u); }
        if (c + 3u < cols) { v.w = norm_weight1(c + 3u); }
    }
    return v;
}

// Whether a number is neither NaN nor infinite.
fn is_finite(v: f32) -> bool {
    return (bitcast<u32>(v) & 0x7f800000u) != 0x7f800000u;
}

// NaN to 0, infinities to the largest finite values. By bits: compilers may take floats for finite.
fn finite(v: vec4<f32>) -> vec4<f32> {
    let bits = bitcast<vec4<u32>>(v);
    let size = bits & vec4<u32>(0x7fffffffu);
    let largest = (bits & vec4<u32>(0x80000000u)) | vec4<u32>(0x7f7fffffu);
    let held = select(bits, largest, size == vec4<u32>(0x7f800000u));
    return bitcast<vec4<f32>>(select(held, vec4<u32>(), size > vec4<u32>(0x7f800000u)));
}

// What is quantised of values v with norm_weights g.
fn normed(v: vec4<f32>, r: f32, g: vec4<f32>) -> vec4<f32> {
    if (NORM) {
        return finite((v * r) * g);
    }
    return finite(v);
}

fn most_of(v: vec4<f32>) -> f32 {
    let a = abs(v);
    return max(max(a.x, a.y), max(a.z, a.w));
}

// What fma(-q, b, a) leaves of a / b or of the square root of a, to correct q by: in Vulkan a quotient may be 2.5 ulp
// off. Nothing where fma rounds twice, as in software, whose quotients are exact. (Asked of a number that no compiler
// knows, or it would answer for itself.)
fn remainder(q: f32, b: f32, a: f32) -> f32 {
    let e = (1.0 + 0x1p-12f) * f32(min(p.cols, 1u));
    let fused = fma(e, e, -1.0 - 0x1p-11f) != 0.0;
    return select(0.0, fma(-q, b, a), fused);
}

// Rounded correctly but for rare cases. Devices may divide by more than 2^126 as if it were infinite: not here.
fn divided(a: f32, b: f32) -> f32 {
    let q = a / b;
    return q + remainder(q, b, a) * (1.0 / b);
}

fn root(a: f32) -> f32 {
    let q = sqrt(a);
    return q + remainder(q, q, a) * (0.5 / q);
}

fn quantized(v: vec4<f32>, scale: f32) -> vec4<i32> {
    return clamp(vec4<i32>(round(v * scale)), vec4<i32>(-128), vec4<i32>(127));
}

// Columns c to c + 3 of row t of FAKE, as far as there are any.
fn blend(t: u32, c: u32, v: vec4<f32>, q: vec4<i32>, inv_scale: f32, share: f32) {
    let y = v + share * (vec4<f32>(q) * inv_scale - v);
    let at = p.scales_word + t * p.sums_word + c;
    for (var i = 0u; i < 4u; i++) { // unroll
        if (c + i < p.cols) {
            q8[at + i] = bitcast<u32>(y[i]);
        }
    }
}

fn sum_of(q: vec4<i32>) -> f32 {
    return f32(q.x + q.y + q.z + q.w);
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(subgroup_size) subgroup_lanes: u32, // subgroups only
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    var lanes = 1u;
    lanes = subgroup_lanes; // subgroups only
    let t = group.x;
    let row = (p.x_first + t * p.x_stride) * ALIGN;
    let rest = 4u * (KEPT * WORKGROUP + local);
    // No load waits for another: rows beyond the count are read in vain.
    let present = t < params[p.count_word];
    let words = select(0u, p.row_words, present);

    var kept: array<vec4<f32>, KEPT>;
    var norm_weights: array<vec4<f32>, KEPT>;
    for (var i = 0u; i < KEPT; i++) { // unroll
        let c = 4u * (i * WORKGROUP + local);
        kept[i] = x4(row, c, p.cols);
        if (NORM) {
            norm_weights[i] = norm_weight4(c, p.cols);
        }
    }
    var r = 0.0;
    if (NORM) {
        var squares = 0.0;
        for (var i = 0u; i < KEPT; i++) { // unroll
            squares += dot(kept[i], kept[i]);
        }
        for (var c = rest; c < p.cols; c += 4u * WORKGROUP) {
            let v = x4(row, c, p.cols);
            squares += dot(v, v);
        }
        let sum = workgroup_sum(squares, local, lanes, 0u);
        r = divided(1.0, root(divided(sum, f32(p.cols)) + p.eps));
        r = select(0.0, r, is_finite(sum)); // otherwise all normed values are 0 or NaN
    }

    var most = 1e-5;
    for (var i = 0u; i < KEPT; i++) { // unroll
        kept[i] = normed(kept[i], r, norm_weights[i]);
        most = max(most, most_of(kept[i]));
    }
    for (var c = rest; c < p.cols; c += 4u * WORKGROUP) {
        most = max(most, most_of(normed(x4(row, c, p.cols), r, norm_weight4(c, p.cols))));
    }
    let largest = workgroup_max(most, local, lanes, 1u);
    let down = select(1.0, 0x1p-64f, largest > 0x1p100f); // chosen here, or compilers would take the factor out again
    let scale = divided(127.0, largest * down) * down;

    if (FAKE) {
        let share = bitcast<f32>(params[p.blend_word]);
        let inv_scale = divided(1.0, scale);
        for (var c = 4u * local; c < select(0u, p.cols, present); c += 4u * WORKGROUP) {
            let v = x4(row, c, p.cols);
            blend(t, c, v, quantized(finite(v), scale), inv_scale, share);
        }
        return;
    }
    var sum = 0.0;
    for (var i = 0u; i < KEPT; i++) { // unroll
        let word = i * WORKGROUP + local;
        let q = quantized(kept[i], scale);
        sum += sum_of(q);
        if (word < words) {
            q8[t * p.row_words + word] = pack4xI8(q);
        }
    }
    for (var word = KEPT * WORKGROUP + local; word < words; word += WORKGROUP) {
        let c = 4u * word;
        let q = quantized(normed(x4(row, c, p.cols), r, norm_weight4(c, p.cols)), scale);
        sum += sum_of(q);
        q8[t * p.row_words + word] = pack4xI8(q);
    }
    sum = workgroup_sum(sum, local, lanes, 2u);
    if (local == 0u && present) {
        q8[p.scales_word + t] = bitcast<u32>(divided(1.0, scale));
        q8[p.sums_word + t] = bitcast<u32>(i32(sum));
    }
}
