/* What the simulated GPU computes: instructions on values alone. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "support/spirv_parts.h"

static float f(uint32_t bits)
{
    return tern_f32_from_bits(bits);
}

static uint32_t u(float value)
{
    return tern_f32_bits(value);
}

static int32_t s(uint32_t bits)
{
    return (int32_t)bits;
}

bool spirv_sloppy;

static float flushed(float x)
{
    return spirv_sloppy && fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* Up to `most` units in the last place off, by what looks like chance. */
static float off(float x, uint32_t most)
{
    const uint32_t bits = u(x), by = (bits * 2654435761u >> 7) % (2 * most + 1);
    return !spirv_sloppy || !isfinite(x) || fabsf(x) < 0x1p-120f ? x : f(bits + by - most);
}

/* The worst that Vulkan allows: a divisor beyond 2^126 may be taken for infinite, one below 2^-126 for 0. */
static float quotient(float a, float b)
{
    if (fabsf(b) > 0x1p126f) return a / copysignf(INFINITY, b);
    if (fabsf(b) < 0x1p-126f) return a / copysignf(0, b);
    return off(a / b, 2);
}

static int32_t dot_bytes(uint32_t a, uint32_t b, bool is_signed)
{
    int32_t sum = 0;
    for (int k = 0; k < 32; k += 8) {
        const uint32_t x = (a >> k) & 255, y = (b >> k) & 255;
        sum += is_signed ? (int32_t)(int8_t)x * (int8_t)y : (int32_t)(x * y);
    }
    return sum;
}

/* One word of an operation on one; false when it is not one. */
static bool unary(uint32_t op, uint32_t a, uint32_t *out)
{
    switch (op) {
    case OP_COPY:
    case 124: *out = a; break;
    case 109: *out = f(a) > 0 ? (uint32_t)f(a) : 0; break;
    case 110: *out = (uint32_t)(int32_t)f(a); break;
    case 111: *out = u((float)s(a)); break;
    case 112: *out = u((float)a); break;
    case 126: *out = 0 - a; break;
    case 127: *out = a ^ 0x80000000u; break;
    case 156: *out = f(a) != f(a); break;
    case 157: *out = (a & 0x7fffffffu) == 0x7f800000u; break;
    case 168: *out = !a; break;
    case 200: *out = ~a; break;
    default: return false;
    }
    return true;
}

static bool arithmetic(uint32_t op, uint32_t a, uint32_t b, uint32_t *out)
{
    switch (op) {
    case 128: *out = a + b; break;
    case 129: *out = u(flushed(flushed(f(a)) + flushed(f(b)))); break;
    case 130: *out = a - b; break;
    case 131: *out = u(flushed(flushed(f(a)) - flushed(f(b)))); break;
    case 132: *out = a * b; break;
    case 133: *out = u(flushed(flushed(f(a)) * flushed(f(b)))); break;
    case 134: *out = b ? a / b : ~0u; break;
    case 135: *out = b && !(a == 0x80000000u && b == ~0u) ? (uint32_t)(s(a) / s(b)) : a; break;
    case 136: *out = u(quotient(f(a), f(b))); break;
    case 137: *out = b ? a % b : 0; break;
    case 138: *out = b && b != ~0u ? (uint32_t)(s(a) % s(b)) : 0; break;
    case 194: *out = a >> (b & 31); break;
    case 195: *out = (uint32_t)(s(a) >> (b & 31)); break;
    case 196: *out = a << (b & 31); break;
    case 166:
    case 197: *out = a | b; break;
    case 198: *out = a ^ b; break;
    case 167:
    case 199: *out = a & b; break;
    default: return false;
    }
    return true;
}

