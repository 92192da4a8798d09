/* Products of int8 in the tiles of AMX (Intel SDM, volume 1, chapter 18), which all kernels of this level share.
 *
 * The eight tiles are a square of 2 by 2: two of tokens times two of weights are four of sums, so that a load serves
 * two products. Tokens lie as they are, a row for each. A tile of weights has 16 rows of them: four columns of each
 * together, then the next four (interleave_avx512.h), up to 64 columns, a *step*. */
#ifndef TERN_BACKEND_CPU_TILES_TILES_AMX_H
#define TERN_BACKEND_CPU_TILES_TILES_AMX_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    TILE = 16,         /* rows of a tile, and sums of each */
    SQUARE = 2 * TILE, /* tokens of a square */
    TILE_STEP = 64     /* columns of the longest step */
};

/* Sums of the tokens of a square times 32 rows of weights. */
typedef struct square {
    _Alignas(64) int32_t sums[SQUARE][SQUARE];
} square;

/* Gives the tiles their shapes: n tokens, 1 to 32, and steps of `step` columns, a multiple of 4. All are zeroed. With
 * 16 tokens or fewer the second half of the square is of the first token. */
static inline void tiles_open(uint32_t n, uint32_t step)
{
    struct {
        uint8_t palette, start_row, none[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shapes = {.palette = 1};
    const uint8_t tokens[2] = {(uint8_t)(n < TILE ? n : TILE), (uint8_t)(n > TILE ? n - TILE : 1)};
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) shapes.rows[2 * i + j] = tokens[i], shapes.row_bytes[2 * i + j] = 4 * TILE;
        shapes.rows[4 + i] = tokens[i], shapes.row_bytes[4 + i] = (uint16_t)step;
        shapes.rows[6 + i] = (uint8_t)(step / 4), shapes.row_bytes[6 + i] = 4 * TILE;
    }
    __asm__ volatile("" ::"r"(&shapes) : "memory"); /* intrinsics do not say what memory they read */
    _tile_loadconfig(&shapes);
}

/* Tiles that are in use make every switch of threads dearer. */
static inline void tiles_close(void)
{
    _tile_release();
}

/* The tokens of a square: row t at x + t * stride. */
typedef struct tile_tokens {
    const int8_t *x;
    size_t stride;
    uint32_t n;
} tile_tokens;

#define TILES_INLINE static inline __attribute__((always_inline))

/* The sums of a square begin anew. */
TILES_INLINE void tiles_zero(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

/* Adds one step of the tokens, from column `at` on, times the weights of that step at w0 (rows 0 .. 15) and w1 (16 ..
 * 31). */
TILES_INLINE void tiles_step(const tile_tokens *in, uint32_t at, const int8_t *w0, const int8_t *w1)
{
    const int8_t *x0 = in->x + at, *x1 = in->n > TILE ? x0 + TILE * in->stride : x0;
    __asm__ volatile("" ::: "memory");
    _tile_loadd(4, x0, in->stride);
    _tile_loadd(6, w0, 4 * TILE);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(7, w1, 4 * TILE);
    _tile_dpbssd(1, 4, 7);
    _tile_loadd(5, x1, in->stride);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
}

/* Only sums of tokens that are there mean something. */
TILES_INLINE void tiles_store(square *out)
{
    _tile_stored(0, out->sums[0], sizeof *out->sums);
    _tile_stored(1, out->sums[0] + TILE, sizeof *out->sums);
    _tile_stored(2, out->sums[TILE], sizeof *out->sums);
    _tile_stored(3, out->sums[TILE] + TILE, sizeof *out->sums);
    __asm__ volatile("" ::: "memory");
}

/* out = n_steps steps of the tokens, from column `at` on, times the weights at w0 and w1, whose steps follow one
 * another. */
TILES_INLINE void tiles_multiply(const tile_tokens *in, uint32_t at, const int8_t *w0, const int8_t *w1,
                                 uint32_t n_steps, const uint32_t step, square *out)
{
    tiles_zero();
    for (uint32_t s = 0; s < n_steps; s++) tiles_step(in, at + s * step, w0 + s * step * TILE, w1 + s * step * TILE);
    tiles_store(out);
}

#endif
