/* Properties that all ranks must have in common, and what each of them has taken. */
#include <string.h>
#if defined(__linux__)
#include <sys/resource.h>
#endif

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/show.h"
#include "infer/follow/follow.h"
#include "ranks/ranks.h"

/* ---- one file for all */

enum { BEGINNING = 1 << 20, PIECE = 4096, PIECES = 64 };

/* Samples that two files that differ hardly share: the size, the beginning, and pieces from all over the rest. */
static tern_status sum_of_bytes(const uint8_t *data, size_t size, char sum[TERN_SHA256_DIGITS + 1], tern_error *err)
{
    tern_buf parts = {0};
    const uint64_t whole = size;
    tern_status status = tern_buf_add(&parts, &whole, sizeof whole, err);
    const size_t head = size < BEGINNING ? size : BEGINNING, rest = size - head;
    if (status == TERN_OK) status = tern_buf_add(&parts, data, head, err);
    for (size_t i = 0; i < PIECES && rest > PIECE && status == TERN_OK; i++)
        status = tern_buf_add(&parts, data + head + (rest - PIECE) / (PIECES - 1) * i, PIECE, err);
    if (status == TERN_OK) status = tern_sha256(parts.data, parts.size, sum, err);
    tern_buf_deinit(&parts);
    return status;
}

static tern_status sum_of(const char *path, char sum[TERN_SHA256_DIGITS + 1], tern_error *err)
{
    tern_file_map map;
    char *config = tern_file_is_dir(path) ? tern_path_join(path, "config.json") : NULL;
    tern_status status = tern_file_map_open(&map, config ? config : path, err);
    tern_free(config);
    TERN_TRY(status);
    status = sum_of_bytes(map.data, map.size, sum, err);
    tern_file_map_close(&map);
    return status;
}

tern_status tern_follow__agree(tern_ranks *ranks, const char *path, tern_error *err)
{
    char mine[TERN_SHA256_DIGITS + 1], all[TERN_MAX_RANKS][TERN_SHA256_DIGITS + 1];
    size_t bytes[TERN_MAX_RANKS];
    TERN_TRY(sum_of(path, mine, err));
    for (uint32_t i = 0; i < ranks->n; i++) bytes[i] = sizeof mine;
    TERN_TRY(ranks->gather(ranks, mine, bytes, all, err));
    for (uint32_t i = 1; i < ranks->n; i++)
        if (memcmp(all[i], all[0], sizeof mine) != 0)
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "%s: rank %u has another file there than rank 0 (SHA-256 of its size, beginning and parts "
                             "%.12s, %.12s expected)",
                             tern_show_z(path).text, i, all[i], all[0]);
    return TERN_OK;
}

/* ---- what each has taken */

static uint64_t peak_bytes(void)
{
#if defined(__linux__)
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0) return (uint64_t)usage.ru_maxrss * 1024;
#endif
    return 0;
}

tern_status tern_follow__gather_usage(tern_engine *engine, tern_rank_usage *all, tern_error *err)
{
    tern_ranks *ranks = tern_engine_ranks(engine);
    const tern_rank_usage mine = {.weight_bytes = tern_model_bytes(tern_engine_model(engine)),
                                  .peak_bytes = peak_bytes()};
    size_t bytes[TERN_MAX_RANKS];
    for (uint32_t i = 0; i < ranks->n; i++) bytes[i] = sizeof mine;
    return ranks->gather(ranks, &mine, bytes, all, err);
}

tern_status tern_engine_usage(tern_engine *engine, tern_rank_usage *usage, tern_error *err)
{
    TERN_NEED(engine, err);
    TERN_NEED(usage, err);
    tern_ranks *ranks = tern_engine_ranks(engine);
    if (!ranks || ranks->rank != 0) return tern_fail(err, TERN_INVALID_ARGUMENT, "rank 0 alone can ask all ranks");
    TERN_TRY(tern_follow__send(engine, (tern_bound_message){.kind = TERN_MESSAGE_USAGE}, NULL, 0, err));
    return tern_follow__gather_usage(engine, usage, err);
}
