/* Which kernel multiplies a product of a model: the table's (select.c), or what `tern tune` has measured. */
#include <stdio.h>
#include <string.h>

#include "backend/cuda/cuda_internal.h"
#include "backend/gpu/choices.h"
#include "base/alloc.h"
#include "ops/op.h"
#include "quant/weight.h"

static const char *const names[TERN_CUDA_PRODUCT_KERNELS] = {
#define NAMED(id, name) [TERN_CUDA_PRODUCT_##id] = (name),
    TERN_CUDA_PRODUCT_LIST(NAMED)
#undef NAMED
};

/* TERN_CUDA_PRODUCT_KERNELS: none is called that. */
static uint32_t kernel_of(const char *name)
{
    uint32_t i = 0;
    while (i < TERN_CUDA_PRODUCT_KERNELS && strcmp(names[i], name) != 0) i++;
    return i;
}

static uint32_t rows_of(const tern_cuda_product *l)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < l->n_parts; i++) rows += l->parts[i].rows;
    return rows;
}

void tern_cuda__choose_product(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    tern_cuda_product l;
    tern_cuda_linear *linear = &out->params.linear;
    if (!p->cuda || tern_cuda_linear_is_narrow(linear) || !tern_cuda_product_of(linear, &p->cuda->limits, &l)) return;
    const tern_encoding *encoding = p->graph->values[op->in[TERN_LINEAR_W].value].weight->encoding;
    const tern_kernel_choice key = {
        .encoding = encoding, .rows = rows_of(&l), .cols = l.cols, .tokens = tern_gpu_token_class(l.usual)};
    uint32_t kernel = tern_cuda_product_select(&l, &p->cuda->limits);
    for (size_t i = 0; i < p->cuda->n_choices; i++) {
        const tern_kernel_choice *c = &p->cuda->choices[i];
        const uint32_t other = kernel_of(c->kernel);
        if (c->encoding == encoding && c->rows == key.rows && c->cols == key.cols && c->tokens == key.tokens &&
            tern_cuda_product_serves(&l, other, &p->cuda->limits))
            kernel = other;
    }
    linear->kernel = kernel + 1;
    out->kernel = names[kernel];
    out->product = key;
}

static void key_of(const tern_cuda *cuda, char out[static TERN_KERNEL_DEVICE_BYTES])
{
    snprintf(out, TERN_KERNEL_DEVICE_BYTES, "%.150s, %.60s", cuda->device.name, cuda->device.driver);
}

void tern_cuda_key(const tern_backend *backend, char out[static TERN_KERNEL_DEVICE_BYTES])
{
    key_of((const tern_cuda *)backend, out);
}

tern_status tern_cuda_choose(tern_backend *backend, const tern_kernel_choice *choices, size_t n, tern_error *err)
{
    tern_cuda *cuda = (tern_cuda *)backend;
    char key[TERN_KERNEL_DEVICE_BYTES];
    tern_kernel_choice *mine = n ? tern_calloc(n, sizeof *mine) : NULL;
    size_t n_mine = 0;
    if (n && !mine) return tern_fail_alloc(err, n * sizeof *mine);
    key_of(cuda, key);
    for (size_t i = 0; i < n; i++)
        if (strcmp(choices[i].device, key) == 0) mine[n_mine++] = choices[i];
    pthread_mutex_lock(&cuda->lock);
    tern_free(cuda->choices);
    cuda->choices = mine;
    cuda->n_choices = n_mine;
    pthread_mutex_unlock(&cuda->lock);
    return TERN_OK;
}

bool tern_cuda_alternative(const tern_backend *backend, const char *kernel, size_t i,
                           char out[static TERN_KERNEL_NAME_BYTES])
{
    const tern_cuda_product_device *d = &((const tern_cuda *)backend)->limits;
    const uint32_t from = kernel_of(kernel);
    if (from == TERN_CUDA_PRODUCT_KERNELS) return false;
    const tern_cuda_product l = {.q8 = from <= TERN_CUDA_PRODUCT_TERNARY_WGMMA,
                                 .format = TERN_GPU_F16,
                                 .halves = from == TERN_CUDA_PRODUCT_DENSE_WGMMA};
    for (uint32_t k = 0; k < TERN_CUDA_PRODUCT_KERNELS; k++) {
        if (!tern_cuda_product_serves(&l, k, d) || i-- > 0) continue;
        snprintf(out, TERN_KERNEL_NAME_BYTES, "%s", names[k]);
        return true;
    }
    return false;
}
