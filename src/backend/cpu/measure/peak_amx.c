/* Peak of tdpbssd: products of tiles that stay where they are. */
#include "backend/cpu/measure/peak.h"
#include "backend/cpu/tiles/tiles_amx.h"

uint64_t tern_cpu__peak_amx(uint64_t n)
{
    enum { TURN = 2 * SQUARE * SQUARE * TILE_STEP };
    if (n == 0) return TURN;
    int8_t bytes[TILE * TILE_STEP];
    int32_t sums[TILE * TILE];
    memset(bytes, (int8_t)n, sizeof bytes);
    tiles_open(SQUARE, TILE_STEP);
    __asm__ volatile("" ::: "memory");
    _tile_loadd(4, bytes, TILE_STEP);
    _tile_loadd(5, bytes, TILE_STEP);
    _tile_loadd(6, bytes, TILE_STEP);
    _tile_loadd(7, bytes, TILE_STEP);
    while (n--) {
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
        _tile_dpbssd(0, 4, 7);
        _tile_dpbssd(1, 4, 6);
        _tile_dpbssd(2, 5, 7);
        _tile_dpbssd(3, 5, 6);
    }
    _tile_stored(0, sums, 4 * TILE);
    __asm__ volatile("" ::: "memory");
    tiles_close();
    return (uint64_t)(uint32_t)sums[0];
}
