/* The measurements of `tern tune`, as a file keeps them (docs/guides/tuning.md). */
#ifndef TERN_INFER_TUNE_CACHE_H
#define TERN_INFER_TUNE_CACHE_H

#include "backend/kernel_choice.h"
#include "tern/bytes.h"

enum { TERN_TUNE_MAX_CHOICES = 4096, TERN_TUNE_MAX_DECODES = 256, TERN_TUNE_MAX_FILE = 4 << 20 };

/* The times of a choice and of the default, per product, and the bytes that it reads. */
typedef struct tern_tune_cost {
    uint64_t bytes;
    double microseconds, default_microseconds;
} tern_tune_cost;

/* The speed of a whole model with the defaults and with its choices, measured in turns; tokens per second. */
typedef struct tern_tune_decoded {
    char model[96]; /* the last part of its path */
    uint32_t n_threads;
    double standard, tuned;
    uint32_t n_choices, n_left_out; /* other kernels than the default, and what of them did not help */
} tern_tune_decoded;

/* Zero-initialised is empty. Choices are in the order in which they were added; no two have the same encoding, shape
 * and threads. */
typedef struct tern_tune_cache {
    char *cpu, *build; /* what they hold for; NULL while empty */
    tern_kernel_choice *choices;
    tern_tune_cost *costs;
    size_t n, choices_cap, costs_cap;
    tern_tune_decoded *decodes; /* no two of the same model and threads */
    size_t n_decodes, decodes_cap;
} tern_tune_cache;

void tern_tune_cache_deinit(tern_tune_cache *cache);
/* Makes it an empty one of this CPU and build. */
tern_status tern_tune_cache_init(tern_tune_cache *cache, const char *cpu, const char *build, tern_error *err);
/* Adds a choice, or replaces the one of the same encoding, shape and threads. Errors: INVALID_ARGUMENT (a field out of
 * its range), LIMIT (TERN_TUNE_MAX_CHOICES), OUT_OF_MEMORY. */
tern_status tern_tune_cache_add(tern_tune_cache *cache, const tern_kernel_choice *choice, const tern_tune_cost *cost,
                                tern_error *err);
/* The place of the choice of this encoding, shape and threads; cache->n when there is none. */
size_t tern_tune_cache_find(const tern_tune_cache *cache, const tern_kernel_choice *key);
/* As above for the decoding of a model; of TERN_TUNE_MAX_DECODES the oldest goes. */
tern_status tern_tune_cache_add_decode(tern_tune_cache *cache, const tern_tune_decoded *decoded, tern_error *err);
size_t tern_tune_cache_find_decode(const tern_tune_cache *cache, const tern_tune_decoded *key);
/* Adds all that `from` has. */
tern_status tern_tune_cache_merge(tern_tune_cache *into, const tern_tune_cache *from, tern_error *err);

/* Reads untrusted bytes. Names of kernels are not looked up. Errors: MALFORMED (what was found and what is expected),
 * UNSUPPORTED (another version), LIMIT, OUT_OF_MEMORY; *out is empty then. */
tern_status tern_tune_cache_parse(tern_tune_cache *out, const void *bytes, size_t n, tern_error *err);
/* Appends the file's text: the same cache gives the same bytes, and reading them the same cache. */
tern_status tern_tune_cache_print(const tern_tune_cache *cache, tern_buf *out, tern_error *err);
/* UNSUPPORTED, with both names, when it was measured on another CPU or by another build. */
tern_status tern_tune_cache_check(const tern_tune_cache *cache, const char *cpu, const char *build, tern_error *err);

#endif