static bool comparison(uint32_t op, uint32_t a, uint32_t b, uint32_t *out)
{
    switch (op) {
    case 164:
    case 170: *out = a == b; break;
    case 165:
    case 171: *out = a != b; break;
    case 172: *out = a > b; break;
    case 173: *out = s(a) > s(b); break;
    case 174: *out = a >= b; break;
    case 175: *out = s(a) >= s(b); break;
    case 176: *out = a < b; break;
    case 177: *out = s(a) < s(b); break;
    case 178: *out = a <= b; break;
    case 179: *out = s(a) <= s(b); break;
    case 180: *out = f(a) == f(b); break;
    case 182: *out = f(a) < f(b) || f(a) > f(b); break;
    case 183: *out = f(a) != f(b); break;
    case 184: *out = f(a) < f(b); break;
    case 186: *out = f(a) > f(b); break;
    case 188: *out = f(a) <= f(b); break;
    case 190: *out = f(a) >= f(b); break;
    default: return false;
    }
    return true;
}

static float dot(const uint32_t *a, const uint32_t *b, uint32_t n)
{
    float sum = 0;
    for (uint32_t k = 0; k < n; k++) sum += f(a[k]) * f(b[k]);
    return sum;
}

/* Operations on vectors and matrices as a whole. */
static bool whole(spirv_machine *machine, spirv_invocation *v, const uint32_t *i, uint32_t n)
{
    uint32_t *out = spirv_value(machine, v, i[2]);
    const uint32_t words = spirv_words(machine, i[2]), op = i[0] & 0xffff;
    const uint32_t *a = n > 3 ? spirv_value(machine, v, i[3]) : NULL,
                   *b = n > 4 && op != OP_EXTRACT ? spirv_value(machine, v, i[4]) : NULL;
    const uint32_t a_words = n > 3 ? spirv_words(machine, i[3]) : 0;
    switch (op) {
    case 142:
    case 143:
        for (uint32_t k = 0; k < words; k++) out[k] = u(flushed(flushed(f(a[k])) * flushed(f(*b))));
        break;
    case 144: /* vector times matrix: its dot product with each column */
        for (uint32_t k = 0; k < words; k++) out[k] = u(dot(a, b + k * a_words, a_words));
        break;
    case 145:
        for (uint32_t k = 0; k < words; k++) {
            float sum = 0;
            for (uint32_t c = 0; c * words < a_words; c++) sum += f(a[c * words + k]) * f(b[c]);
            out[k] = u(sum);
        }
        break;
    case 148: *out = u(dot(a, b, a_words)); break;
    case 154:
    case 155:
        *out = op == 155;
        for (uint32_t k = 0; k < a_words; k++) *out = op == 155 ? *out && a[k] : *out || a[k];
        break;
    case 4450: *out = (uint32_t)dot_bytes(*a, *b, true); break;
    case 4451: *out = (uint32_t)dot_bytes(*a, *b, false); break;
    default: return false;
    }
    return true;
}

/* Between f32 and f16, and the bits of halves as words and back. */
static bool halves(spirv_machine *machine, spirv_invocation *v, const uint32_t *i)
{
    const spirv_id *ids = machine->m->ids;
    const spirv_type *from = ids[i[3]].type, *to = ids[i[2]].type;
    const uint32_t *a = spirv_value(machine, v, i[3]), op = i[0] & 0xffff;
    uint32_t *out = spirv_value(machine, v, i[2]);
    if (op == 115)
        for (uint32_t k = 0; k < to->words; k++)
            out[k] = to->bytes < from->bytes ? tern_f32_to_f16(f(a[k])) : u(tern_f16_to_f32((uint16_t)a[k]));
    else if (op == 124 && to->words == 2 * from->words)
        for (uint32_t k = 0; k < to->words; k++) out[k] = (a[k / 2] >> k % 2 * 16) & 0xffff;
    else if (op == 124 && from->words == 2 * to->words)
        for (uint32_t k = 0; k < to->words; k++) out[k] = a[2 * k] | a[2 * k + 1] << 16;
    else return false;
    return true;
}

