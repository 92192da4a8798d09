/* The order in which the backward of attention takes pairs of blocks. */
#include "backend/cpu/attention/waves.h"

static size_t n_blocks_of(uint32_t n, uint32_t block)
{
    return (n + block - 1) / block;
}

size_t tern_attention_waves__floats(uint32_t n, uint32_t block)
{
    const size_t blocks = n_blocks_of(n, block);
    return blocks + (2 * blocks + 1) + blocks * (blocks + 1) + 3 * 16;
}

tern_range tern_attention_waves__tokens(const tern_attention_job *j, uint32_t block, uint32_t index)
{
    return (tern_range){index * block, j->n - index * block < block ? j->n : (index + 1) * block};
}

/* Goes through all pairs: counts those of each wave in end[wave], waves from 1; or, with `place`, puts each at the end
 * of its wave, waves from 0. latest[keys]: the wave, from 1, of the latest pair with these keys. */
static void order_pairs(const tern_attention_job *j, uint32_t block, uint32_t *latest, bool place,
                        tern_attention_waves *waves)
{
    const uint32_t n_blocks = (uint32_t)n_blocks_of(j->n, block);
    memset(latest, 0, n_blocks * sizeof *latest);
    for (uint32_t queries = 0; queries < n_blocks; queries++) {
        const tern_range tokens = tern_attention_waves__tokens(j, block, queries);
        uint32_t wave = 0;
        for (uint32_t keys = tern_varlen_attention__first_seen(j, tokens) / block; keys <= queries; keys++) {
            wave = (wave > latest[keys] ? wave : latest[keys]) + 1;
            latest[keys] = wave;
            if (place) waves->pairs[waves->end[wave - 1]++] = (tern_attention_pair){queries, keys};
            else waves->end[wave]++;
            if (wave > waves->n) waves->n = wave;
        }
    }
}

tern_attention_waves tern_attention_waves__make(const tern_attention_job *j, uint32_t block, float *memory)
{
    const size_t n_blocks = n_blocks_of(j->n, block);
    tern_attention_waves waves = {0};
    uint32_t *latest = (uint32_t *)(void *)tern_varlen_attention__lend(&memory, n_blocks);
    waves.end = (uint32_t *)(void *)tern_varlen_attention__lend(&memory, 2 * n_blocks + 1);
    waves.pairs = (tern_attention_pair *)(void *)tern_varlen_attention__lend(&memory, n_blocks * (n_blocks + 1));
    memset(waves.end, 0, (2 * n_blocks + 1) * sizeof *waves.end);
    order_pairs(j, block, latest, false, &waves);
    for (uint32_t wave = 0; wave < waves.n; wave++) waves.end[wave + 1] += waves.end[wave]; /* where each begins */
    order_pairs(j, block, latest, true, &waves);
    return waves;
}
