/* tern bench --kernels: the shapes, read and checked before anything is measured. */
#include <stdlib.h>
#include <string.h>

#include "apps/bench/kernels.h"
#include "base/cpu.h"
#include "base/show.h"
#include "quant/encoding.h"

/* Squares; q and o, k and v, gate and up, down of BitNet 2B4T; a layer of a 7B model. */
static const tern_bench_shape usual[] = {{1024, 1024}, {2048, 2048}, {4096, 4096}, {8192, 8192}, {16384, 16384},
                                         {2560, 2560}, {640, 2560},  {6912, 2560}, {2560, 6912}, {4096, 14336}};

static tern_status parse_shape(const char *text, char **end, tern_bench_shape *out, tern_error *err)
{
    const unsigned long rows = strtoul(text, end, 10);
    const bool has_cols = **end == 'x' && (*end)[1] >= '0' && (*end)[1] <= '9';
    const unsigned long cols = has_cols ? strtoul(*end + 1, end, 10) : 0;
    if (*text < '0' || *text > '9' || rows < 1 || cols < 1 || rows > TERN_BENCH_MAX_SIDE ||
        cols > TERN_BENCH_MAX_SIDE || (**end && **end != ','))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--shapes \"%s\": ROWSxCOLS,... with 1 to %d of each expected",
                         tern_show_z(text).text, TERN_BENCH_MAX_SIDE);
    *out = (tern_bench_shape){(uint32_t)rows, (uint32_t)cols};
    return TERN_OK;
}

static tern_status parse(tern_bench_job *j, tern_error *err)
{
    const char *text = j->options->shapes;
    if (!text) {
        memcpy(j->shapes, usual, sizeof usual);
        j->n_shapes = sizeof usual / sizeof *usual;
        return TERN_OK;
    }
    for (char *end; j->n_shapes < TERN_BENCH_MAX_SHAPES; text = end + 1) {
        TERN_TRY(parse_shape(text, &end, &j->shapes[j->n_shapes++], err));
        if (!*end) return TERN_OK;
    }
    return tern_fail(err, TERN_INVALID_ARGUMENT, "--shapes: more than %d found, at most %d expected",
                     TERN_BENCH_MAX_SHAPES, TERN_BENCH_MAX_SHAPES);
}

bool tern_bench_left_out(const tern_encoding *e, tern_bench_shape s, tern_error *why)
{
    size_t ignored;
    return tern_encoding_bytes(e, s.rows, s.cols, &ignored, why) != TERN_OK;
}

static tern_status check_encodings(tern_bench_shape s, tern_error *err)
{
    const tern_encoding *e;
    tern_error why = {0};
    for (size_t i = 0; (e = tern_encoding_at(i)); i++)
        if (e->ternary && !tern_bench_left_out(e, s, &why)) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "--shapes %ux%u: no ternary encoding: %s", s.rows, s.cols,
                     why.message);
}

/* The packed bytes stay in memory. The codes that they are made from come first, then the copies. The last copy may
 * go over cold_bytes. A copy takes at most half a byte a weight, except for matrices too small to matter. */
static tern_status check_memory(const tern_bench_job *j, tern_bench_shape s, tern_error *err)
{
    const uint64_t n = (uint64_t)s.rows * s.cols, copies = tern_app_cold_bytes(j->options) + n / 2,
                   need = n / 4 + (n > copies ? n : copies), memory = tern_cpu_memory();
    if (memory == 0 || need <= memory) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "--shapes %ux%u, copies of %llu MiB: %llu MiB of memory expected, %llu MiB found", s.rows, s.cols,
                     (unsigned long long)(tern_app_cold_bytes(j->options) >> 20), (unsigned long long)(need >> 20),
                     (unsigned long long)(memory >> 20));
}

tern_status tern_bench_shapes_read(tern_bench_job *j, tern_error *err)
{
    TERN_TRY(parse(j, err));
    for (uint32_t s = 0; s < j->n_shapes; s++) {
        TERN_TRY(check_encodings(j->shapes[s], err));
        TERN_TRY(check_memory(j, j->shapes[s], err));
    }
    return TERN_OK;
}
