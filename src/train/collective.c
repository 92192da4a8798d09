/* Tensors that ranks exchange, in pieces: each goes through a slot of memory of its own, of which some are on their
 * way while the oldest is put where it belongs. */
#include "train/collective.h"

#include "base/alloc.h"

enum { SLOTS = 8, SLOT_BYTES = 8 << 20, LEAST_PIECE = 1 << 20, ALIGNMENT = 4096 };
_Static_assert((int)SLOTS <= (int)TERN_RANKS_SWAPS, "a swap for each slot");

/* The piece of each owner that is on its way. */
typedef struct slot {
    uint8_t *memory; /* [2][n] blocks: for each rank, of each rank */
    tern_collective_piece pieces[TERN_MAX_RANKS];
    bool adds; /* else: spreads */
    tern_collective_passes passes;
} slot;

struct tern_collective {
    tern_backend *backend;
    tern_ranks *ranks;
    const tern_backend_peers *peers; /* NULL: all goes through the slots */
    size_t block;                    /* bytes, whole numbers of any type */
    slot slots[SLOTS];
    uint32_t n_slots;
    uint32_t oldest, n; /* under way */
    bool written;       /* from slots, which the backend may still read */
};

static uint8_t *out_block(const tern_collective *x, const slot *s, uint32_t rank)
{
    return s->memory + rank * x->block;
}

static uint8_t *in_block(const tern_collective *x, const slot *s, uint32_t rank)
{
    return out_block(x, s, x->ranks->n + rank);
}

static size_t slot_bytes(const tern_collective *x)
{
    return 2 * x->ranks->n * x->block;
}

static void pin_buffers(tern_collective *x, bool pinned)
{
    tern_backend *b = x->backend;
    for (uint32_t i = 0; i < x->n_slots && b->copies; i++)
        if (x->slots[i].memory) b->copies->pin(b, x->slots[i].memory, slot_bytes(x), pinned);
}

/* Half of all is on its way at most. */
static uint32_t count_slots(const tern_collective *x, uint64_t most_bytes)
{
    const uint64_t n = most_bytes / x->block / 2;
    return n < 2 ? 2 : n < SLOTS ? (uint32_t)n : SLOTS;
}

