/* Importance matrices: sums of the squared inputs of linear layers while a model reads a text, as llama.cpp's imatrix
 * keeps them in GGUF files. docs/reference/formats/imatrix.md. */
#ifndef TERN_MODEL_IMATRIX_H
#define TERN_MODEL_IMATRIX_H

#include "model/model.h"

/* One matrix: squares[c] = sum over counts[0] rows of its input of x[c]^2; of experts, which are one weight, each has
 * its own: squares[e * cols + c], counts[e] rows. */
typedef struct tern_imatrix_sums {
    char name[TERN_ROLE_NAME_BYTES]; /* GGUF's: "blk.0.attn_q.weight" */
    const tern_weight *weight;       /* borrowed; not written */
    uint32_t cols, n_experts;        /* 1: none */
    double *squares;                 /* [n_experts][cols] */
    uint64_t *counts;                /* [n_experts] */
} tern_imatrix_sums;

/* Sums of 0 for all matrices of a model's layers, in the order of files; the caller's to free. Errors: OUT_OF_MEMORY.
 */
tern_status tern_imatrix_sums_make(tern_imatrix_sums **sums, size_t *n, const tern_model *model, tern_error *err);
void tern_imatrix_sums_free(tern_imatrix_sums *sums, size_t n);

/* The text that they were measured on. */
typedef struct tern_imatrix_about {
    const char *dataset; /* the text's name */
    uint32_t n_chunks, chunk_size;
} tern_imatrix_about;

/* Errors: those of writing. */
tern_status tern_imatrix_write(const char *path, const tern_imatrix_sums *sums, size_t n,
                               const tern_imatrix_about *about, tern_error *err);

typedef struct tern_imatrix tern_imatrix;

/* Errors: those of tern_gguf_parse and of files; MALFORMED (no importance matrix). */
tern_status tern_imatrix_open(tern_imatrix **m, const char *path, tern_error *err);
/* As above from bytes, which the caller keeps. */
tern_status tern_imatrix_open_memory(tern_imatrix **m, const void *data, size_t size, tern_error *err);
/* NULL is fine. */
void tern_imatrix_close(tern_imatrix *m);
/* Entries, and chunks of text that they were measured on; 0: not said. */
uint32_t tern_imatrix_entries(const tern_imatrix *m);
uint32_t tern_imatrix_chunks(const tern_imatrix *m);
/* The file's name without folders; "" from memory. */
const char *tern_imatrix_name(const tern_imatrix *m);
/* mean[n_experts][cols]: the mean squared input of each column of the matrix `name`, of each expert's (n_experts 1: it
 * has none); 1 in all columns of an expert without rows. *found false, and nothing else: it has no entry. Errors:
 * MALFORMED with the tensor's name (another type or number of columns or experts; a count that is not positive, of
 * experts one below 0 or all of 0; a sum that is below 0 or not finite). */
tern_status tern_imatrix_mean(const tern_imatrix *m, const char *name, uint32_t n_experts, uint32_t cols, float *mean,
                              bool *found, tern_error *err);

#endif
