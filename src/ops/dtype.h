/* The stored type of a value's numbers, and the types of a cache of keys and values. */
#ifndef TERN_OPS_DTYPE_H
#define TERN_OPS_DTYPE_H

#include <stddef.h>
#include <stdint.h>

/* F(X, name, NAME, elements of a block, its bytes): what keys and values can be stored as. A row is one position of one
 * head, and says all of itself, so that its bytes depend on nothing but its numbers: not on what is stored with it. A
 * row of a type with blocks of 32 has first the f16 scales of its blocks, then their codes in order. Those of q8_0 are
 * int8; q4_0 has 16 bytes with codes i and i + 16 of the block, plus 8, in the lower and upper half of byte i. A number
 * is its code times its block's scale, which f32 holds exactly. The stored bytes: tern_kv_store_fn (ops/ref/ref.h). X
 * is handed on to F. */
#define TERN_CACHE_TYPE_LIST(F, X)                                                                                     \
    F(X, f16, F16, 1, 2)                                                                                               \
    F(X, f32, F32, 1, 4)                                                                                               \
    F(X, q8_0, Q8_0, 32, 34)                                                                                           \
    F(X, q4_0, Q4_0, 32, 18)

typedef enum tern_dtype {
    TERN_DTYPE_F32,
    TERN_DTYPE_F16,
    TERN_DTYPE_U32,
    TERN_DTYPE_Q8, /* int8 rows with an f32 scale and an i32 sum for each: see tern_q8_stride */
    /* of states alone */
    TERN_DTYPE_BF16,
    TERN_DTYPE_M8, /* a first moment in 8 bits: all elements, padded to whole blocks of 256, then an f32 scale for each
                    * block (ops/ref/update.h, tern_ref_state_pack) */
    TERN_DTYPE_V8, /* a second moment in 8 bits, in the same way (tern_ref_square_pack) */
    /* of caches alone */
    TERN_DTYPE_Q8_0,
    TERN_DTYPE_Q4_0
} tern_dtype;

enum { TERN_DTYPES = TERN_DTYPE_Q4_0 + 1 };

/* A type that caches can have. */
typedef struct tern_cache_type {
    const char *name;
    tern_dtype dtype;
    uint32_t elements, bytes; /* of a block; 1 element: there are no blocks */
} tern_cache_type;

/* The i-th of TERN_CACHE_TYPE_LIST, NULL past the end; the one of a dtype, NULL for dtypes that no cache has. */
const tern_cache_type *tern_cache_type_at(size_t i);
const tern_cache_type *tern_cache_type_of(tern_dtype dtype);

/* Bytes of n numbers, whole rows, of a cache. */
static inline size_t tern_cache_bytes(tern_dtype dtype, size_t n)
{
    switch (dtype) {
#define TERN_CACHE_BYTES(X, name, NAME, elements, bytes)                                                               \
    case TERN_DTYPE_##NAME: return n / (elements) * (bytes);
        TERN_CACHE_TYPE_LIST(TERN_CACHE_BYTES, )
#undef TERN_CACHE_BYTES
    default: return 0;
    }
}

/* Bytes of n rows of a value, and of the parts of a Q8 value: int8 rows of stride bytes, then n f32 inverse scales,
 * then n i32 sums, each part aligned to 64 bytes. */
static inline uint64_t tern_q8_stride(uint32_t cols)
{
    return ((uint64_t)cols + 127) / 128 * 128; /* whole i2_s groups */
}

static inline uint64_t tern_q8_scales_offset(uint32_t cols, uint64_t n)
{
    return tern_q8_stride(cols) * n;
}

static inline uint64_t tern_q8_sums_offset(uint32_t cols, uint64_t n)
{
    return tern_q8_scales_offset(cols, n) + (n * 4 + 63) / 64 * 64;
}

static inline uint64_t tern_row_bytes(tern_dtype dtype, uint32_t cols, uint64_t n)
{
    switch (dtype) {
    case TERN_DTYPE_Q8: return tern_q8_sums_offset(cols, n) + (n * 4 + 63) / 64 * 64;
    case TERN_DTYPE_F16:
    case TERN_DTYPE_BF16: return n * cols * 2;
    case TERN_DTYPE_M8:
    case TERN_DTYPE_V8: return (n * cols + 255) / 256 * (256 + 4);
    case TERN_DTYPE_Q8_0:
    case TERN_DTYPE_Q4_0: return n * tern_cache_bytes(dtype, cols);
    default: return n * cols * 4;
    }
}

/* The types of keys and of values. */
typedef struct tern_cache_types {
    tern_dtype k, v;
} tern_cache_types;

enum { TERN_PAGE_SIZE = 32 }; /* positions of a KV page */

#endif
