/* The golden files of training (fixtures: README), and how far from them something is. */
#ifndef TERN_TESTS_TRAIN_GOLDENS_H
#define TERN_TESTS_TRAIN_GOLDENS_H

#include "format/safetensors.h"
#include "support/reference_model.h"
#include "support/test.h"

enum { RANK = 8 }; /* of the golden adapter */

tern_safetensors *open_file(const char *name);
const void *data_of(const tern_safetensors *st, const char *name, size_t n);
/* |got - want| / |want| */
double distance(const float *got, const float *want, size_t n);
/* The name of one half of the adapter of a tensor. */
const char *half_name(const ref_param *p, const char *before, const char *half);
void attach(ref_model *model, ref_param *p, const tern_safetensors *adapter);

#endif
