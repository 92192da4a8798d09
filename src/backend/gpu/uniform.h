/* The words of a dispatch's uniform, put one after the other as its kernel's struct P has them. */
#ifndef TERN_BACKEND_GPU_UNIFORM_H
#define TERN_BACKEND_GPU_UNIFORM_H

#include <assert.h>
#include <string.h>

#include "backend/gpu/gpu.h"

typedef struct tern_gpu_words {
    uint32_t word[TERN_GPU_UNIFORM_WORDS];
    size_t n;
} tern_gpu_words;

static inline void tern_gpu__put(tern_gpu_words *u, uint32_t word)
{
    assert(u->n < TERN_GPU_UNIFORM_WORDS);
    u->word[u->n++] = word;
}

static inline void tern_gpu__put_float(tern_gpu_words *u, float value)
{
    tern_gpu__put(u, tern_gpu__float_bits(value));
}

/* Where the view's rows start and how far it is from one to the next, in `unit` floats. The binding starts at the
 * view's first row. */
static inline void tern_gpu__put_view(tern_gpu_words *u, const tern_gpu_program *p, tern_view view, uint32_t unit)
{
    tern_gpu__put(u, view.first_col / unit);
    tern_gpu__put(u, p->graph->values[view.value].cols / unit);
}

static inline void tern_gpu__set_uniform(tern_gpu_dispatch *d, const tern_gpu_words *u)
{
    memcpy(d->uniform, u->word, sizeof d->uniform);
}

#endif
