/* RSR on groups with SIMD gathers, four at a time: included once for each level, which defines
 *
 *   LANES, TAG(name), ints, floats, gather_ints(perm, x), gather_floats(perm, x), add_ints, add_floats, zero_ints,
 * zero_floats, total_ints, total_floats. */
#define GROUPS(X, Y, V, gather, add, zero, total)                                                                      \
    for (uint32_t g = 0, at = 0; g < b->n_groups; g++) {                                                               \
        const uint32_t end = b->groups[g].end;                                                                         \
        V s0 = zero(), s1 = zero(), s2 = zero(), s3 = zero();                                                          \
        for (; at + 4 * LANES <= end; at += 4 * LANES) {                                                               \
            s0 = add(s0, gather(b->perm + at, x));                                                                     \
            s1 = add(s1, gather(b->perm + at + LANES, x));                                                             \
            s2 = add(s2, gather(b->perm + at + 2 * LANES, x));                                                         \
            s3 = add(s3, gather(b->perm + at + 3 * LANES, x));                                                         \
        }                                                                                                              \
        for (; at + LANES <= end; at += LANES) s0 = add(s0, gather(b->perm + at, x));                                  \
        Y sum = total(add(add(s0, s1), add(s2, s3)));                                                                  \
        for (; at < end; at++) sum += x[b->perm[at]];                                                                  \
        for (uint32_t mask = b->groups[g].pos; mask; mask &= mask - 1) y[__builtin_ctz(mask)] += sum;                  \
        for (uint32_t mask = b->groups[g].neg; mask; mask &= mask - 1) y[__builtin_ctz(mask)] -= sum;                  \
    }

void TAG(tern_cpu__rsr_gather_i8)(const tern_cpu__rsr_block *b, const int8_t *x, int32_t *room, int32_t *y);
void TAG(tern_cpu__rsr_gather_f32)(const tern_cpu__rsr_block *b, const float *x, float *room, float *y);

void TAG(tern_cpu__rsr_gather_i8)(const tern_cpu__rsr_block *b, const int8_t *x, int32_t *room, int32_t *y)
{
    (void)room;
    GROUPS(int8_t, int32_t, ints, gather_ints, add_ints, zero_ints, total_ints)
}

void TAG(tern_cpu__rsr_gather_f32)(const tern_cpu__rsr_block *b, const float *x, float *room, float *y)
{
    (void)room;
    GROUPS(float, float, floats, gather_floats, add_floats, zero_floats, total_floats)
}
