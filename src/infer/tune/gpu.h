/* Measuring which pipelines of a GPU serve each product of a model best: the model itself runs, every dispatch timed,
 * with one alternative after the other. */
#ifndef TERN_INFER_TUNE_GPU_H
#define TERN_INFER_TUNE_GPU_H

#include "infer/engine/engine.h"

enum { TERN_TUNE_GPU_MAX_ROWS = 512 };

/* One pipeline for one product. */
typedef struct tern_tune_gpu_row {
    tern_kernel_choice choice;          /* encoding, rows, columns, tokens, device; its kernel */
    char usual[TERN_KERNEL_NAME_BYTES]; /* what the table takes for the product: rows of one product have the same */
    uint64_t n, ns;                     /* dispatches measured, and what they took in all */
    uint64_t bytes;                     /* of weights that one reads */
    bool best;                          /* of its product, by TERN_TUNE_GPU_MARGIN and twice; else the usual one is */
} tern_tune_gpu_row;

typedef struct tern_tune_gpu_options {
    uint32_t n_batch;                            /* tokens of the prefill; 0: 512 */
    double seconds;                              /* that a pass over the model takes at least, after a first step */
    bool (*progress)(void *context, float done); /* false cancels; may be NULL */
    void *context;
} tern_tune_gpu_options;

/* Those of a product follow each other, the usual one first. */
typedef struct tern_tune_gpu_result {
    tern_tune_gpu_row rows[TERN_TUNE_GPU_MAX_ROWS];
    uint32_t n;
} tern_tune_gpu_result;

/* A pipeline has to be so much faster than the table's to replace it. */
#define TERN_TUNE_GPU_MARGIN 0.03

double tern_tune_gpu_microseconds(const tern_tune_gpu_row *row);

/* Prefill of a batch and decoding on an engine whose backend was opened with `profile`; it has no choices in the end.
 * Errors: UNSUPPORTED (no GPU; one without timestamps), CANCELLED, LIMIT (more than TERN_TUNE_GPU_MAX_ROWS), those of
 * sessions. */
tern_status tern_tune_gpu(tern_engine *engine, const tern_tune_gpu_options *options, tern_tune_gpu_result *out,
                          tern_error *err);

#endif
