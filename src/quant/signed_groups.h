/* tern_signed_fit__groups for each level of CPU features that has one: the same bits, more groups side by side. */
#ifndef TERN_QUANT_SIGNED_GROUPS_H
#define TERN_QUANT_SIGNED_GROUPS_H

#include "quant/signed_fit.h"

uint16_t tern_signed_fit__groups_4(const tern_signed_fit *f, int least, const float *x, const float *w,
                                   int8_t *multiples, float *q);
uint16_t tern_signed_fit__groups_avx2(const tern_signed_fit *f, int least, const float *x, const float *w,
                                      int8_t *multiples, float *q);
uint16_t tern_signed_fit__groups_avx512(const tern_signed_fit *f, int least, const float *x, const float *w,
                                        int8_t *multiples, float *q);

#endif
