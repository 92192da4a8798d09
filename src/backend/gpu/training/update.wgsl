// UPDATE (src/ops/op.h): one step of an optimiser on a tensor as it is stored, to the bit of tern_ref_update
// (src/ops/ref/update.h), whatever the device does with small numbers, divisions and roots
// (docs/decisions/0018-exact-updates.md).
//
//   g = g * clip;  SGD or, with ADAMW, AdamW;  the gradient becomes 0
//
//   groups     (x, y) with 4 * WORKGROUP elements each, y rows of p.row invocations
//   params     from word training_word on: tern_train_params
//   gradient   [n] f32
//   w4, w1     the weights, in one of the two: f32 in w4; bf16 in w1, two to a word
//   m4, m1     the first moment: f32; bf16, or int8, four to a word, and from word m_scales on a scale for each block
//   v4, v1     the second moment, in the same way
//
// Types are 0 (there is none), 1 (f32), 2 (bf16), 3 (8 bits). Everything may be read and written to the next multiple
// of four elements; what lies beyond n becomes 0. An invocation has four elements, a workgroup WORKGROUP / 64 blocks
// of 256.
//
// no contraction
override WORKGROUP: u32 = 128;
override ADAMW: bool = true;

struct P {
    n: u32,
    first: u32, // index in the tensor of element 0: a multiple of 256
    row: u32,
    training_word: u32,
    seed: u32, // to be added to that of the parameters
    decays: u32,
    w_type: u32,
    m_type: u32,
    v_type: u32,
    m_scales: u32,
    v_scales: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> gradient: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> w4: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> w1: array<u32>;
@group(0) @binding(5) var<storage, read_write> m4: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> m1: array<u32>;
@group(0) @binding(7) var<storage, read_write> v4: array<vec4<u32>>;
@group(0) @binding(8) var<storage, read_write> v1: array<u32>;

const F32 = 1u;
const BF16 = 2u;
const BITS8 = 3u;
const STATE_STEP = 0x1.020408p-7f;
const SQUARE_STEP = 0x1.010102p-8f;
const HEADS = 8u; // of a block

var<workgroup> partial: array<vec2<u32>, WORKGROUP>;
var<workgroup> heads: array<vec2<u32>, WORKGROUP / 8u>;

// Flushed numbers (src/base/flush.h): NaN is 0, what is below 2^-125 too, the rest is finite.
fn held_bits(bits: vec4<u32>) -> vec4<f32> {
    let size = bits & vec4<u32>(0x7fffffffu);
    var flushed = select(bits, vec4<u32>(), size < vec4<u32>(0x01000000u));
    flushed = select(flushed, (bits & vec4<u32>(0x80000000u)) | vec4<u32>(0x7f7fffffu), size >= vec4<u32>(0x7f800000u));
    return bitcast<vec4<f32>>(select(flushed, vec4<u32>(), size > vec4<u32>(0x7f800000u)));
}

// The same of a sum or product of flushed numbers, which is never NaN.
fn flush(x: vec4<f32>) -> vec4<f32> {
    let bits = bitcast<vec4<u32>>(x);
    let size = bits & vec4<u32>(0x7fffffffu);
    let finite = min(size, vec4<u32>(0x7f7fffffu)) | (bits & vec4<u32>(0x80000000u));
    return bitcast<vec4<f32>>(select(finite, vec4<u32>(), size < vec4<u32>(0x01000000u)));
}

// x * y and what follows are two roundings: no compiler contracts what it has to look at in between.
fn product(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
    return flush(x * y);
}

// a / b, rounded to the nearest and flushed; b is not negative. The device's quotient of the digits is off by a few
// units: what is left of it, exact in 32 bits, says by how many.
fn quotient(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let a_bits = bitcast<vec4<u32>>(a);
    let b_bits = bitcast<vec4<u32>>(b);
    let a_digits = (a_bits & vec4<u32>(0x7fffffu)) | vec4<u32>(0x800000u);
    let b_digits = (b_bits & vec4<u32>(0x7fffffu)) | vec4<u32>(0x800000u);
    let less = vec4<u32>(a_digits < b_digits);
    let top = a_digits << less; // top / b_digits is in [1, 2)
    let inverse = 1.0 / vec4<f32>(b_digits);
    var q = vec4<u32>(vec4<f32>(top) * inverse * 8388608.0);
    var rest = bitcast<vec4<i32>>((top << vec4<u32>(23u)) - q * b_digits);
    let more = vec4<i32>(floor(vec4<f32>(rest) * inverse + 0.5));
    q += bitcast<vec4<u32>>(more);
    rest = 2 * (rest - more * bitcast<vec4<i32>>(b_digits));
    q += vec4<u32>(rest > bitcast<vec4<i32>>(b_digits)) - vec4<u32>(rest < -bitcast<vec4<i32>>(b_digits));
    let exponent = bitcast<vec4<i32>>(((a_bits >> vec4<u32>(23u)) & vec4<u32>(255u)) + 127u) -
        bitcast<vec4<i32>>((b_bits >> vec4<u32>(23u)) + less);
    let bits = (min(exponent, vec4<i32>(254)) - 1) * 0x800000 + bitcast<vec4<i32>>(q);
    let large = (exponent > vec4<i32>(254)) | (bits > vec4<i32>(0x7f7fffff)) | (b_bits == vec4<u32>());
    var size = select(bitcast<vec4<u32>>(bits), vec4<u32>(0x7f7fffffu), large);
    let small = ((bits < vec4<i32>(0x01000000)) & !large) | ((a_bits & vec4<u32>(0x7fffffffu)) == vec4<u32>());
    size = select(size | (a_bits & vec4<u32>(0x80000000u)), vec4<u32>(), small);
    return bitcast<vec4<f32>>(size);
}

// The square root of flushed numbers, rounded to the nearest; 0 of negative ones.
fn root(a: vec4<f32>) -> vec4<f32> {
    let bits = bitcast<vec4<u32>>(a);
    let odd = (bits >> vec4<u32>(23u)) & vec4<u32>(1u);
    let shift = vec4<u32>(24u) - odd;
    let digits = (bits & vec4<u32>(0x7fffffu)) | vec4<u32>(0x800000u);
    // the digits of the root are those of sqrt(digits * 2^shift)
    let x = vec4<f32>(digits << (vec4<u32>(2u) - odd));
    let inverse = inverseSqrt(x);
    var q = vec4<u32>(x * inverse * 2048.0);
    let rest = bitcast<vec4<i32>>((digits << shift) - q * q);
    q += bitcast<vec4<u32>>(vec4<i32>(floor(vec4<f32>(rest) * inverse * 0x1p-12f + 0.5)));
    let last = bitcast<vec4<i32>>((digits << shift) - q * q);
    let whole = bitcast<vec4<i32>>(q);
    q += vec4<u32>(last > whole) - vec4<u32>(last <= -whole);
    let exponent = ((bits >> vec4<u32>(23u)) + 126u + odd) >> vec4<u32>(1u);
    let positive = (bits != vec4<u32>()) & (bits < vec4<u32>(0x80000000u));
    return bitcast<vec4<f32>>(select(vec4<u32>(), ((exponent - 1u) << vec4<u32>(23u)) + q, positive));
}

fn mixed(bits: vec4<u32>) -> vec4<u32> {
    var h = bits;
    h ^= h >> vec4<u32>(16u);
    h *= 0x85ebca6bu;
    h ^= h >> vec4<u32>(13u);
    h *= 0xc2b2ae35u;
    return h ^ (h >> vec4<u32>(16u));
}

fn random_bits(seed: u32, index: vec4<u32>) -> vec4<u32> {
    return mixed(mixed(index + 0x9e3779b9u) ^ mixed(vec4<u32>(seed + 0x7f4a7c15u)));
}

fn factor(word: u32) -> vec4<f32> {
    return held_bits(vec4<u32>(params[p.training_word + word]));
}

fn from_bf16(a: u32, b: u32) -> vec4<u32> {
    return vec4<u32>(a << 16u, a & 0xffff0000u, b << 16u, b & 0xffff0000u);
}

// Four elements as two words.
fn to_bf16(bits: vec4<u32>) -> vec2<u32> {
    return vec2<u32>((bits.x >> 16u) | (bits.y & 0xffff0000u), (bits.z >> 16u) | (bits.w & 0xffff0000u));
}

fn stochastic(x: vec4<f32>, random: vec4<u32>) -> vec2<u32> {
    let bits = bitcast<vec4<u32>>(x);
    let up = bits + (random & vec4<u32>(0xffffu));
    let infinite = (up & vec4<u32>(0x7f800000u)) == vec4<u32>(0x7f800000u);
    return to_bf16(select(up, (bits & vec4<u32>(0x80000000u)) | vec4<u32>(0x7f7f0000u), infinite));
}

fn nearest(x: vec4<f32>) -> vec2<u32> {
    let bits = bitcast<vec4<u32>>(x);
    return to_bf16(bits + 0x7fffu + ((bits >> vec4<u32>(16u)) & vec4<u32>(1u)));
}

fn bytes_of(word: u32) -> vec4<u32> {
    return (vec4<u32>(word) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u);
}

fn word_of(bytes: vec4<u32>) -> u32 {
    return (bytes.x & 255u) | ((bytes.y & 255u) << 8u) | ((bytes.z & 255u) << 16u) | (bytes.w << 24u);
}

fn from_m8(word: u32, scale: vec4<f32>) -> vec4<f32> {
    let signed_bytes = bitcast<vec4<i32>>(bytes_of(word) << vec4<u32>(24u)) >> vec4<u32>(24u);
    let r = vec4<f32>(signed_bytes) * STATE_STEP;
    return product(product(abs(r), r), scale);
}

// The value of a code where the scale is 1.
fn square_of(code: vec4<u32>) -> vec4<f32> {
    let r = vec4<f32>(code) * SQUARE_STEP;
    let square = product(r, r);
    return product(square, square);
}

fn to_m8(x: vec4<f32>, scale: f32) -> u32 {
    let code = vec4<i32>(round(127.0 * root(quotient(abs(x), vec4<f32>(scale)))));
    return word_of(bitcast<vec4<u32>>(select(code, -code, x < vec4<f32>())));
}

fn to_v8(x: vec4<f32>, scale: f32, random: vec4<u32>) -> u32 {
    let y = quotient(x, vec4<f32>(scale));
    let code = vec4<u32>(255.0 * root(root(y)));
    let a = square_of(code);
    let gap = flush(square_of(code + 1u) - a);
    let draw = product(vec4<f32>(random >> vec4<u32>(16u)) * 0x1p-16f, gap);
    let rounded = clamp(code + vec4<u32>(draw < flush(y - a)), vec4<u32>(1u), vec4<u32>(255u));
    return word_of(select(vec4<u32>(), rounded, bitcast<vec4<i32>>(x) > vec4<i32>()));
}

fn load_w(i: u32) -> vec4<f32> {
    if (p.w_type == F32) {
        return held_bits(w4[i]);
    }
    return held_bits(from_bf16(w1[2u * i], w1[2u * i + 1u]));
}

fn load_m(i: u32) -> vec4<f32> {
    if (p.m_type == F32) {
        return held_bits(m4[i]);
    } else if (p.m_type == BF16) {
        return held_bits(from_bf16(m1[2u * i], m1[2u * i + 1u]));
    } else if (p.m_type == BITS8) {
        return from_m8(m1[i], held_bits(vec4<u32>(m1[p.m_scales + (i >> 6u)])));
    }
    return vec4<f32>();
}

fn load_v(i: u32) -> vec4<f32> {
    if (p.v_type == F32) {
        return held_bits(v4[i]);
    } else if (p.v_type == BF16) {
        return held_bits(from_bf16(v1[2u * i], v1[2u * i + 1u]));
    } else if (p.v_type == BITS8) {
        return product(square_of(bytes_of(v1[i])), held_bits(vec4<u32>(v1[p.v_scales + (i >> 6u)])));
    }
    return vec4<f32>();
}

fn most_of(x: vec4<f32>) -> u32 {
    let size = bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu);
    return max(max(size.x, size.y), max(size.z, size.w));
}

