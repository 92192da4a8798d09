/* A seeded permutation of each epoch, computed place by place: a Feistel network over the next power of four, walked
 * until it is back in range (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). */
#include "train/data/order.h"

#include "base/rng.h"

enum { ROUNDS = 8 };

/* Half the bits of the smallest 4^half that is at least n. */
static unsigned half_bits(uint32_t n)
{
    unsigned half = 1;
    while (half < 16 && (uint64_t)1 << 2 * half < n) half++;
    return half;
}

static uint32_t round_function(uint64_t key, unsigned round, uint32_t v)
{
    tern_rng rng = {key + ((uint64_t)round << 32 | v) * 0xd1342543de82ef95u};
    return (uint32_t)(tern_rng_u64(&rng) >> 32);
}

static uint32_t encipher(uint64_t key, unsigned half, uint32_t v)
{
    const uint32_t mask = (1u << half) - 1;
    uint32_t left = v >> half, right = v & mask;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint32_t next = left ^ (round_function(key, round, right) & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

uint32_t tern_train_order_row(const tern_train_order *order, uint64_t at)
{
    uint32_t row = (uint32_t)(at % order->n_rows);
    if (!order->shuffled) return row;
    tern_rng rng = {order->seed};
    rng.state = tern_rng_u64(&rng) + at / order->n_rows;
    const uint64_t key = tern_rng_u64(&rng);
    const unsigned half = half_bits(order->n_rows);
    do row = encipher(key, half, row);
    while (row >= order->n_rows);
    return row;
}

void tern_train_order_batch(const tern_train_order *order, uint64_t step, size_t n, uint32_t *rows)
{
    for (size_t i = 0; i < n; i++) rows[i] = tern_train_order_row(order, step * n + i);
}

uint64_t tern_train_order_epoch(const tern_train_order *order, uint64_t step, size_t n)
{
    return step * n / order->n_rows;
}
