/* Subgroup operations of the simulated GPU. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "support/spirv_parts.h"

enum { REDUCE, INCLUSIVE, EXCLUSIVE };
enum {
    ELECT = 333,
    ALL,
    ANY,
    BROADCAST = 337,
    BROADCAST_FIRST,
    BALLOT,
    SHUFFLE = 345,
    SHUFFLE_XOR,
    SHUFFLE_UP,
    SHUFFLE_DOWN
};
enum { INT_ADD = 349, FLOAT_ADD, INT_MUL, FLOAT_MUL, S_MIN, U_MIN, F_MIN, S_MAX, U_MAX, F_MAX, AND, OR, XOR };

static float f(uint32_t bits)
{
    return tern_f32_from_bits(bits);
}

static uint32_t combine(uint32_t op, uint32_t a, uint32_t b)
{
    switch (op) {
    case INT_ADD: return a + b;
    case FLOAT_ADD: return tern_f32_bits(f(a) + f(b));
    case INT_MUL: return a * b;
    case FLOAT_MUL: return tern_f32_bits(f(a) * f(b));
    case S_MIN: return (int32_t)a < (int32_t)b ? a : b;
    case U_MIN: return a < b ? a : b;
    case F_MIN: return tern_f32_bits(fminf(f(a), f(b)));
    case S_MAX: return (int32_t)a > (int32_t)b ? a : b;
    case U_MAX: return a > b ? a : b;
    case F_MAX: return tern_f32_bits(fmaxf(f(a), f(b)));
    case AND: return a & b;
    case OR: return a | b;
    default: return a ^ b;
    }
}

static uint32_t neutral(uint32_t op)
{
    switch (op) {
    case INT_MUL: return 1;
    case FLOAT_MUL: return tern_f32_bits(1);
    case S_MIN: return 0x7fffffff;
    case U_MIN:
    case AND: return ~0u;
    case F_MIN: return tern_f32_bits(INFINITY);
    case S_MAX: return 0x80000000u;
    case F_MAX: return tern_f32_bits(-INFINITY);
    default: return 0;
    }
}

/* type, result, scope, group operation, value: word by word, in the order of the lanes. */
static void reduce(spirv_machine *machine, spirv_invocation *lanes, uint32_t n, const uint32_t *i)
{
    const uint32_t op = i[0] & 0xffff, words = spirv_words(machine, i[2]);
    for (uint32_t w = 0; w < words; w++) {
        uint32_t sum = neutral(op);
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t next = combine(op, sum, spirv_value(machine, &lanes[k], i[5])[w]);
            spirv_value(machine, &lanes[k], i[2])[w] = i[4] == EXCLUSIVE ? sum : next;
            sum = next;
        }
        for (uint32_t k = 0; k < n && i[4] == REDUCE; k++) spirv_value(machine, &lanes[k], i[2])[w] = sum;
    }
}

static uint32_t source(uint32_t op, uint32_t lane, uint32_t by)
{
    switch (op) {
    case SHUFFLE_XOR: return lane ^ by;
    case SHUFFLE_UP: return lane - by;
    case SHUFFLE_DOWN: return lane + by;
    default: return by;
    }
}

/* type, result, scope, value, lane or distance. What a lane that is not there would give is undefined; using it is what
 * is wrong, but a kernel that asks for it gets rubbish here. */
static void shuffle(spirv_machine *machine, spirv_invocation *lanes, uint32_t n, const uint32_t *i)
{
    const uint32_t op = i[0] & 0xffff, words = spirv_words(machine, i[2]);
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t from = source(op, k, *spirv_value(machine, &lanes[k], i[5]));
        uint32_t *out = spirv_value(machine, &lanes[k], i[2]);
        if (from < n) memcpy(out, spirv_value(machine, &lanes[from], i[4]), words * sizeof *out);
        else memset(out, 0xff, words * sizeof *out);
    }
}

static void vote(spirv_machine *machine, spirv_invocation *lanes, uint32_t n, const uint32_t *i)
{
    const uint32_t op = i[0] & 0xffff;
    uint32_t ballot[4] = {0}, n_true = 0;
    for (uint32_t k = 0; k < n; k++) {
        const bool is = op != ELECT && op != BROADCAST_FIRST && *spirv_value(machine, &lanes[k], i[4]);
        ballot[k / 32] |= (uint32_t)is << (k % 32);
        n_true += is;
    }
    for (uint32_t k = 0; k < n; k++) {
        uint32_t *out = spirv_value(machine, &lanes[k], i[2]);
        if (op == ELECT) *out = k == 0;
        if (op == ALL) *out = n_true == n;
        if (op == ANY) *out = n_true > 0;
        if (op == BALLOT) memcpy(out, ballot, sizeof ballot);
        if (op == BROADCAST_FIRST)
            memcpy(out, spirv_value(machine, &lanes[0], i[4]), spirv_words(machine, i[2]) * sizeof *out);
    }
}

void spirv_subgroup(spirv_machine *machine, spirv_invocation *lanes, uint32_t n, const uint32_t *i)
{
    const uint32_t op = i[0] & 0xffff;
    if (op >= OP_COOPERATIVE_LOAD) spirv_cooperative(machine, lanes, n, i);
    else if (op >= INT_ADD && op <= XOR) reduce(machine, lanes, n, i);
    else if (op == BROADCAST || (op >= SHUFFLE && op <= SHUFFLE_DOWN)) shuffle(machine, lanes, n, i);
    else if (op == ELECT || op == ALL || op == ANY || op == BALLOT || op == BROADCAST_FIRST) vote(machine, lanes, n, i);
    else spirv_fail(machine, lanes, "subgroup operation %u is not known", op);
}
