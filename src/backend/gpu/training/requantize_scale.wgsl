// REQUANTIZE (src/ops/op.h), between its passes: the scale of the codes and the rule for them, of the sums that
// requantize_magnitudes has left (tern_absmean_scale in src/quant/absmean.c, tern_ref_ternary_rule in
// src/ops/ref/update.h).
//
//   groups     (1)
//   totals     words 0: the exponent; 1, 2, 3: the sum; they become 0 again
//   rule       words 0: scale = max(mean, 1e-5); 1, 2: factor and bound, code = +-1 where |w * factor| > bound
//
// no contraction
struct P {
    n: u32,
    threshold: f32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> totals: array<u32>;
@group(0) @binding(2) var<storage, read_write> rule: array<u32>;

const LEAST_SCALE = 0x3727c5acu; // 1e-5

// Long division, bit by bit, until 25 bits of the quotient are there: 24 and the one to round by.
fn mean_bits(low: u32, high: u32, exponent: u32) -> u32 {
    if ((low | high) == 0u) {
        return LEAST_SCALE;
    }
    var quotient = 0u;
    var rest = 0u;
    var bit = 63;
    while (quotient < 0x1000000u) {
        let word = select(low, high, bit > 31);
        let next = select(0u, (word >> (u32(bit) & 31u)) & 1u, bit >= 0);
        let carry = rest >> 31u;
        rest = (rest << 1u) | next;
        let goes = carry != 0u || rest >= p.n;
        rest -= select(0u, p.n, goes);
        quotient = (quotient << 1u) | u32(goes);
        bit--;
    }
    var left = rest;
    if (bit > 31) {
        left |= low | (high & ((2u << (u32(bit) & 31u)) - 1u));
    } else if (bit >= 0) {
        left |= low & ((2u << (u32(bit) & 31u)) - 1u);
    }
    let more = u32(left != 0u);
    var digits = quotient >> 1u;
    digits += quotient & (more | digits) & 1u;
    let bits = (i32(exponent) + bit - 7) * 0x800000 + i32(digits);
    return u32(max(bits, i32(LEAST_SCALE)));
}

// The bits of 1 / b, rounded to the nearest; 0 where that is below 2^-125. b is ordinary: see quotient in update.wgsl.
fn inverse_bits(b_bits: u32) -> u32 {
    let b_digits = (b_bits & 0x7fffffu) | 0x800000u;
    let less = select(1u, 0u, b_digits == 0x800000u);
    let top = 0x800000u << less;
    let divisor = f32(b_digits);
    var q = u32(f32(top) / divisor * 8388608.0);
    var rest = bitcast<i32>((top << 23u) - q * b_digits);
    let more = i32(floor(f32(rest) / divisor + 0.5));
    q += bitcast<u32>(more);
    rest = 2 * (rest - more * i32(b_digits));
    q += u32(rest > i32(b_digits)) - u32(rest < -i32(b_digits));
    let exponent = 254 - i32(b_bits >> 23u) - i32(less);
    let bits = (exponent - 1) * 0x800000 + i32(q);
    return select(u32(bits), 0u, bits < 0x01000000);
}

// The bits of a product of numbers that are not negative, flushed (src/base/flush.h).
fn product_bits(a: f32, b: u32) -> u32 {
    let bits = bitcast<u32>(a * bitcast<f32>(b));
    return select(min(bits, 0x7f7fffffu), 0u, bits < 0x01000000u);
}

@compute @workgroup_size(1)
fn main() {
    let low = totals[1] + (totals[2] << 16u);
    let carry = (totals[2] >> 16u) + select(0u, 1u, low < totals[1]);
    let scale = mean_bits(low, totals[3] + carry, totals[0]);
    let by_threshold = p.threshold > 0.0;
    rule[0] = scale;
    rule[1] = select(inverse_bits(scale), 0x3f800000u, by_threshold);
    rule[2] = select(0x3f000000u, product_bits(p.threshold, scale), by_threshold);
    for (var i = 0u; i < 4u; i++) {
        totals[i] = 0u;
    }
}
