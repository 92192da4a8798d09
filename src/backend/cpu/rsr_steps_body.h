/* The plain steps for one type of inputs X and of sums Y: included once for each, with NAME(step). */

static void NAME(scatter)(const tern_cpu__rsr_block *b, uint32_t g, Y sum, Y *y)
{
    for (uint32_t i = b->first_row[g]; i < b->first_row[g + 1]; i++) {
        if (b->signs[i] > 0) y[b->rows[i]] += sum;
        else y[b->rows[i]] -= sum;
    }
}

static inline void NAME(scatter_masks)(tern_rsr_group g, Y sum, Y *y)
{
    for (uint32_t mask = g.pos; mask; mask &= mask - 1) y[__builtin_ctz(mask)] += sum;
    for (uint32_t mask = g.neg; mask; mask &= mask - 1) y[__builtin_ctz(mask)] -= sum;
}

/* Groups of up to 4 columns without a loop. */
static inline Y NAME(sum)(const uint16_t *perm, uint32_t n, const X *x)
{
    Y sum = 0;
    switch (n) {
    case 1: return x[perm[0]];
    case 2: return (Y)(x[perm[0]] + x[perm[1]]);
    case 3: return (Y)(x[perm[0]] + x[perm[1]] + x[perm[2]]);
    case 4: return (Y)(x[perm[0]] + x[perm[1]] + x[perm[2]] + x[perm[3]]);
    default:
        __builtin_prefetch(perm + n);
        for (uint32_t i = 0; i < n; i++) sum += x[perm[i]];
        return sum;
    }
}

void NAME(lists)(const tern_cpu__rsr_block *b, const X *x, Y *room, Y *y)
{
    (void)room;
    for (uint32_t g = 0, at = 0; g < b->n_groups; g++) {
        Y sum = 0;
        for (; at < b->wide_ends[g]; at++) sum += x[b->wide_perm[at]];
        NAME(scatter)(b, g, sum, y);
    }
}

void NAME(lists16)(const tern_cpu__rsr_block *b, const X *x, Y *room, Y *y)
{
    (void)room;
    for (uint32_t g = 0, at = 0; g < b->n_groups; g++) {
        const uint32_t end = b->groups[g].end;
        NAME(scatter)(b, g, NAME(sum)(b->perm + at, end - at, x), y);
        at = end;
    }
}

void NAME(masks)(const tern_cpu__rsr_block *b, const X *x, Y *room, Y *y)
{
    (void)room;
    for (uint32_t g = 0, at = 0; g < b->n_groups; g++) {
        const uint32_t end = b->groups[g].end;
        NAME(scatter_masks)(b->groups[g], NAME(sum)(b->perm + at, end - at, x), y);
        at = end;
    }
}

void NAME(permuted)(const tern_cpu__rsr_block *b, const X *x, Y *room, Y *y)
{
    for (uint32_t i = 0; i < b->n_columns; i++) room[i] = x[b->perm[i]];
    for (uint32_t g = 0, at = 0; g < b->n_groups; g++) {
        Y sum = 0;
        for (; at < b->groups[g].end; at++) sum += room[at];
        NAME(scatter_masks)(b->groups[g], sum, y);
    }
}

void NAME(direct)(const tern_cpu__rsr_block *b, const X *x, Y *room, Y *y)
{
    enum { AHEAD = 64 };
    (void)room;
    for (uint32_t g = 0, at = 0; g < b->n_groups; g++) {
        const uint16_t *p = b->perm + at, *end = b->perm + b->groups[g].end;
        Y sum = 0;
        for (; end - p >= 8; p += 8) {
            if (b->perm + b->n_columns - p > AHEAD) __builtin_prefetch(x + p[AHEAD]);
            sum += x[p[0]];
            sum += x[p[1]];
            sum += x[p[2]];
            sum += x[p[3]];
            sum += x[p[4]];
            sum += x[p[5]];
            sum += x[p[6]];
            sum += x[p[7]];
        }
        switch (end - p) {
        case 7: sum += x[*p++]; /* fall through - NOLINT(bugprone-branch-clone) */
        case 6: sum += x[*p++]; /* fall through */
        case 5: sum += x[*p++]; /* fall through */
        case 4: sum += x[*p++]; /* fall through */
        case 3: sum += x[*p++]; /* fall through */
        case 2: sum += x[*p++]; /* fall through */
        case 1: sum += x[*p++]; /* fall through */
        default: break;
        }
        NAME(scatter_masks)(b->groups[g], sum, y);
        at = b->groups[g].end;
    }
}

#undef NAME
#undef X
#undef Y
