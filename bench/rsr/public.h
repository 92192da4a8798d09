/* Products of the public RSR code, for comparison. */
#ifndef TERN_BENCH_RSR_PUBLIC_H
#define TERN_BENCH_RSR_PUBLIC_H

#include "rsr/products.h"

/* Rows of the table of shapes, for each ternary kernel (version 3.1 or 3.3) that the shared library at `path` has. Ends
 * the program where there is no library or a product is wrong. */
void print_public(const char *path, const matrix *m, const cold_options *o);

#endif
