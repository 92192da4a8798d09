/* SafeTensors element types: names, sizes, and conversion to f32. */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/half.h"
#include "format/safetensors_internal.h"

/* clang-format off */
static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [TERN_ST_BOOL] = {"BOOL", 1}, [TERN_ST_U8] = {"U8", 1},   [TERN_ST_I8] = {"I8", 1},     [TERN_ST_I16] = {"I16", 2},
    [TERN_ST_U16] = {"U16", 2},   [TERN_ST_F16] = {"F16", 2}, [TERN_ST_BF16] = {"BF16", 2}, [TERN_ST_I32] = {"I32", 4},
    [TERN_ST_U32] = {"U32", 4},   [TERN_ST_F32] = {"F32", 4}, [TERN_ST_F64] = {"F64", 8},   [TERN_ST_I64] = {"I64", 8},
    [TERN_ST_U64] = {"U64", 8},
};
/* clang-format on */

const char *tern_st_dtype_name(tern_st_dtype dtype)
{
    return (size_t)dtype < sizeof dtypes / sizeof *dtypes ? dtypes[dtype].name : "unknown";
}

size_t tern_st_dtype_bytes(tern_st_dtype dtype)
{
    return (size_t)dtype < sizeof dtypes / sizeof *dtypes ? dtypes[dtype].bytes : 0;
}

bool tern_safetensors__size(tern_st_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (__builtin_mul_overflow(n, t->dims[i], &n)) return false;
    t->n_elements = n;
    return tern_size_mul(tern_size_of(n), tern_st_dtype_bytes(t->dtype), &t->bytes);
}

static float load_f64(const uint8_t *p)
{
    uint64_t bits = tern_load_u64(p);
    double v;
    memcpy(&v, &bits, sizeof v);
    return (float)v;
}

static float load(tern_st_dtype dtype, const uint8_t *p)
{
    switch (dtype) {
    case TERN_ST_BOOL: return *p != 0;
    case TERN_ST_U8: return *p;
    case TERN_ST_I8: return (int8_t)*p;
    case TERN_ST_I16: return (int16_t)tern_load_u16(p);
    case TERN_ST_U16: return tern_load_u16(p);
    case TERN_ST_F16: return tern_f16_to_f32(tern_load_u16(p));
    case TERN_ST_BF16: return tern_bf16_to_f32(tern_load_u16(p));
    case TERN_ST_I32: return (float)(int32_t)tern_load_u32(p);
    case TERN_ST_U32: return (float)tern_load_u32(p);
    case TERN_ST_F32: return tern_load_f32(p);
    case TERN_ST_F64: return load_f64(p);
    case TERN_ST_I64: return (float)(int64_t)tern_load_u64(p);
    case TERN_ST_U64: return (float)tern_load_u64(p);
    }
    return 0;
}

void tern_st_to_f32(const tern_st_tensor *t, uint64_t first, size_t n, float *out)
{
    size_t bytes = tern_st_dtype_bytes(t->dtype);
    const uint8_t *p = t->data + first * bytes;
    for (size_t i = 0; i < n; i++) out[i] = load(t->dtype, p + i * bytes);
}