// Four elements of the weights and of both moments.
struct Elements {
    w: vec4<f32>,
    m: vec4<f32>,
    v: vec4<f32>,
}

fn adamw(before: Elements, g: vec4<f32>) -> Elements {
    let m = flush(before.m + product(factor(5u), flush(g - before.m)));
    let v = flush(product(before.v, factor(6u)) + product(product(factor(7u), g), g));
    let size = flush(quotient(root(v), factor(8u)) + factor(9u));
    let step = product(factor(10u), quotient(m, size));
    let keep = select(vec4<f32>(1.0), factor(4u), p.decays != 0u);
    return Elements(flush(product(before.w, keep) - step), m, v);
}

fn sgd(before: Elements, g: vec4<f32>) -> Elements {
    var after = before;
    let decay = select(vec4<f32>(), factor(13u), p.decays != 0u);
    var d = flush(g + product(decay, before.w));
    if (p.m_type != 0u) {
        d = flush(product(factor(12u), before.m) + d);
        after.m = d;
    }
    after.w = flush(before.w - product(factor(11u), d));
    return after;
}

// The elements after the step; the gradient becomes 0.
fn updated(i: u32, index: vec4<u32>) -> Elements {
    let inside = index < vec4<u32>(p.n);
    let g = product(held_bits(select(vec4<u32>(), gradient[i], inside)), factor(3u)); // clip
    gradient[i] = vec4<u32>();
    let zero = vec4<f32>();
    let before = Elements(select(zero, load_w(i), inside), select(zero, load_m(i), inside),
                          select(zero, load_v(i), inside));
    if (ADAMW) {
        return adamw(before, g);
    }
    return sgd(before, g);
}

