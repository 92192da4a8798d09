/* Ternary rows with a scale for each group of columns, which block encodings hold and Tern's ternary products do not:
 * as q2_0, whose blocks have scales of their own. TriLM (arXiv:2407.12327) was trained on up to six devices, each with
 * a scale of its own for its part of a matrix. Rows of o and down, cut by columns, have several scales. Ternary
 * Bonsai has one for 128 columns. */
#include <math.h>

#include "base/alloc.h"
#include "base/half.h"
#include "model/model_internal.h"
#include "quant/encoding.h"

/* A row's blocks, decoded. */
typedef struct row {
    const tern_encoding *e;
    size_t n_blocks;
    float *scales; /* [n_blocks] */
    float *values; /* [cols] */
    int8_t *codes; /* [cols] */
} row;

static bool is_zero(const int8_t *codes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (codes[i] != 0) return false;
    return true;
}

/* Most rows: nothing is unpacked for them. */
static bool has_one(const row *r, const uint8_t *bytes)
{
    const uint8_t *d = bytes + r->e->block_bytes - 2; /* a block ends with its scale */
    for (size_t b = 1; b < r->n_blocks; b++)
        if (tern_load_u16(d + b * r->e->block_bytes) != tern_load_u16(d)) return false;
    return true;
}

/* The scale of blocks that are not all zeros. *bad: one of them whose scale is not positive and finite; else
 * n_blocks. */
static bool has_several(const row *r, const uint8_t *bytes, size_t *bad)
{
    float one = 0;
    bool several = false;
    *bad = r->n_blocks;
    r->e->unpack_codes(bytes, r->n_blocks, r->codes, r->scales);
    for (size_t b = 0; b < r->n_blocks; b++) {
        const float scale = r->scales[b];
        if (is_zero(r->codes + b * r->e->block_elements, r->e->block_elements)) continue;
        if (!(scale > 0 && isfinite(scale))) *bad = b;
        several = several || (one > 0 && scale != one);
        one = scale;
    }
    return several;
}

static bool find_several(const tern_weight *w, const row *r)
{
    const size_t row_bytes = r->n_blocks * r->e->block_bytes;
    size_t bad;
    for (uint32_t i = 0; i < w->rows; i++) {
        const uint8_t *bytes = w->data + i * row_bytes;
        if (!has_one(r, bytes) && has_several(r, bytes, &bad) && bad == r->n_blocks) return true;
    }
    return false;
}

static tern_status fill(const tern_weight *w, const row *r, const tern_encoding *to, uint8_t *out, tern_error *err)
{
    const size_t from_bytes = r->n_blocks * r->e->block_bytes;
    size_t to_bytes, bad;
    TERN_TRY(tern_encoding_row_bytes(to, w->cols, &to_bytes, err));
    for (uint32_t i = 0; i < w->rows; i++) {
        const uint8_t *in = w->data + i * from_bytes;
        (void)has_several(r, in, &bad);
        if (bad < r->n_blocks)
            return tern_fail(err, TERN_MALFORMED, "%s: scale %g found in row %u, a positive and finite one expected",
                             w->name, (double)r->scales[bad], i);
        r->e->unpack(in, r->n_blocks, r->values);
        to->pack(r->values, w->cols / to->block_elements, out + i * to_bytes);
    }
    return TERN_OK;
}

static tern_status take(tern_weight *w, const row *r, void **memory, tern_error *err)
{
    const tern_encoding *to = tern_encoding_find(TERN_ENC_Q2_0);
    size_t bytes;
    if (tern_encoding_check(r->e, w->data, w->rows, w->cols, err) != TERN_OK)
        return tern_error_prefix(err, "%s", w->name);
    TERN_TRY(tern_encoding_bytes(to, w->rows, w->cols, &bytes, err));
    void *out = tern_alloc_aligned(bytes, 64);
    if (!out) return tern_fail_alloc(err, bytes);
    const tern_status status = fill(w, r, to, out, err);
    if (status != TERN_OK) {
        tern_free_aligned(out);
        return status;
    }
    w->encoding = to;
    w->bytes = bytes;
    w->data = *memory = out;
    return TERN_OK;
}

tern_status tern_model__regroup(tern_weight *w, void **memory, tern_error *err)
{
    *memory = NULL;
    const tern_encoding *e = w->encoding;
    if (!e->ternary || e->tail_bytes) return TERN_OK;
    const size_t n = w->cols / e->block_elements, bytes = w->cols * (sizeof(float) + 1) + n * sizeof(float);
    float *room = tern_alloc(bytes);
    if (!room) return tern_fail_alloc(err, bytes);
    const row r = {e, n, room, room + n, (int8_t *)(room + n + w->cols)};
    const tern_status status = find_several(w, &r) ? take(w, &r, memory, err) : TERN_OK;
    tern_free(room);
    return status;
}

bool tern_model__has_groups(const float *values, uint32_t n)
{
    const uint32_t each = tern_encoding_find(TERN_ENC_Q2_0)->block_elements;
    if (n % each != 0) return false;
    for (uint32_t first = 0; first < n; first += each) {
        float one = 0;
        for (uint32_t i = first; i < first + each; i++) {
            const float size = fabsf(values[i]);
            if (size == 0) continue;
            if (one > 0 ? size != one : !(tern_f16_to_f32(tern_f32_to_f16(size)) == size)) return false;
            one = size;
        }
    }
    return true;
}
