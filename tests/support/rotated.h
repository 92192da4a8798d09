/* A model whose weights are rotated, as Bonsai 2's are: it computes what it computed before. */
#ifndef TERN_TESTS_SUPPORT_ROTATED_H
#define TERN_TESTS_SUPPORT_ROTATED_H

/* Writes the GGUF file of f32 tensors at `path` with its matrices and its embedding table in a basis of blocks of 16
 * columns and random signs, to the scratch file `name`; its path. */
const char *test_rotated(const char *path, const char *name);

#endif
