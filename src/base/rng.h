/* A small seeded random generator (splitmix64): the same numbers on every machine. */
#ifndef TERN_BASE_RNG_H
#define TERN_BASE_RNG_H

#include <stdint.h>

typedef struct tern_rng {
    uint64_t state;
} tern_rng;

/* The next 64 uniform bits. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014. */
static inline uint64_t tern_rng_u64(tern_rng *rng)
{
    uint64_t z = (rng->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform in [0, 1) with 24 bits. */
static inline float tern_rng_f32(tern_rng *rng)
{
    return (float)(tern_rng_u64(rng) >> 40) * 0x1p-24f;
}

/* Uniform in [0, n), n > 0; the bias is below n / 2^32. */
static inline uint32_t tern_rng_below(tern_rng *rng, uint32_t n)
{
    return (uint32_t)((tern_rng_u64(rng) >> 32) * n >> 32);
}

#endif
