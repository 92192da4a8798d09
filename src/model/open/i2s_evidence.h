/* In which order the codes of a file's I2_S layers are, which the file does not say. A trained norm and the matrix that
 * reads its output agree on which columns matter: where the gain is large, fewer codes are 0. Read in another order,
 * the columns are permuted and the agreement is gone. */
#ifndef TERN_MODEL_OPEN_I2S_EVIDENCE_H
#define TERN_MODEL_OPEN_I2S_EVIDENCE_H

#include "model/model_internal.h"
#include "quant/i2_s_order.h"

/* Counts what rows first .. first + n - 1 of a weight of the model's table show; `bytes` are these rows alone. At most
 * 256 rows of each matrix of four layers are looked at. Other encodings, and columns that are not a multiple of 128,
 * show nothing. Errors: OUT_OF_MEMORY. */
tern_status tern_i2s_evidence_see(tern_model *model, const tern_weight *weight, uint32_t first, uint32_t n,
                                  const uint8_t *bytes, tern_error *err);
/* The order for which the evidence is best, where it is by more than chance: *z standard deviations, at least 4, better
 * than for Tern's own; else Tern's own. Whatever is seen of random weights, z stays below 1.
 *
 *   r[k][o]  mean over layers of |rank correlation| of the gains of norm k with the numbers of codes that are not 0 in
 *            the columns of the matrices behind it, read in order o
 *   z(o) =   sum_k sqrt(cols_k) (r[k][o] - r[k][own]) / sqrt(2 K), K norms having evidence
 *
 * Errors: OUT_OF_MEMORY. */
tern_status tern_i2s_evidence_judge(const tern_model *model, const tern_i2s_order **order, double *z, tern_error *err);
void tern_i2s_evidence_close(tern_i2s_evidence *evidence);

#endif
