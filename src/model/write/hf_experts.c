/* Writing a Hugging Face folder: the tensors of experts. */
#include <string.h>

#include "model/model_internal.h"
#include "model/write/hf_internal.h"

/* The first role's entry of tensors that several roles share is the whole one. */
size_t tern_hf__list_experts(const tern_config *c, tern_role role, uint32_t layer, tern_hf_tensor *out)
{
    tern_hf_experts at = {.single = true};
    tern_hf_tensor t = {.role = role, .layer = layer};
    size_t n = 0;
    tern_role__shape(role, layer, c, &t.rows, &t.cols);
    for (uint32_t e = 0; at.single && e < c->n_experts; e++) {
        if (!tern_role__hf_experts(c, role, layer, e, false, &at) || at.first) break;
        out[n] = t;
        memcpy(out[n].name, at.name, sizeof at.name);
        out[n].parts = at.single ? 0 : at.step;
        out[n].transposed = at.transposed;
        if (at.single) out[n].rows = t.rows / c->n_experts;
        if (at.single) out[n].first = e * out[n].rows;
        n++;
    }
    return n;
}

uint32_t tern_hf__dims(const tern_hf_tensor *t, const tern_config *config, uint64_t dims[3])
{
    const bool vector = tern_role_is_vector(t->role);
    uint32_t n = 0;
    if (!t->parts) {
        if (!vector || t->rows > 1) dims[n++] = t->rows;
        if (t->role == TERN_ROLE_SSM_CONV) dims[n++] = 1; /* a convolution's channels for each group */
        dims[n++] = t->cols;
        return n;
    }
    const uint64_t rows = (uint64_t)t->rows / config->n_experts * t->parts;
    dims[n++] = config->n_experts;
    if (vector) dims[n++] = (uint64_t)t->cols * t->parts;
    else dims[n++] = t->transposed ? t->cols : rows;
    if (!vector) dims[n++] = t->transposed ? rows : t->cols;
    return n;
}

/* Numbers of an expert in the order of the file: the parts' rows take turns, and become columns where it is so. */
static void take_turns(const tern_hf_tensor *t, const float *from, uint32_t rows, uint32_t cols, float *to)
{
    for (uint32_t p = 0; p < t->parts; p++)
        for (uint32_t r = 0; r < rows; r++)
            for (uint32_t c = 0; c < cols; c++) {
                const size_t row = (size_t)r * t->parts + p, all = (size_t)rows * t->parts;
                to[t->transposed ? c * all + row : row * cols + c] = *from++;
            }
}

tern_status tern_hf__write_parts(tern_hf__writing *w, const tern_hf_tensor *t, tern_error *err)
{
    const bool vector = tern_role_is_vector(t->role);
    const uint32_t n_experts = w->config->n_experts, rows = t->rows / n_experts;
    const size_t part = (size_t)rows * t->cols;
    float *values = w->rows + part * t->parts;
    for (uint32_t e = 0; e < n_experts; e++) {
        for (uint32_t p = 0; p < t->parts; p++)
            TERN_TRY(w->source->rows(w->source->context, (tern_role)((uint32_t)t->role + p), t->layer, e * rows, rows,
                                     values + p * part, err));
        /* an expert's biases are one row: its numbers take turns */
        take_turns(t, values, vector ? t->cols : rows, vector ? 1 : t->cols, w->rows);
        TERN_TRY(tern_hf__put(w, part * t->parts, err));
    }
    return TERN_OK;
}
