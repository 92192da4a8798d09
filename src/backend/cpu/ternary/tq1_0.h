/* TQ1_0: the layout of a block, for its kernels.
 *
 * A block is 256 elements in 54 bytes. A byte is a fraction of 256 whose base-3 digits are codes: digit n is the
 * integer part of 3 * frac(3^n * byte / 256).
 *
 *   element e < 160   digit e / 32          of byte e % 32
 *   then e' < 80      digit e' / 16         of byte 32 + e' % 16
 *   then e'' < 16     digit e'' / 4         of byte 48 + e'' % 4
 *
 * The last two bytes are the scale. */
#ifndef TERN_BACKEND_CPU_TERNARY_TQ1_0_H
#define TERN_BACKEND_CPU_TERNARY_TQ1_0_H

#include <stdint.h>

enum { TERN_TQ1_0_ELEMENTS = 256, TERN_TQ1_0_BYTES = 54, TERN_TQ1_0_FIVES_16 = 32, TERN_TQ1_0_FOURS = 48 };

/* 3^digit of elements 2 i and 2 i + 1. */
extern const uint16_t tern_cpu__tq1_0_powers[128];

#endif
