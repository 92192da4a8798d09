/* Any text as a kernel_config.ini of bitnet.cpp: what is accepted has sections of positive numbers. */
#include "fuzz/fuzz.h"
#include "quant/foreign.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tern_tl_tiles tiles;
    tern_error err = {0};
    const tern_status status = tern_tl_tiles_parse(&tiles, (const char *)data, size, &err);
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
    for (uint32_t i = 0; status == TERN_OK && i < tiles.n; i++)
        FUZZ_CHECK(tiles.items[i].rows && tiles.items[i].cols && tiles.items[i].tile_rows && tiles.items[i].tile_cols &&
                   tiles.items[i].strip_rows);
    return 0;
}
