/* Helpers for measuring kernels. */
#include "apps/tune/tune.h"

#include <string.h>

#include "base/cpu.h"

enum { LEAST_COLD = 64 << 20, MOST_COLD = 1 << 30, DEFAULT_MS = 60 };

static uint32_t without_repeats(uint32_t *numbers, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool seen = false;
        for (uint32_t k = 0; k < kept; k++) seen |= numbers[k] == numbers[i];
        if (!seen) numbers[kept++] = numbers[i];
    }
    return kept;
}

tern_status tern_app_backends_open(tern_app_backends *out, const tern_options *o, tern_error *err)
{
    uint32_t counts[TERN_TUNE_MAX_BACKENDS] = {1, tern_cpu_cores()}, n = counts[1] > 1 ? 2 : 1;
    tern_status status;
    *out = (tern_app_backends){0};
    if (o->threads) TERN_TRY(tern_app_parse_list("threads", o->threads, 1024, counts, TERN_TUNE_MAX_BACKENDS, &n, err));
    n = without_repeats(counts, n);
    for (uint32_t i = 0; i < n; i++) {
        const tern_backend_options how = {.n_threads = counts[i], .pin = o->pin, .cpu_features = o->cpu_features};
        TERN_GOTO(tern_backend_open(&out->at[i], &how, err));
        out->n++;
    }
    return TERN_OK;
fail:
    tern_app_backends_close(out);
    return status;
}

void tern_app_backends_close(tern_app_backends *b)
{
    for (uint32_t i = 0; i < b->n; i++) b->at[i]->close(b->at[i]);
    *b = (tern_app_backends){0};
}

uint64_t tern_app_cold_bytes(const tern_options *o)
{
    const uint64_t memory = tern_cpu_memory(), cache = tern_cpu_cache();
    uint64_t n = cache + cache / 3;
    if (o->cold_mib) return (uint64_t)o->cold_mib << 20;
    if (n < LEAST_COLD) n = LEAST_COLD;
    if (n > MOST_COLD) n = MOST_COLD;
    return memory && n > memory / 4 ? memory / 4 : n;
}

double tern_app_measure_seconds(const tern_options *o)
{
    return 1e-3 * (o->measure_ms ? o->measure_ms : DEFAULT_MS);
}
