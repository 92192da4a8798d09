/* What would help where a run does not fit: options, each set of which was planned before it is named. */
#include <stdio.h>

#include "train/trainer/internal.h"

/* What takes less, in the order of what it costs: time, then accuracy, then what is learned. A set of them is a number
 * with a bit for each, so that a smaller number costs less. */
enum { CHECKPOINT, ONE_ROW, IN_BACKWARD, STATES, MASTER, ADAPTER, N_SAVINGS };

typedef struct saving_set {
    unsigned set;
    uint32_t accumulate; /* of ONE_ROW */
    uint64_t total;      /* UINT64_MAX: none */
} saving_set;

/* False: it is so already, or does not go with what is wanted. */
static bool apply_saving(tern_trainer_params *p, int how)
{
    const tern_trainer_params before = *p;
    switch (how) {
    case CHECKPOINT: p->checkpoint = true; return !before.checkpoint;
    case ONE_ROW:
        p->accumulate *= p->batch;
        p->batch = 1;
        return before.batch > 1 && !before.optimizer_in_backward;
    case IN_BACKWARD: p->optimizer_in_backward = true; return !before.optimizer_in_backward && before.accumulate == 1;
    case STATES:
        p->m = TERN_DTYPE_M8;
        p->v = TERN_DTYPE_V8;
        return before.m != p->m || before.v != p->v;
    case MASTER: p->master = TERN_DTYPE_BF16; return before.master != p->master;
    default: p->lora = (tern_trainer_lora){.rank = 16, .alpha = 16};
    }
    return before.lora.rank == 0 && !before.lora.start && !before.blend_steps && !before.from_nothing;
}

/* Bytes with these savings; UINT64_MAX: they do not go together, or the backend lacks an op that they need. */
static saving_set plan_with(const tern_trainer *t, unsigned set)
{
    tern_trainer_params p = t->params;
    tern_trainer with;
    saving_set c = {.set = set, .total = UINT64_MAX};
    for (int i = 0; i < N_SAVINGS; i++)
        if (set >> i & 1 && !apply_saving(&p, i)) return c;
    c.accumulate = p.accumulate;
    tern_status status = tern_trainer__init(&with, t->backend, t->model, &p, NULL);
    if (status == TERN_OK) status = tern_trainer__check_graphs(&with, NULL);
    if (status == TERN_OK) c.total = with.plan.total;
    tern_trainer__deinit(&with);
    return c;
}

/* The first set of first .. end - 1 that fits, else the one that takes the least. */
static saving_set find_fitting(const tern_trainer *t, unsigned first, unsigned end)
{
    saving_set least = {.total = UINT64_MAX};
    for (unsigned set = first; set < end; set++) {
        const saving_set c = plan_with(t, set);
        if (c.total < least.total) least = c;
        if (c.total <= t->plan.limit) return c;
    }
    return least;
}

static size_t append_set(const saving_set *c, const char *verb, char *out, size_t out_bytes)
{
    static const char *const words[N_SAVINGS] = {
        " --checkpoint", NULL, " --optimizer-in-backward", " --states 8bit", " --master bf16", " --lora 16"};
    size_t length = 0;
    for (int i = 0; i < N_SAVINGS; i++) {
        if (!(c->set >> i & 1)) continue;
        char row[48];
        snprintf(row, sizeof row, " --batch 1 --accumulate %u", c->accumulate);
        length += (size_t)snprintf(out + length, out_bytes - length, "%s", words[i] ? words[i] : row);
    }
    return length +
           (size_t)snprintf(out + length, out_bytes - length, "%s %.2f GiB", verb, (double)c->total / (1 << 30));
}

void tern_trainer__suggest(const tern_trainer *t, char *out, size_t out_bytes)
{
    const uint64_t limit = t->plan.limit;
    const saving_set whole = find_fitting(t, 1, 1u << ADAPTER),
                     adapter = find_fitting(t, 1u << ADAPTER, 1u << N_SAVINGS);
    const saving_set *least = adapter.total < whole.total ? &adapter : &whole;
    if (whole.total <= limit) {
        const size_t n = append_set(&whole, " takes", out, out_bytes);
        if (adapter.total > limit) return;
        out[n] = ',';
        append_set(&adapter, "", out + n + 1, out_bytes - n - 1);
    } else if (least->total <= limit) {
        append_set(least, " takes", out, out_bytes);
    } else if (least->total < t->plan.total) {
        const size_t n = (size_t)snprintf(out, out_bytes, " even");
        append_set(least, " takes", out + n, out_bytes - n);
    } else {
        snprintf(out, out_bytes, " nothing takes less (%.2f GiB)", (double)t->plan.total / (1 << 30));
    }
}