static tern_status make_slots(tern_collective *x, uint64_t most_bytes, tern_error *err)
{
    x->block = SLOT_BYTES / x->ranks->n;
    if (x->block < LEAST_PIECE) x->block = LEAST_PIECE;
    if (x->block > most_bytes) x->block = (size_t)most_bytes;
    x->block = (x->block + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    for (x->n_slots = 0; x->n_slots < count_slots(x, most_bytes); x->n_slots++) {
        uint8_t *memory = x->slots[x->n_slots].memory = tern_alloc_aligned(slot_bytes(x), ALIGNMENT);
        if (!memory) return tern_fail_alloc(err, slot_bytes(x));
    }
    pin_buffers(x, true);
    return TERN_OK;
}

tern_status tern_collective_open(tern_collective **collective, tern_backend *backend, tern_ranks *ranks,
                                 uint64_t most_bytes, tern_error *err)
{
    tern_collective *x = *collective = tern_calloc(1, sizeof *x);
    if (!x) return tern_fail_alloc(err, sizeof *x);
    *x = (tern_collective){.backend = backend, .ranks = ranks};
    tern_status status = tern_backend_join(backend, ranks, err);
    if (status == TERN_OK && backend->info.joined) x->peers = backend->peers;
    else if (status == TERN_OK) status = make_slots(x, most_bytes, err);
    if (status == TERN_OK) return TERN_OK;
    tern_collective_close(x);
    *collective = NULL;
    return status;
}

void tern_collective_close(tern_collective *collective)
{
    tern_error ignored;
    if (!collective || collective->n) return;
    if (collective->written) collective->backend->wait(collective->backend, &ignored);
    pin_buffers(collective, false);
    for (uint32_t i = 0; i < collective->n_slots; i++) tern_free_aligned(collective->slots[i].memory);
    tern_free(collective);
}

/* ---- pieces */

static tern_status read_piece(tern_collective *x, const tern_collective_piece *p, bool sums, bool beside, uint8_t *to,
                              tern_error *err)
{
    tern_backend *b = x->backend;
    tern_collective_place from = p->from;
    for (size_t done = 0; done < p->bytes;) {
        const tern_collective_part next = tern_collective_next_part(&from, p->bytes - done);
        const tern_buffer *buffer = sums ? next.tensor->sum : next.tensor->buffer;
        if (beside) TERN_TRY(b->copies->read_beside(b, buffer, next.at, to + done, next.bytes, err));
        else TERN_TRY(b->buffer_read(b, buffer, next.at, to + done, next.bytes, err));
        done += next.bytes;
        x->written = false; /* reading has waited for copies that came before */
    }
    return TERN_OK;
}

static tern_status write_piece(tern_collective *x, const tern_collective_piece *p, bool sums, const uint8_t *data,
                               tern_error *err)
{
    tern_backend *b = x->backend;
    tern_collective_place to = p->from;
    for (size_t done = 0; done < p->bytes;) {
        const tern_collective_part next = tern_collective_next_part(&to, p->bytes - done);
        tern_buffer *buffer = sums ? next.tensor->sum : next.tensor->buffer;
        if (b->copies) TERN_TRY(b->copies->write_beside(b, buffer, next.at, data + done, next.bytes, err));
        else TERN_TRY(b->buffer_write(b, buffer, next.at, data + done, next.bytes, err));
        done += next.bytes;
        x->written = b->copies != NULL;
    }
    return TERN_OK;
}

/* ---- what is done with a slot once its blocks are there */

enum { RUN = 2048 }; /* floats that stay in the nearest cache while all passes are added */

static bool add_blocks(const tern_collective *x, const slot *s, size_t bytes)
{
    const uint32_t me = x->ranks->rank;
    float *sum = (float *)(void *)in_block(x, s, me);
    bool finite = true;
    for (size_t at = 0, n = bytes / sizeof *sum; at < n; at += RUN)
        for (uint32_t r = 0; r < s->passes.n; r++) {
            const float *g = (const float *)(const void *)(r == me ? out_block(x, s, r) : in_block(x, s, r));
            const float *was = r == 0 && s->passes.first ? NULL : sum + at;
            finite = tern_collective_add_pass(was, g + at, n - at < RUN ? n - at : RUN, sum + at) && finite;
        }
    return finite;
}

static tern_status take_gradients(tern_collective *x, const slot *s, tern_error *err)
{
    const tern_collective_piece *mine = &s->pieces[x->ranks->rank];
    uint8_t *sum = in_block(x, s, x->ranks->rank);
    if (!s->passes.first) TERN_TRY(read_piece(x, mine, true, s->passes.beside, sum, err));
    if (!add_blocks(x, s, mine->bytes)) *s->passes.infinite = true;
    return write_piece(x, mine, true, sum, err);
}

static tern_status finish_oldest(tern_collective *x, tern_error *err)
{
    const slot *s = &x->slots[x->oldest];
    TERN_TRY(x->ranks->swap_finish(x->ranks, x->oldest, err));
    x->oldest = (x->oldest + 1) % x->n_slots;
    x->n--;
    if (s->adds) return take_gradients(x, s, err);
    for (uint32_t r = 0; r < x->ranks->n; r++)
        if (r != x->ranks->rank) TERN_TRY(write_piece(x, &s->pieces[r], false, in_block(x, s, r), err));
    return TERN_OK;
}

tern_status tern_collective_end(tern_collective *x, tern_error *err)
{
    while (x->n) TERN_TRY(finish_oldest(x, err));
    return x->peers ? x->peers->finish(x->backend, err) : TERN_OK;
}

/* ---- what is sent */

static tern_status start_slot(tern_collective *x, slot *s, const tern_ranks_block *out, const tern_ranks_block *in,
                              tern_error *err)
{
    if (x->written) TERN_TRY(x->backend->wait(x->backend, err)); /* the memory that `in` fills may still be read */
    x->written = false;
    x->n++;
    return x->ranks->swap_start(x->ranks, (uint32_t)(s - x->slots), out, in, err);
}

static tern_status send_gradients(tern_collective *x, slot *s, tern_error *err)
{
    const tern_collective_passes *passes = &s->passes;
    const uint32_t me = x->ranks->rank;
    tern_ranks_block out[TERN_MAX_RANKS] = {0}, in[TERN_MAX_RANKS] = {0};
    for (uint32_t r = 0; r < x->ranks->n; r++) {
        if (me < passes->n) {
            out[r] = (tern_ranks_block){out_block(x, s, r), s->pieces[r].bytes};
            TERN_TRY(read_piece(x, &s->pieces[r], false, passes->beside, out[r].data, err));
        }
        if (r < passes->n) in[r] = (tern_ranks_block){in_block(x, s, r), s->pieces[me].bytes};
    }
    return start_slot(x, s, out, in, err);
}

static tern_status send_own(tern_collective *x, slot *s, tern_error *err)
{
    const tern_collective_piece *mine = &s->pieces[x->ranks->rank];
    tern_ranks_block out[TERN_MAX_RANKS], in[TERN_MAX_RANKS];
    TERN_TRY(read_piece(x, mine, false, false, out_block(x, s, 0), err));
    for (uint32_t r = 0; r < x->ranks->n; r++) {
        out[r] = (tern_ranks_block){out_block(x, s, 0), mine->bytes};
        in[r] = (tern_ranks_block){in_block(x, s, r), s->pieces[r].bytes};
    }
    return start_slot(x, s, out, in, err);
}

static tern_status send_all(tern_collective *x, const tern_collective_tensor *tensors, size_t n,
                            const tern_collective_passes *passes, tern_error *err)
{
    tern_collective_place places[TERN_MAX_RANKS];
    tern_collective_piece pieces[TERN_MAX_RANKS];
    tern_collective_begin(places, x->ranks->n, tensors, n);
    while (tern_collective_next(places, pieces, x->ranks->n, x->block)) {
        if (x->n == x->n_slots) TERN_TRY(finish_oldest(x, err));
        slot *s = &x->slots[(x->oldest + x->n) % x->n_slots];
        for (uint32_t r = 0; r < x->ranks->n; r++) s->pieces[r] = pieces[r];
        s->adds = passes != NULL;
        if (passes) s->passes = *passes;
        TERN_TRY(passes ? send_gradients(x, s, err) : send_own(x, s, err));
    }
    return TERN_OK;
}

tern_status tern_collective_add(tern_collective *collective, const tern_collective_tensor *tensors, size_t n,
                                const tern_collective_passes *passes, tern_error *err)
{
    if (collective->peers) return collective->peers->add(collective->backend, tensors, n, passes, err);
    return send_all(collective, tensors, n, passes, err);
}

tern_status tern_collective_spread(tern_collective *collective, const tern_collective_tensor *tensors, size_t n,
                                   tern_error *err)
{
    if (collective->peers) return collective->peers->spread(collective->backend, tensors, n, err);
    return send_all(collective, tensors, n, NULL, err);
}
