/* SafeTensors files for tests, made piece by piece. */
#include "format/safetensors_cases.h"

tern_st_tensor safetensors_tensor_of(const char *name, tern_st_dtype dtype, uint64_t n, const void *data)
{
    return (tern_st_tensor){.name = name,
                            .dtype = dtype,
                            .n_dims = 1,
                            .dims = {n},
                            .n_elements = n,
                            .data = data,
                            .bytes = n * tern_st_dtype_bytes(dtype)};
}
