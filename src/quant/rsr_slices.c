/* An RSR matrix as slices of 16 groups of like length, and its bytes in a file. */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "quant/rsr_file.h"
#include "quant/rsr_internal.h"

/* A group, or a part of a long one. */
typedef struct part {
    uint32_t begin, length;
    uint16_t pos, neg;
} part;

/* Memory of one thread: parts in the order of the groups, the same by length, and how many there are of each length. */
typedef struct scratch {
    part *parts, *sorted;
    uint32_t *counts;
} scratch;

/* Groups are cut into parts of at most a sixteenth of the columns, so that one long group does not leave 15 lanes idle.
 */
static uint32_t longest_part(uint32_t n_columns)
{
    return (n_columns + TERN_RSR_LANES - 1) / TERN_RSR_LANES;
}

static size_t max_parts(uint32_t panel_cols)
{
    return (size_t)panel_cols + TERN_RSR_LANES;
}

static size_t scratch_bytes(uint32_t panel_cols)
{
    return 2 * max_parts(panel_cols) * sizeof(part) + ((size_t)longest_part(panel_cols) + 2) * sizeof(uint32_t);
}

static scratch lay_out(void *memory, uint32_t panel_cols)
{
    const size_t n = max_parts(panel_cols);
    scratch r = {.parts = memory};
    r.sorted = r.parts + n;
    r.counts = (uint32_t *)(void *)(r.sorted + n);
    return r;
}

static uint32_t cut(const tern_rsr__unit *u, uint32_t longest, part *out)
{
    uint32_t n = 0, begin = 0;
    for (uint32_t g = 0; g < u->n_groups; g++) {
        const uint32_t end = u->groups[g].end;
        for (; begin < end; n++) {
            const uint32_t length = end - begin < longest ? end - begin : longest;
            out[n] = (part){begin, length, u->groups[g].pos, u->groups[g].neg};
            begin += length;
        }
    }
    return n;
}

/* Longest first, parts of one length in the order they have. */
static void by_length(const scratch *r, uint32_t n, uint32_t longest)
{
    memset(r->counts, 0, ((size_t)longest + 2) * sizeof *r->counts);
    for (uint32_t i = 0; i < n; i++) r->counts[longest - r->parts[i].length + 1]++;
    for (uint32_t l = 0; l < longest; l++) r->counts[l + 1] += r->counts[l];
    for (uint32_t i = 0; i < n; i++) r->sorted[r->counts[longest - r->parts[i].length]++] = r->parts[i];
}

static void fill_masks(const part *parts, uint32_t n, uint32_t k, uint16_t *masks)
{
    memset(masks, 0, 2 * k * sizeof *masks);
    for (uint32_t row = 0; row < k; row++)
        for (uint32_t lane = 0; lane < n; lane++) {
            masks[row] = (uint16_t)(masks[row] | (parts[lane].pos >> row & 1u) << lane);
            masks[k + row] = (uint16_t)(masks[k + row] | (parts[lane].neg >> row & 1u) << lane);
        }
}

static void fill_index(const tern_rsr__unit *u, const part *parts, uint32_t n, uint32_t steps, uint16_t *index)
{
    for (uint32_t s = 0; s < steps; s++)
        for (uint32_t lane = 0; lane < TERN_RSR_LANES; lane++)
            index[s * TERN_RSR_LANES + lane] =
                lane < n && s < parts[lane].length ? u->perm[parts[lane].begin + s] : (uint16_t)u->width;
}

static tern_status emit(const tern_rsr__unit *u, void *memory, tern_rsr__stream *streams, uint32_t counts[2],
                        tern_error *err)
{
    const scratch r = lay_out(memory, u->width);
    const uint32_t longest = longest_part(u->n_columns);
    const uint32_t n = cut(u, longest, r.parts);
    by_length(&r, n, longest);
    for (uint32_t i = 0; i < n; i += TERN_RSR_LANES) {
        const uint32_t lanes = n - i < TERN_RSR_LANES ? n - i : TERN_RSR_LANES, steps = r.sorted[i].length;
        uint16_t *step = tern_rsr__append(&streams[0], sizeof *step);
        uint16_t *masks = step ? tern_rsr__append(&streams[1], 2 * u->k * sizeof *masks) : NULL;
        uint16_t *index = masks ? tern_rsr__append(&streams[2], steps * TERN_RSR_LANES * sizeof *index) : NULL;
        if (!index) return tern_fail_alloc(err, steps * TERN_RSR_LANES * sizeof *index);
        *step = (uint16_t)steps;
        fill_masks(r.sorted + i, lanes, u->k, masks);
        fill_index(u, r.sorted + i, lanes, steps, index);
        counts[0]++;
        counts[1] += steps;
    }
    return TERN_OK;
}

/* Measured with AVX-512 (docs/internals/rsr.md): more rows mean fewer sums, as long as groups do not get too short. */
uint32_t tern_rsr_default_k(uint32_t cols)
{
    return cols >= 10240 ? 7 : cols >= 1024 ? 6 : cols >= 256 ? 5 : 4;
}

tern_status tern_rsr_slices_build(tern_rsr_slices *out, const tern_rsr_source *source, const tern_rsr_options *options,
                                  uint64_t origin, tern_error *err)
{
    tern_rsr__joined j;
    *out = (tern_rsr_slices){0};
    TERN_TRY(tern_rsr__build(&j, source, options, emit, scratch_bytes, err));
    tern_rsr_slices s = {.kind = options->kind,
                         .k = options->k,
                         .rows = source->rows,
                         .cols = source->cols,
                         .panel_cols = j.panel_cols,
                         .n_blocks = j.n_blocks,
                         .n_panels = j.n_panels};
    const size_t n_units = (size_t)s.n_blocks * s.n_panels;
    tern_rsr__offsets at;
    tern_status status = TERN_OK;
    if (!tern_rsr__offsets_of(&at, n_units, j.first[0][n_units], j.first[1][n_units], s.k))
        status = tern_fail_alloc(err, SIZE_MAX);
    uint8_t *bytes = status == TERN_OK ? tern_alloc_aligned(at.bytes, 64) : NULL;
    if (status == TERN_OK && !bytes) status = tern_fail_alloc(err, at.bytes);
    if (status == TERN_OK) {
        memcpy(bytes + at.first_slice, j.first[0], (n_units + 1) * sizeof(uint32_t));
        memcpy(bytes + at.first_vector, j.first[1], (n_units + 1) * sizeof(uint32_t));
        memcpy(bytes + at.lengths, j.data[0], j.bytes[0]);
        memcpy(bytes + at.masks, j.data[1], j.bytes[1]);
        memcpy(bytes + at.index, j.data[2], j.bytes[2]);
        tern_rsr__header_write(bytes, &s, j.first[0][n_units], j.first[1][n_units], origin);
        tern_rsr__point(&s, bytes, &at);
        s.owned = true;
        *out = s;
    }
    tern_rsr__joined_deinit(&j);
    return status;
}

void tern_rsr_slices_deinit(tern_rsr_slices *s)
{
    if (s->owned) tern_free_aligned((void *)(uintptr_t)s->bytes);
    *s = (tern_rsr_slices){0};
}
