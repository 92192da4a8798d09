/* Pieces of the NEON gemms: four columns of four rows in a vector. */
#ifndef TERN_BACKEND_CPU_TERNARY_GEMM_NEON_H
#define TERN_BACKEND_CPU_TERNARY_GEMM_NEON_H

#include <arm_neon.h>
#include <string.h>

#include "backend/cpu/ternary/ternary.h"

enum { LANES = 4 };

typedef int8x16_t vector;

static inline vector load(const uint8_t *codes)
{
    return vreinterpretq_s8_u8(vld1q_u8(codes));
}

static inline vector broadcast(const int8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

/* add_sums of ternary_gemm.h, for sums of 32 bits. */
static inline void add_sums_32(int32_t *dots, uint32_t n, bool first, int32_t start, int32x4_t s)
{
    int32_t rows[LANES];
    vst1q_s32(rows, s);
    for (uint32_t i = 0; i < n && i < LANES; i++) dots[i] = rows[i] + (first ? start : dots[i]);
}

/* interleave of ternary_gemm.h, to a panel of step_bytes a step. */
static inline void interleave_4(uint8_t rows[LANES][TERN_PANEL_COLS_MAX], uint32_t c, uint8_t *out, size_t step_bytes)
{
    uint32x4x4_t in;
    uint8_t together[64];
    for (int i = 0; i < 4; i++) in.val[i] = vreinterpretq_u32_u8(vld1q_u8(rows[i] + c));
    vst4q_u32((void *)together, in);
    for (int j = 0; j < 4; j++) vst1q_u8(out + (size_t)j * step_bytes, vld1q_u8(together + 16 * j));
}

#endif
