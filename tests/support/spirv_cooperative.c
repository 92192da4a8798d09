/* Cooperative matrices of the simulated GPU: every invocation of a subgroup keeps the whole of each, and the first one
 * loads and stores. */
#include <string.h>

#include "base/half.h"
#include "support/spirv_parts.h"

enum { ROW_MAJOR = 0 };

/* Whether the subgroup agrees on a value of n words. */
static bool uniform(spirv_machine *machine, spirv_invocation *lanes, uint32_t n, uint32_t id, uint32_t words)
{
    for (uint32_t k = 1; k < n; k++)
        if (memcmp(spirv_value(machine, &lanes[k], id), spirv_value(machine, lanes, id), words * sizeof(uint32_t)))
            spirv_fail(machine, &lanes[k], "a cooperative matrix whose place or stride is not the subgroup's");
    return !machine->failed;
}

/* Its elements in memory, in the order of their rows; the stride counts what the pointer points to. */
static void move(spirv_machine *machine, spirv_invocation *v, const spirv_type *type, uint32_t pointer_id,
                 uint32_t layout_id, uint32_t stride_id, bool write, uint32_t *value)
{
    const spirv_id *ids = machine->m->ids;
    const uint32_t *pointer = spirv_value(machine, v, pointer_id), columns = type->columns;
    const spirv_type *element = ids[type->component].type, *pointee = ids[ids[pointer_id].type->component].type;
    const uint32_t stride = *spirv_value(machine, v, stride_id) * pointee->bytes;
    const bool by_rows = *spirv_value(machine, v, layout_id) == ROW_MAJOR;
    for (uint32_t k = 0; k < type->words && !machine->failed; k++) {
        const uint32_t row = k / columns, column = k % columns;
        const uint32_t offset =
            by_rows ? row * stride + column * element->bytes : column * stride + row * element->bytes;
        spirv_move(machine, v, element, pointer, offset, write, &value[k]);
    }
}

static float number(const spirv_type *element, uint32_t bits)
{
    return element->bytes == 2 ? tern_f16_to_f32((uint16_t)bits) : tern_f32_from_bits(bits);
}

/* a b + plus of one element, of rows and columns of n numbers: int8 in i32, floats in f32. */
static uint32_t sum_of_products(const spirv_type *a_element, const spirv_type *b_element, const uint32_t *a,
                                const uint32_t *b, uint32_t n, uint32_t b_stride, uint32_t plus)
{
    float sum = tern_f32_from_bits(plus);
    for (uint32_t j = 0; j < n; j++)
        if (a_element->op == OP_TYPE_INT) plus += (uint32_t)((int8_t)a[j] * (int8_t)b[j * b_stride]);
        else sum += number(a_element, a[j]) * number(b_element, b[j * b_stride]);
    return a_element->op == OP_TYPE_INT ? plus : tern_f32_bits(sum);
}

/* out = a b + c. */
static void multiply(spirv_machine *machine, spirv_invocation *v, const uint32_t *i)
{
    const spirv_id *ids = machine->m->ids;
    const spirv_type *a = ids[i[3]].type, *b = ids[i[4]].type, *out = ids[i[2]].type;
    const spirv_type *a_element = ids[a->component].type, *b_element = ids[b->component].type;
    const uint32_t *x = spirv_value(machine, v, i[3]), *y = spirv_value(machine, v, i[4]);
    const uint32_t *plus = spirv_value(machine, v, i[5]);
    uint32_t *to = spirv_value(machine, v, i[2]);
    for (uint32_t k = 0; k < out->words; k++) {
        const uint32_t row = k / out->columns, column = k % out->columns;
        to[k] =
            sum_of_products(a_element, b_element, x + row * a->columns, y + column, a->columns, b->columns, plus[k]);
    }
}

/* Load: type, result, pointer, layout, stride; store: pointer, matrix, layout, stride; multiply: type, result, a, b, c.
 */
void spirv_cooperative(spirv_machine *machine, spirv_invocation *lanes, uint32_t n, const uint32_t *i)
{
    const uint32_t op = i[0] & 0xffff;
    const spirv_type *type = machine->m->ids[i[2]].type;
    if (op == OP_COOPERATIVE_STORE) {
        if (uniform(machine, lanes, n, i[1], 2) && uniform(machine, lanes, n, i[4], 1))
            move(machine, lanes, type, i[1], i[3], i[4], true, spirv_value(machine, lanes, i[2]));
        return;
    }
    if (op == OP_COOPERATIVE_MULTIPLY) multiply(machine, lanes, i);
    else if (uniform(machine, lanes, n, i[3], 2) && uniform(machine, lanes, n, i[5], 1))
        move(machine, lanes, type, i[3], i[4], i[5], false, spirv_value(machine, lanes, i[2]));
    for (uint32_t k = 1; k < n && !machine->failed; k++)
        memcpy(spirv_value(machine, &lanes[k], i[2]), spirv_value(machine, lanes, i[2]),
               type->words * sizeof(uint32_t));
}