// The scales of both moments of the block: the largest numbers of 256. All invocations call it.
fn block_scales(m: vec4<f32>, v: vec4<f32>, local: u32) -> vec2<u32> {
    partial[local] = vec2<u32>(most_of(m), most_of(v));
    workgroupBarrier();
    storageBarrier(); // all have read the scales that are written below
    var scales = vec2<u32>();
    if ((local & 63u) < HEADS) {
        for (var k = 0u; k < 8u; k++) {
            scales = max(scales, partial[(local & ~63u) + (local & 7u) * 8u + k]);
        }
        heads[(local >> 6u) * HEADS + (local & 7u)] = scales;
    }
    workgroupBarrier();
    scales = vec2<u32>();
    for (var k = 0u; k < HEADS; k++) {
        scales = max(scales, heads[(local >> 6u) * HEADS + k]);
    }
    return scales;
}

fn store_w(i: u32, w: vec4<f32>, seed: u32, index: vec4<u32>) {
    if (p.w_type == F32) {
        w4[i] = bitcast<vec4<u32>>(w);
    } else {
        let words = stochastic(w, random_bits(seed, index));
        w1[2u * i] = words.x;
        w1[2u * i + 1u] = words.y;
    }
}

fn store_m(i: u32, m: vec4<f32>, scale: u32, local: u32) {
    if (p.m_type == F32) {
        m4[i] = bitcast<vec4<u32>>(m);
    } else if (p.m_type == BF16) {
        let words = nearest(m);
        m1[2u * i] = words.x;
        m1[2u * i + 1u] = words.y;
    } else if (p.m_type == BITS8) {
        m1[i] = to_m8(m, bitcast<f32>(scale));
        if ((local & 63u) == 0u) {
            m1[p.m_scales + (i >> 6u)] = scale;
        }
    }
}

