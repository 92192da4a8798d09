/* Opening two backends as one, and which of them an op goes to. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/counters.h"
#include "backend/split/split_internal.h"
#include "base/alloc.h"
#include "ops/crossing.h"
#include "ops/op.h"
#include "quant/weight.h"

/* The host exchanges rows of ranks whose devices were not joined. */
static bool is_exchange(const tern_split *s, const tern_graph *graph, const tern_op *op)
{
    tern_backend *device = s->sides[TERN_SIDE_DEVICE];
    tern_error ignored;
    if (op->kind == TERN_OP_SEND || op->kind == TERN_OP_RECEIVE) return true;
    if (op->kind != TERN_OP_ALL_GATHER) return false;
    return !device->info.joined || device->supports(device, graph, op, &ignored) != TERN_OK;
}

tern_side tern_split__side_of(const tern_split *s, const tern_graph *graph, const tern_op *op)
{
    if (is_exchange(s, graph, op)) return TERN_SIDE_HOST;
    uint32_t n_layers = graph->n_layers, layer = tern_op_goes_with(op, n_layers);
    bool device = layer == UINT32_MAX ? s->device_layers > n_layers : (uint64_t)layer + s->device_layers >= n_layers;
    return device ? TERN_SIDE_DEVICE : TERN_SIDE_HOST;
}

tern_status tern_split__at(const tern_split *s, tern_side side, tern_status status, tern_error *err)
{
    if (status != TERN_OK) tern_error_prefix(err, "%s side of %s", s->sides[side]->info.name, s->name);
    return status;
}

static void split_close(tern_backend *b)
{
    if (!b) return;
    tern_split *s = tern_split__of(b);
    for (int side = 0; side < TERN_SIDES; side++) s->sides[side]->close(s->sides[side]);
    pthread_mutex_destroy(&s->making);
    tern_free(s);
}

static tern_status supports(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err)
{
    tern_split *s = tern_split__of(b);
    const bool rows = op->each_row && s->device_layers == TERN_SPLIT_ALL;
    if (op->kind == TERN_OP_SAMPLE && !rows) /* it would have to set parameters on both sides */
        return tern_fail(err, TERN_UNSUPPORTED, "%s: op %s: the host samples where the layers are split", s->name,
                         tern_op_name(op->kind));
    tern_side side = tern_split__side_of(s, graph, op);
    return tern_split__at(s, side, s->sides[side]->supports(s->sides[side], graph, op, err), err);
}

static tern_status wait(tern_backend *b, tern_error *err)
{
    tern_split *s = tern_split__of(b);
    for (int i = 0; i < TERN_SIDES; i++)
        TERN_TRY(tern_split__at(s, (tern_side)i, s->sides[i]->wait(s->sides[i], err), err));
    return TERN_OK;
}

static void counters(const tern_backend *b, tern_backend_counters *out)
{
    const tern_split *s = (const tern_split *)b;
    *out = (tern_backend_counters){0};
    uint64_t *sum = (uint64_t *)out; /* every member is a uint64_t, or an array of them */
    for (int side = 0; side < TERN_SIDES; side++) {
        tern_backend_counters one;
        s->sides[side]->counters(s->sides[side], &one);
        for (size_t i = 0; i < sizeof one / sizeof *sum; i++) sum[i] += ((const uint64_t *)&one)[i];
    }
    out->runs = s->runs;
    out->crossed_bytes = s->crossed_bytes;
}

/* Both read their own share, one after the other. */
static double measure_read(tern_split *s, tern_buffer *const *buffers, size_t n, double seconds)
{
    double bytes = 0, time = 0;
    tern_buffer **some = tern_calloc(n, sizeof *some);
    for (int i = 0; i < TERN_SIDES && some; i++) {
        size_t n_some = 0;
        double share = 0;
        for (size_t k = 0; k < n; k++)
            if (buffers[k]->on[i]) {
                some[n_some++] = buffers[k]->on[i];
                share += (double)buffers[k]->bytes;
            }
        double rate =
            n_some ? s->sides[i]->measure(s->sides[i], TERN_MEASURE_READ, some, n_some, seconds / TERN_SIDES) : 1;
        if (!(rate > 0)) bytes = -INFINITY;
        bytes += share;
        time += share / rate;
    }
    tern_free(some);
    return bytes > 0 && time > 0 ? bytes / time : 0;
}

/* The device's rate, except for reading buffers: the bytes that both together read in a second, each its own, in
 * turn. */
static double measure(tern_backend *b, tern_measure what, tern_buffer *const *buffers, size_t n, double seconds)
{
    tern_split *s = tern_split__of(b);
    tern_backend *device = s->sides[TERN_SIDE_DEVICE];
    if (what == TERN_MEASURE_READ && n) return measure_read(s, buffers, n, seconds);
    return device->measure(device, what, NULL, 0, seconds);
}

static size_t profile(const tern_backend *b, tern_profile_row *rows, size_t cap)
{
    const tern_split *s = (const tern_split *)b;
    const tern_backend *host = s->sides[TERN_SIDE_HOST], *device = s->sides[TERN_SIDE_DEVICE];
    size_t n = host->profile(host, rows, cap), filled = n < cap ? n : cap;
    return n + device->profile(device, filled < cap ? rows + filled : NULL, cap - filled);
}

