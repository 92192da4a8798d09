/* GGUF tensor types: ours, those we convert, plain numbers, and the names of those that only other programs read. */
#include "base/alloc.h"
#include "format/gguf_internal.h"
#include "quant/encoding.h"
#include "quant/foreign.h"

typedef struct tensor_type {
    uint32_t id;
    uint32_t element_bytes; /* plain numbers; else 0: not read here */
    const char *name;
} tensor_type;

/* Ids: ggml.h of llama.cpp, enum ggml_type; bitnet.cpp's llama.cpp gives 37 to 39 to types of its own, and nothing in a
 * file says whose they are (39: gguf_groups.c). */
/* clang-format off */
static const tensor_type types[] = {
    {4, 0, "Q4_2"},      {5, 0, "Q4_3"},      {9, 0, "Q8_1"},      {15, 0, "Q8_K"},     {16, 0, "IQ2_XXS"},
    {17, 0, "IQ2_XS"},   {18, 0, "IQ3_XXS"},  {19, 0, "IQ1_S"},    {21, 0, "IQ3_S"},    {22, 0, "IQ2_S"},
    {23, 0, "IQ4_XS"},   {24, 1, "I8"},       {25, 2, "I16"},      {26, 4, "I32"},      {27, 8, "I64"},
    {28, 8, "F64"},      {29, 0, "IQ1_M"},    {31, 0, "Q4_0_4_4"}, {32, 0, "Q4_0_4_8"}, {33, 0, "Q4_0_8_8"},
    {40, 0, "NVFP4"},    {143, 0, "PTQ1_0 of PrismML"},
    {37, 0, "I8_S of bitnet.cpp or IQ4_NL_4_8 of llama.cpp"},
    {38, 0, "TL1 of bitnet.cpp or IQ4_NL_8_8 of llama.cpp"},
};
/* clang-format on */

static const tensor_type *find_type(uint32_t id)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].id == id) return &types[i];
    return NULL;
}

const char *tern_gguf_type_name(uint32_t type)
{
    const tern_encoding *encoding = tern_encoding_find(type);
    const tern_foreign *foreign = tern_foreign_find(type);
    if (encoding) return encoding->name;
    if (foreign) return foreign->name;
    const tensor_type *other = find_type(type);
    return other ? other->name : "unknown";
}

static tern_status plain_bytes(tern_gguf_tensor *t, tern_error *err)
{
    const tensor_type *type = find_type(t->type);
    if (!type) return tern_fail(err, TERN_UNSUPPORTED, "unknown tensor type %u", t->type);
    if (!type->element_bytes)
        return tern_fail(err, TERN_UNSUPPORTED, "tensor type %s (%u) cannot be read here", type->name, t->type);
    size_t elements;
    if (!tern_size_mul(tern_size_of(t->rows), tern_size_of(t->cols), &elements) ||
        !tern_size_mul(elements, type->element_bytes, &t->bytes))
        return tern_fail(err, TERN_LIMIT, "%llu rows of %llu %s overflow", (unsigned long long)t->rows,
                         (unsigned long long)t->cols, type->name);
    return TERN_OK;
}

static tern_status count_rows(tern_gguf_tensor *t, tern_error *err)
{
    t->cols = t->n_dims ? t->dims[0] : 1;
    t->rows = 1;
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (t->dims[i] == 0) return tern_fail(err, TERN_MALFORMED, "dimension %u is 0, at least 1 expected", i);
    for (uint32_t i = 1; i < t->n_dims; i++)
        if (__builtin_mul_overflow(t->rows, t->dims[i], &t->rows))
            return tern_fail(err, TERN_LIMIT, "dimension %u is %llu: the number of rows overflows", i,
                             (unsigned long long)t->dims[i]);
    return TERN_OK;
}

/* bitnet.cpp's TL1 and TL2 are matrices; llama.cpp's types of the same numbers are others, mostly of experts. */
static const tern_foreign *foreign_of(const tern_gguf_tensor *t)
{
    const tern_foreign *f = tern_foreign_find(t->type);
    return f && (!f->tiled || t->n_dims == 2) ? f : NULL;
}

static tern_status encoded_bytes(tern_gguf_tensor *t, const tern_foreign *foreign, tern_error *err)
{
    if (foreign) return tern_foreign_bytes(foreign, t->rows, t->cols, &t->bytes, err);
    return tern_encoding_bytes(tern_encoding_find(t->type), t->rows, t->cols, &t->bytes, err);
}

tern_status tern_gguf__tensor_size(tern_gguf_tensor *t, tern_error *err)
{
    TERN_TRY(count_rows(t, err));
    const tern_foreign *foreign = foreign_of(t);
    if (!foreign && !tern_encoding_find(t->type)) return plain_bytes(t, err);
    tern_status status = encoded_bytes(t, foreign, err);
    if (status == TERN_INVALID_ARGUMENT) err->code = status = TERN_MALFORMED;
    return status;
}