fn store_v(i: u32, v: vec4<f32>, seed: u32, index: vec4<u32>, scale: u32, local: u32) {
    if (p.v_type == F32) {
        v4[i] = bitcast<vec4<u32>>(v);
    } else if (p.v_type == BF16) {
        let words = stochastic(v, random_bits(seed, index) >> vec4<u32>(16u));
        v1[2u * i] = words.x;
        v1[2u * i + 1u] = words.y;
    } else if (p.v_type == BITS8) {
        v1[i] = to_v8(v, bitcast<f32>(scale), random_bits(seed, index));
        if ((local & 63u) == 0u) {
            v1[p.v_scales + (i >> 6u)] = scale;
        }
    }
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let i = group.y * p.row + group.x * WORKGROUP + local;
    let index = vec4<u32>(4u * i) + vec4<u32>(0u, 1u, 2u, 3u);
    let present = index.x < p.n;
    var after = Elements();
    if (present) {
        after = updated(i, index);
    }
    let seed = params[p.training_word + 2u] + p.seed;
    var scales = vec2<u32>();
    if (p.m_type == BITS8 || p.v_type == BITS8) {
        scales = block_scales(after.m, after.v, local);
    }
    if (!present) {
        return;
    }
    store_w(i, after.w, seed, index + p.first);
    store_m(i, after.m, scales.x, local);
    store_v(i, after.v, ~seed, index + p.first, scales.y, local);
}