/* Where the part of a composite that literals name begins; *type becomes the part's. */
static uint32_t part(const spirv_machine *machine, const spirv_type **type, const uint32_t *literals, uint32_t n)
{
    const spirv_id *ids = machine->m->ids;
    uint32_t at = 0;
    for (uint32_t k = 0; k < n; k++) {
        if ((*type)->op == OP_TYPE_STRUCT) {
            for (uint32_t member = 0; member < literals[k]; member++) at += ids[(*type)->members[member]].type->words;
            *type = ids[(*type)->members[literals[k]]].type;
        } else {
            *type = ids[(*type)->component].type;
            at += literals[k] * (*type)->words;
        }
    }
    return at;
}

static bool composites(spirv_machine *machine, spirv_invocation *v, const uint32_t *i, uint32_t n)
{
    const spirv_id *ids = machine->m->ids;
    uint32_t *out = spirv_value(machine, v, i[2]);
    const uint32_t *a = spirv_value(machine, v, i[3]), words = spirv_words(machine, i[2]),
                   a_words = spirv_words(machine, i[3]);
    const spirv_type *type = ids[i[3]].type;
    switch (i[0] & 0xffff) {
    case OP_CONSTRUCT:
        for (uint32_t k = 3; k < n; out += spirv_words(machine, i[k]), k++)
            memmove(out, spirv_value(machine, v, i[k]), spirv_words(machine, i[k]) * sizeof *out);
        break;
    case OP_EXTRACT: memmove(out, a + part(machine, &type, i + 4, n - 4), words * sizeof *out); break;
    case OP_INSERT: {
        type = ids[i[2]].type;
        const uint32_t at = part(machine, &type, i + 5, n - 5);
        memmove(out, spirv_value(machine, v, i[4]), words * sizeof *out);
        memmove(out + at, a, a_words * sizeof *out);
        break;
    }
    case OP_SHUFFLE:
        for (uint32_t k = 0; k < words; k++)
            out[k] = i[5 + k] < a_words ? a[i[5 + k]] : spirv_value(machine, v, i[4])[i[5 + k] - a_words];
        break;
    case OP_EXTRACT_DYNAMIC: {
        const uint32_t index = *spirv_value(machine, v, i[4]);
        if (index >= a_words) spirv_fail(machine, v, "component %u of %u", index, a_words);
        else *out = a[index];
        break;
    }
    case 169: /* select: one condition, or one for each word */
        for (uint32_t k = 0; k < words; k++) out[k] = spirv_value(machine, v, a[a_words > 1 ? k : 0] ? i[4] : i[5])[k];
        break;
    case 202:
    case 203: { /* base, offset, count */
        const uint32_t offset = *spirv_value(machine, v, i[4]), count = *spirv_value(machine, v, i[5]);
        for (uint32_t k = 0; k < words; k++) {
            const uint32_t top = count ? a[k] << (32 - offset - count) : 0;
            out[k] = !count ? 0 : (i[0] & 0xffff) == 202 ? (uint32_t)(s(top) >> (32 - count)) : top >> (32 - count);
        }
        break;
    }
    default: return false;
    }
    return true;
}

static bool word_by_word(spirv_machine *machine, spirv_invocation *v, const uint32_t *i, uint32_t n)
{
    const uint32_t op = i[0] & 0xffff, words = spirv_words(machine, i[2]);
    uint32_t *out = spirv_value(machine, v, i[2]);
    const uint32_t *a = spirv_value(machine, v, i[3]), *b = n > 4 ? spirv_value(machine, v, i[4]) : NULL;
    for (uint32_t k = 0; k < words; k++)
        if (!(b ? arithmetic(op, a[k], b[k], &out[k]) || comparison(op, a[k], b[k], &out[k])
                : unary(op, a[k], &out[k])))
            return false;
    return true;
}

