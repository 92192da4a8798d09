// REQUANTIZE (src/ops/op.h), its first two passes over the masters (src/quant/absmean.h): the largest exponent, and,
// with SUM, the sum of all magnitudes in units of 2^(exponent - 158).
//
//   groups     (x): invocations take words in turn
//   master     [n] f32, or bf16, two to a word
//   weight     the codes that are there, with a scale for each row: the first is at word scale_word
//   totals     words 0: the exponent; 1, 2, 3: the sum in parts that weigh 1, 2^16 and 2^32. They start at 0.
//
// Without SUM, and with clamp > 0, masters are cut to +- clamp * scale first and written back (bf16 to the nearest).
// Integers are the same in any order. groups is at most 4096, so that no part overflows; n is below 2^32.
//
// no contraction
override WORKGROUP: u32 = 128;
override SUM: bool = false;

struct P {
    n: u32,
    stride: u32, // invocations in all
    bf16: u32,
    clamp: f32,
    scale_word: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> master: array<u32>;
@group(0) @binding(2) var<storage, read_write> weight: array<u32>;
@group(0) @binding(3) var<storage, read_write> totals: array<atomic<u32>>;

var<workgroup> partial: array<vec2<u32>, WORKGROUP>;

// Flushed numbers (src/base/flush.h).
fn held_bits(bits: u32) -> u32 {
    let size = bits & 0x7fffffffu;
    var flushed = select(bits, 0u, size < 0x01000000u);
    flushed = select(flushed, (bits & 0x80000000u) | 0x7f7fffffu, size >= 0x7f800000u);
    return select(flushed, 0u, size > 0x7f800000u);
}

// A 64-bit sum: low word, high word.
fn sum(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}

// |w| in units, rounded, a half up.
fn units(bits: u32, exponent: u32) -> u32 {
    let down = exponent - ((bits >> 23u) & 255u);
    let digits = ((bits & 0x7fffffu) | 0x800000u) << 8u;
    let half = (digits >> ((down - 1u) & 31u)) & 1u;
    let whole = select(digits >> (down & 31u), 0u, down > 31u);
    let rounded = whole + select(half, 0u, down == 0u);
    return select(rounded, 0u, (bits & 0x7fffffffu) == 0u || down > 32u);
}

// Bits of a flushed number cut to +- most, given by its bits.
fn cut(bits: u32, most: u32) -> u32 {
    return (bits & 0x80000000u) | min(bits & 0x7fffffffu, most);
}

fn nearest(bits: u32) -> u32 {
    return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}

// The one or two numbers of a word; 0 beyond the last.
fn numbers(i: u32) -> vec2<u32> {
    let word = master[i];
    if (p.bf16 == 0u) {
        return vec2<u32>(held_bits(word), 0u);
    }
    return vec2<u32>(held_bits(word << 16u), select(0u, held_bits(word & 0xffff0000u), 2u * i + 1u < p.n));
}

fn clamped(i: u32, most: u32) -> vec2<u32> {
    let was = numbers(i);
    let bits = vec2<u32>(cut(was.x, most), cut(was.y, most));
    if (p.bf16 == 0u) {
        master[i] = bits.x;
        return bits;
    }
    let halves = vec2<u32>(nearest(bits.x), nearest(bits.y));
    master[i] = halves.x | (halves.y << 16u);
    return vec2<u32>(held_bits(halves.x << 16u), held_bits(halves.y << 16u));
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let words = (p.n >> p.bf16) + (p.n & p.bf16);
    var total = vec2<u32>();
    var most = 0u;
    var exponent = 0u;
    if (SUM) {
        exponent = atomicLoad(&totals[0]);
    } else if (p.clamp > 0.0) {
        most = held_bits(bitcast<u32>(p.clamp * bitcast<f32>(held_bits(weight[p.scale_word]))));
    }
    for (var i = group.x * WORKGROUP + local; i < words; i += p.stride) {
        if (SUM) {
            let w = numbers(i);
            total = sum(total, vec2<u32>(units(w.x, exponent), 0u));
            total = sum(total, vec2<u32>(units(w.y, exponent), 0u));
        } else {
            var w = vec2<u32>();
            if (most > 0u) {
                w = clamped(i, most);
            } else {
                w = numbers(i);
            }
            total.x = max(total.x, max(w.x & 0x7fffffffu, w.y & 0x7fffffffu));
        }
    }
    partial[local] = total;
    workgroupBarrier();
    for (var half = WORKGROUP / 2u; half > 0u; half >>= 1u) {
        if (local < half) {
            let other = partial[local + half];
            if (SUM) {
                partial[local] = sum(partial[local], other);
            } else {
                partial[local] = max(partial[local], other);
            }
        }
        workgroupBarrier();
    }
    if (local == 0u) {
        let all = partial[0];
        if (SUM) {
            atomicAdd(&totals[1], all.x & 0xffffu);
            atomicAdd(&totals[2], all.x >> 16u);
            atomicAdd(&totals[3], all.y);
        } else {
            atomicMax(&totals[0], all.x >> 23u);
        }
    }
}
