/* The product of two-bit codes with a few tokens in the tiles of AMX. */
#ifndef TERN_BACKEND_CPU_TERNARY_FEW_AMX_H
#define TERN_BACKEND_CPU_TERNARY_FEW_AMX_H

#include "backend/cpu/ternary/ternary.h"

enum { TERN_AMX_FEW_MIN = 5, TERN_AMX_FEW_MAX = 64 /* tokens; measured: 4 take as long one after another */ };

/* dots[t][r] = row r times token t of p, for 1 to TERN_AMX_FEW_MAX tokens. Rows are pairs of groups of 32 bytes
 * (the last may be one group), pair_bytes from pair to pair; low_first: columns 0 .. 31 of a group are the lowest two
 * bits of its bytes, else the highest. */
void tern_amx__few(const tern_cpu__product *p, uint32_t pair_bytes, bool low_first);

#endif