/* Most instructions: arithmetic, comparisons and logic, of which the functions for values as a whole know none. */
static bool is_word_by_word(uint32_t op)
{
    return (op >= 126 && op <= 138) || (op >= 164 && op <= 200 && op != 169);
}

bool spirv_compute(spirv_machine *machine, spirv_invocation *v, const uint32_t *i, uint32_t n)
{
    if (n < 4) return false;
    if (is_word_by_word(i[0] & 0xffff)) return word_by_word(machine, v, i, n);
    return composites(machine, v, i, n) || whole(machine, v, i, n) || halves(machine, v, i) ||
           word_by_word(machine, v, i, n);
}

static uint32_t half_of(float value)
{
    return tern_f32_to_f16(value);
}

/* Half to even, whatever the rounding mode. */
static float round_even(float x)
{
    return fabsf(x) < 8388608.0f ? copysignf((fabsf(x) + 8388608.0f) - 8388608.0f, x) : x;
}

static bool extended_word(uint32_t which, uint32_t a, uint32_t b, uint32_t c, uint32_t *out)
{
    switch (which) {
    case 2: *out = u(round_even(f(a))); break;
    case 3: *out = u(truncf(f(a))); break;
    case 4: *out = u(fabsf(f(a))); break;
    case 5: *out = s(a) < 0 ? 0 - a : a; break;
    case 8: *out = u(floorf(f(a))); break;
    case 9: *out = u(ceilf(f(a))); break;
    case 13: *out = u(sinf(f(a))); break;
    case 14: *out = u(cosf(f(a))); break;
    case 26: *out = u(powf(f(a), f(b))); break;
    case 27: *out = u(expf(f(a))); break;
    case 28: *out = u(logf(f(a))); break;
    case 29: *out = u(exp2f(f(a))); break;
    case 30: *out = u(log2f(f(a))); break;
    case 31: *out = u(off(sqrtf(flushed(f(a))), 4)); break;
    case 32: *out = u(off(1.0f / sqrtf(flushed(f(a))), 2)); break;
    case 37: *out = f(b) < f(a) ? b : a; break;
    case 38: *out = a < b ? a : b; break;
    case 39: *out = s(a) < s(b) ? a : b; break;
    case 40: *out = f(a) < f(b) ? b : a; break;
    case 41: *out = a > b ? a : b; break;
    case 42: *out = s(a) > s(b) ? a : b; break;
    case 43: *out = u(fminf(fmaxf(f(a), f(b)), f(c))); break;
    case 44: *out = a < b ? b : a > c ? c : a; break;
    case 45: *out = s(a) < s(b) ? b : s(a) > s(c) ? c : a; break;
    case 50: *out = u(fmaf(f(a), f(b), f(c))); break;
    case 73: *out = a ? (uint32_t)__builtin_ctz(a) : ~0u; break;
    case 75: *out = a ? 31u - (uint32_t)__builtin_clz(a) : ~0u; break;
    default: return false;
    }
    return true;
}

/* type, result, set, instruction, operands */
bool spirv_extended(spirv_machine *machine, spirv_invocation *v, const uint32_t *i)
{
    const uint32_t n = (i[0] >> 16) - 5, words = spirv_words(machine, i[2]);
    uint32_t *out = spirv_value(machine, v, i[2]);
    const uint32_t *a = spirv_value(machine, v, i[5]);
    if (i[4] == 58) *out = half_of(f(a[0])) | half_of(f(a[1])) << 16;
    else if (i[4] == 62) out[1] = u(tern_f16_to_f32((uint16_t)(*a >> 16))), out[0] = u(tern_f16_to_f32((uint16_t)*a));
    else
        for (uint32_t k = 0; k < words; k++)
            if (!extended_word(i[4], a[k], n > 1 ? spirv_value(machine, v, i[6])[k] : 0,
                               n > 2 ? spirv_value(machine, v, i[7])[k] : 0, &out[k]))
                return false;
    return true;
}
