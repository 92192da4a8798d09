/* Products of rows of one part of a linear layer: dense, ternary on int8 tokens (packed bytes or a layout), ternary on
 * f32 tokens. */
#include "backend/cpu/linear/linear_internal.h"
#include "ops/op.h"
#include "ops/ref/halves/halves.h"

enum { TABLES_HEADER_BYTES = (TERN_LINEAR_MAX_PARTS * 8 + 63) / 64 * 64 };

void tern_linear__take_q8(tern_linear__job *job)
{
    const tern_cpu_op *op = job->op;
    const uint8_t *base = op->base[TERN_LINEAR_X];
    const uint8_t *scales = base + tern_q8_scales_offset(op->in_cols, op->max_rows);
    const uint8_t *sums = base + tern_q8_sums_offset(op->in_cols, op->max_rows);
    job->q8 = (tern_q8_rows){.x = (const int8_t *)base,
                             .stride = (size_t)tern_q8_stride(op->in_cols),
                             .n = job->n,
                             .sums = (const int32_t *)(const void *)sums};
    job->q8_scales = (const float *)(const void *)scales;
}

/* The epilogue of W1.58A8: one f32 tern_linear__multiply for each integer (docs/architecture.md, 3). dots and y may be
 * the same memory. */
void tern_linear__scale(const tern_linear__job *j, const tern_weight *w, uint32_t first, uint32_t n_rows,
                        const int32_t *dots, float *y, size_t y_stride)
{
    const float *x_scales = j->q8_scales;
    for (uint32_t t = 0; t < j->n; t++) {
        const int32_t *d = dots + (size_t)t * n_rows;
        float *out = y + t * y_stride, scale = x_scales[t] * w->scale;
        if (!w->row_scales)
            for (uint32_t r = 0; r < n_rows; r++) out[r] = (float)d[r] * scale;
        else
            for (uint32_t r = 0; r < n_rows; r++) out[r] = (float)d[r] * (x_scales[t] * w->row_scales[first + r]);
    }
}

/* Ternary weights on f32 activations (W1.58A32): the codes of a few rows are decoded and multiplied as f32, each sum
 * with the scale at the end. */
static void ternary_f32(const tern_linear__job *j, const tern_buffer *buffer, uint32_t first, uint32_t n_rows,
                        uint8_t *scratch, float *y, size_t y_stride)
{
    const tern_weight *w = buffer->weight;
    const size_t stride = tern_linear__decoded_stride(w);
    float *values = (float *)(void *)scratch;
    for (uint32_t r = 0; r < n_rows; r += TERN_LINEAR__DECODED_ROWS) {
        const uint32_t n = tern_linear__min(TERN_LINEAR__DECODED_ROWS, n_rows - r);
        const uint8_t *rows = buffer->data + (first + r) * buffer->row_bytes;
        buffer->decode(rows, buffer->row_bytes, n, buffer->cols, values, stride);
        j->step->cpu->kernels.f32(scratch, stride * sizeof(float), n, w->cols, j->x.data, j->x.stride, j->n, y + r,
                                  y_stride);
        for (uint32_t t = 0; t < j->n; t++)
            for (uint32_t i = 0; i < n; i++)
                y[t * y_stride + r + i] *= w->row_scales ? w->row_scales[first + r + i] : w->scale;
    }
}

/* Weights whose product has no kernel here, and those that are rounded to 16 bits: rows are decoded, a few at a time,
 * for the kernel of f32, which gives the same bits. */
static void decoded_f32(const tern_linear__job *j, const tern_buffer *buffer, const uint8_t *rows, uint32_t n_rows,
                        uint8_t *scratch, float *y, size_t y_stride)
{
    const size_t stride = tern_linear__decoded_stride(buffer->weight);
    for (uint32_t r = 0; r < n_rows; r += TERN_LINEAR__DECODED_ROWS) {
        const uint32_t n = tern_linear__min(TERN_LINEAR__DECODED_ROWS, n_rows - r);
        buffer->decode(rows + r * buffer->row_bytes, buffer->row_bytes, n, buffer->cols, (float *)(void *)scratch,
                       stride);
        for (uint32_t i = 0; j->op->op->halves && i < n; i++)
            tern_ref_round_weights(j->op->op->halves, (float *)(void *)scratch + i * stride, buffer->cols);
        j->step->cpu->kernels.f32(scratch, stride * sizeof(float), n, buffer->cols, j->x.data, j->x.stride, j->n, y + r,
                                  y_stride);
    }
}

