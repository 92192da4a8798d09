/* Shared by update_case*.c. */
#ifndef TERN_TESTS_SUPPORT_UPDATE_PARTS_H
#define TERN_TESTS_SUPPORT_UPDATE_PARTS_H

#include "quant/absmean.h"
#include "support/update_case.h"

#define UPDATE_FIRST_SCALE 0.5f /* of codes that were there before */

uint64_t update_elements(const update_case *c);
bool update_has_m(const update_case *c);
bool update_has_v(const update_case *c);
size_t update_row_bytes(const update_case *c);
uint8_t *update_initial_master(const update_case *c);
void update_gradient(const update_case *c, uint32_t step, float *g);
tern_train_params update_params(const update_case *c, uint32_t step);

#endif
