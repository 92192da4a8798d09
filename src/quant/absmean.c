/* The mean magnitude of weights in integers. */
#include "quant/absmean.h"

static const uint32_t least_scale = 0x3727c5ac; /* 1e-5f */

uint32_t tern_absmean_exponent(const float *w, size_t n)
{
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t size = tern_flush_bits(tern_f32_bits(w[i])) & 0x7fffffffu;
        most = size > most ? size : most;
    }
    return most >> 23;
}

uint64_t tern_absmean_sum(const float *w, size_t n, uint32_t exponent)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += tern_absmean_units(tern_flush_bits(tern_f32_bits(w[i])), exponent);
    return sum;
}

/* Long division, bit by bit, until 25 bits of the quotient are there: 24 and the one to round by. */
float tern_absmean_scale(uint64_t sum, uint32_t n, uint32_t exponent)
{
    uint32_t quotient = 0, rest = 0;
    int bit = 63;
    if (sum == 0 || n == 0) return tern_f32_from_bits(least_scale);
    for (; quotient < 1u << 24; bit--) {
        const uint32_t carry = rest >> 31;
        rest = rest << 1 | (bit >= 0 ? (uint32_t)(sum >> bit) & 1u : 0);
        const uint32_t goes = carry || rest >= n;
        rest -= goes ? n : 0;
        quotient = quotient << 1 | goes;
    }
    const uint32_t more = rest != 0 || (bit >= 0 && (sum & ((2ull << bit) - 1)) != 0);
    uint32_t digits = quotient >> 1;
    digits += quotient & (more | digits) & 1u;
    const int32_t bits = ((int32_t)exponent + bit - 7) * (1 << 23) + (int32_t)digits; /* a carry grows the exponent */
    return tern_f32_from_bits(bits > (int32_t)least_scale ? (uint32_t)bits : least_scale);
}

float tern_absmean(const float *w, size_t n)
{
    const uint32_t exponent = tern_absmean_exponent(w, n);
    return tern_absmean_scale(tern_absmean_sum(w, n, exponent), (uint32_t)n, exponent);
}