/* Where the tables of a part lie among those of a thread: behind those of the earlier parts, or with the first part
 * that has the same. */
typedef struct tables_place {
    uint32_t owner;
    size_t at;
} tables_place;

static size_t tables_bytes(const tern_cpu_op *op, uint32_t part)
{
    const tern_cpu__layout *l = op->weight[TERN_LINEAR_W + part]->layout;
    if (!op->in_q8 || op->routes || !l || !l->tables) return 0;
    return tern_linear__min(l->max_tokens, op->max_rows) * tern_cpu__tables_bytes(l->tables, op->in_cols);
}

static tables_place place_tables(const tern_cpu_op *op, uint32_t part)
{
    tables_place p = {.at = TABLES_HEADER_BYTES};
    for (p.owner = 0; p.owner < part; p.at += tables_bytes(op, p.owner++)) {
        const tern_cpu__layout *l = op->weight[TERN_LINEAR_W + p.owner]->layout;
        if (l && l->tables == op->weight[TERN_LINEAR_W + part]->layout->tables) break;
    }
    return p;
}

size_t tern_linear__tables_bytes(const tern_cpu_op *op)
{
    size_t bytes = 0;
    for (uint32_t p = 0; p < op->op->n_parts; p++) bytes += tables_bytes(op, p);
    return bytes ? TABLES_HEADER_BYTES + bytes : 0;
}

/* The tables of a part, made when the thread first asks for them in this op. Its memory begins with the number of the
 * op that each belongs to. */
static void *tables_for(const tern_linear__job *j, uint32_t part, uint32_t thread)
{
    const struct tern_prepared *p = j->step->prepared;
    const tern_cpu__tables *t = j->op->weight[TERN_LINEAR_W + part]->layout->tables;
    const tables_place place = place_tables(j->op, part);
    uint8_t *own = p->tables + thread * p->tables_bytes, *out = own + place.at;
    uint64_t *made = (uint64_t *)(void *)own;
    if (made[place.owner] == p->n_linear) return out;
    made[place.owner] = p->n_linear;
    for (uint32_t i = 0; i < j->n; i++)
        t->make(&j->step->cpu->kernels, j->q8.x + i * j->q8.stride, j->op->in_cols,
                out + i * tern_cpu__tables_bytes(t, j->op->in_cols));
    return out;
}

void tern_linear__multiply(const tern_linear__job *j, uint32_t part, uint32_t first, uint32_t n_rows, uint32_t thread,
                           float *y, size_t y_stride)
{
    const tern_buffer *buffer = j->op->weight[TERN_LINEAR_W + part];
    const tern_weight *w = buffer->weight;
    const uint8_t *rows = buffer->data + first * buffer->row_bytes;
    uint8_t *scratch = tern_cpu__scratch(j->step, thread);
    if (j->op->op->int8_blocks) {
        buffer->blocks(rows, buffer->row_bytes, n_rows, buffer->cols, &j->blocks[tern_linear__form(w->encoding)], y,
                       y_stride);
    } else if (buffer->decodes_first || (j->op->op->halves && w->encoding->block_elements > 1)) {
        decoded_f32(j, buffer, rows, n_rows, scratch, y, y_stride);
    } else if (buffer->dense) {
        buffer->dense(rows, buffer->row_bytes, n_rows, buffer->cols, j->x.data, j->x.stride, j->n, y, y_stride);
    } else if (j->op->in_q8) {
        int32_t *dots = (int32_t *)(void *)scratch;
        uint8_t *own = scratch + tern_linear__task_floats(j->step->prepared->graph) * sizeof(float);
        if (tern_linear__uses_layout(j->op, buffer, j->n))
            buffer->layout->multiply(buffer->layout, first, n_rows, &j->q8,
                                     buffer->layout->tables ? tables_for(j, part, thread) : own, dots, n_rows);
        else buffer->ternary(rows, buffer->row_bytes, n_rows, buffer->cols, &j->q8, dots, n_rows);
        tern_linear__scale(j, w, first, n_rows, dots, y, y_stride);
    } else {
        ternary_f32(j, buffer, first, n_rows, scratch, y, y_stride);
    }
    const float *bias = j->op->bias[part];
    for (uint32_t t = 0; bias && t < j->n; t++)
        j->step->cpu->kernels.add(y + t * y_stride, bias + first, n_rows, y + t * y_stride);
}