/* The part of a prepared graph that op `at` of it is in, and its number there. */
static const tern_split_part *part_of(const tern_prepared *p, size_t at, size_t *number)
{
    size_t i = 0;
    while (i + 1 < p->n_parts && p->parts[i + 1].graph.ops <= p->ops + at) i++;
    *number = (size_t)(p->ops + at - p->parts[i].graph.ops);
    return &p->parts[i];
}

static const char *doubt(tern_backend *b, const tern_prepared *prepared, size_t op)
{
    size_t number;
    const tern_split_part *part = part_of(prepared, op, &number);
    tern_backend *side = tern_split__of(b)->sides[part->side];
    return side->trial ? side->trial->doubt(side, part->prepared, number) : NULL;
}

static void prove(tern_backend *b, const tern_prepared *prepared)
{
    for (size_t i = 0; i < prepared->n_parts; i++) {
        tern_backend *side = tern_split__of(b)->sides[prepared->parts[i].side];
        if (side->trial) side->trial->prove(side, prepared->parts[i].prepared);
    }
}

static void give_up(tern_backend *b, const tern_prepared *prepared, size_t op)
{
    size_t number;
    const tern_split_part *part = part_of(prepared, op, &number);
    tern_backend *side = tern_split__of(b)->sides[part->side];
    if (side->trial) side->trial->give_up(side, part->prepared, number);
}

/* Those who ask for one number are told of the device; each side has its own (tern_backend_sides). */
static uint64_t memory_free(const tern_backend *b)
{
    const tern_backend *device = ((const tern_split *)b)->sides[TERN_SIDE_DEVICE];
    return device->memory_free ? device->memory_free(device) : 0;
}

static tern_status weight_bytes(const tern_backend *b, const tern_weight *w, uint64_t *bytes, tern_error *err)
{
    const tern_backend *device = ((const tern_split *)b)->sides[TERN_SIDE_DEVICE];
    *bytes = w->bytes;
    return device->weight_bytes ? device->weight_bytes(device, w, bytes, err) : TERN_OK;
}

bool tern_split_sides(tern_backend *backend, tern_backend *sides[2])
{
    if (backend->close != split_close) return false;
    memcpy(sides, tern_split__of(backend)->sides, sizeof tern_split__of(backend)->sides);
    return true;
}

uint32_t tern_split_side_of(const tern_backend *backend, const tern_graph *graph, const tern_op *op)
{
    if (backend->close != split_close) return 0;
    return tern_split__side_of((const tern_split *)backend, graph, op) == TERN_SIDE_DEVICE;
}

/* Heads that suit the types with blocks of both; 0: one has none. */
static uint32_t cache_blocks(uint32_t a, uint32_t b)
{
    return a < b ? (a && b % a == 0 ? b : 0) : (b && a % b == 0 ? a : 0);
}

/* The sides' own. */
static const tern_backend_trial trial = {.doubt = doubt, .prove = prove, .give_up = give_up};

tern_status tern_split_open(tern_backend **backend, tern_backend *host, tern_backend *device, uint32_t device_layers,
                            tern_error *err)
{
    *backend = NULL;
    tern_split *s = tern_calloc(1, sizeof *s);
    if (!s) {
        host->close(host);
        device->close(device);
        return tern_fail_alloc(err, sizeof *s);
    }
    *s = (tern_split){.sides = {host, device}, .device_layers = device_layers};
    snprintf(s->name, sizeof s->name, "%s+%s", host->info.name, device->info.name);
    pthread_mutex_init(&s->making, NULL);
    s->base =
        (tern_backend){.info.name = s->name,
                       .info.device = device->info.device,
                       .info.driver = device->info.driver,
                       .info.copies_weights = host->info.copies_weights && device->info.copies_weights,
                       .info.fusions = device_layers == TERN_SPLIT_ALL ? device->info.fusions
                                                                       : host->info.fusions & device->info.fusions,
                       .info.max_steps = 1,
                       .info.samples_rows = device_layers == TERN_SPLIT_ALL && device->info.samples_rows,
                       .info.cache_blocks = cache_blocks(host->info.cache_blocks, device->info.cache_blocks),
                       .info.mixes_caches = host->info.mixes_caches && device->info.mixes_caches,
                       .info.screens = host->info.screens,
                       .info.pool = host->info.pool,
                       .info.int8_blocks = host->info.int8_blocks && device->info.int8_blocks,
                       .info.halves = device_layers == TERN_SPLIT_ALL && device->info.halves,
                       .info.groups_rows = host->info.groups_rows && device->info.groups_rows,
                       .info.batch_invariant = host->info.batch_invariant && device->info.batch_invariant,
                       .close = split_close,
                       .buffer_create = tern_split__buffer_create,
                       .weight_create = tern_split__weight_create,
                       .buffer_free = tern_split__buffer_free,
                       .buffer_write = tern_split__buffer_write,
                       .buffer_read = tern_split__buffer_read,
                       .supports = supports,
                       .prepare = tern_split__prepare,
                       .prepared_free = tern_split__prepared_free,
                       .run = tern_split__run,
                       .wait = wait,
                       .counters = counters,
                       .measure = measure,
                       .profile = profile};
    memcpy(s->base.info.exchange, device->info.exchange, sizeof device->info.exchange);
    s->base.memory_free = memory_free;
    s->base.weight_bytes = weight_bytes;
    if (host->trial || device->trial) s->base.trial = &trial;
    *backend = &s->base;
    return TERN_OK;
}
