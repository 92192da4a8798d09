/* Whole RSR products, and the names that the public code has for their kernels. */
#include "rsr/multipliers/product.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/show.h"

#define X          int8_t
#define Y          int32_t
#define STEP       rsr_step_i8
#define KERNEL     tern_rsr_i8_fn
#define NAME(what) rsr_i8_##what
#include "rsr/multipliers/product.inc"

#define X          float
#define Y          float
#define STEP       rsr_step_f32
#define KERNEL     rsr_f32_fn
#define NAME(what) rsr_f32_##what
#include "rsr/multipliers/product.inc"

static const struct {
    const char *version, *step;
} versions[] = {
    {"binary 1", "gather"},   {"binary 2.4", "permuted"}, {"binary 4.2", "direct"},
    {"ternary 1.4", "lists"}, {"ternary 3.1", "lists16"}, {"ternary 3.3", "masks"},
};
enum { N_VERSIONS = sizeof versions / sizeof *versions };

const rsr_step rsr_steps[] = {
#define RSR_STEP(name, words) {#name, rsr_##name##_i8, rsr_##name##_f32},
    RSR_STEPS(RSR_STEP)
#undef RSR_STEP
        {0},
};

const char *rsr_multiplier_version(size_t i)
{
    return i < N_VERSIONS ? versions[i].version : NULL;
}

static tern_status unknown(const char *version, tern_error *err)
{
    char all[128] = "";
    for (size_t i = 0, at = 0; i < N_VERSIONS && at < sizeof all; i++)
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", i ? ", " : "", versions[i].version);
    return tern_fail(err, TERN_INVALID_ARGUMENT, "rsr: multiplier \"%s\" found, one of %s expected",
                     tern_show_z(version).text, all);
}

tern_status rsr_multiplier_find(const char *version, uint32_t features, rsr_multiplier *out, tern_error *err)
{
    size_t v = 0;
    while (v < N_VERSIONS && strcmp(versions[v].version, version) != 0) v++;
    if (v == N_VERSIONS) return unknown(version, err);
    *out = (rsr_multiplier){.version = versions[v].version,
                            .step = versions[v].step,
                            .ternary = strncmp(version, "ternary", 7) == 0,
                            .i8 = rsr_gather_i8(features),
                            .f32 = rsr_gather_f32(features)};
    for (const rsr_step *s = rsr_steps; s->name; s++) {
        if (strcmp(s->name, out->step) != 0) continue;
        out->i8 = s->i8;
        out->f32 = s->f32;
    }
    if (out->i8) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "rsr: multiplier \"%s\" needs a CPU with gathers: AVX2", version);
}
