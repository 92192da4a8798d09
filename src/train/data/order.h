/* The order in which training reads its rows: endless, and the same whenever it is asked. */
#ifndef TERN_TRAIN_DATA_ORDER_H
#define TERN_TRAIN_DATA_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tern_train_order {
    uint32_t n_rows; /* at least 1 */
    bool shuffled;   /* a permutation of its own for each epoch, by seed; else 0, 1, 2, ... */
    uint64_t seed;
} tern_train_order;

/* The row at place `at` of epoch after epoch: at / n_rows is the epoch. A pure function without state or table, so that
 * a run resumes from its step alone. */
uint32_t tern_train_order_row(const tern_train_order *order, uint64_t at);

/* The rows of batch number `step` from 0: places step * n to step * n + n - 1. Batches are always full: one may end an
 * epoch and begin the next. */
void tern_train_order_batch(const tern_train_order *order, uint64_t step, size_t n, uint32_t *rows);
/* The epoch, from 0, in which that batch begins. */
uint64_t tern_train_order_epoch(const tern_train_order *order, uint64_t step, size_t n);

#endif
