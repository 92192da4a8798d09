/* One run of `tern tune`. */
#ifndef TERN_APPS_TUNE_INTERNAL_H
#define TERN_APPS_TUNE_INTERNAL_H

#include "apps/progress.h"
#include "apps/tune/tune.h"
#include "infer/tune/decode.h"

enum { TERN_TUNE_MAX_SHAPES = 64 };

typedef struct tern_tune_job {
    const tern_options *o;
    tern_app_path path, model;
    tern_tune_cache made; /* by this run */
    tern_app_backends backends;
    const tern_weight *shapes[TERN_TUNE_MAX_SHAPES]; /* one weight of each */
    uint32_t n_of[TERN_TUNE_MAX_SHAPES], n_shapes, shape;
    uint32_t ways; /* measured of this shape */
    tern_progress progress;
    json_t *results, *decodes; /* NULL without --json */
} tern_tune_job;

/* Measures the shapes one after another and keeps what each gives, so that Ctrl-C loses one at most. */
tern_status tern_tune_job_shapes(tern_tune_job *job, const tern_model *model, tern_error *err);
/* Decodes with and without the choices on each number of threads, and leaves out what does not help. */
tern_status tern_tune_job_decode(tern_tune_job *job, tern_error *err);

/* Measures the pipelines of the GPU of --backend, keeps what they give, and decodes as tern_tune_job_decode. */
tern_status tern_tune_job_gpu(tern_tune_job *job, tern_error *err);

/* ---- show.c */

/* The measurement of a shape on one number of threads. */
void tern_tune_show_rows(const tern_tune_job *job, const tern_weight *w, const tern_tune_result *r, uint32_t backend);
void tern_tune_show_decode(const tern_tune_job *job, uint32_t n_threads, const tern_tune_decode_result *r);
/* All that a file has. `why`: why it does not hold here, or NULL. */
void tern_tune_show_cache(const tern_tune_cache *cache, const char *path, const char *why);
/* The file's fields and the path; `why` as before. */
json_t *tern_tune_cache_document(const tern_tune_cache *cache, const char *path, const char *why);

#endif
