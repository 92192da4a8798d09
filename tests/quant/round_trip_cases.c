/* Tensors for the tests of encodings. */
#include "quant/round_trip_cases.h"

const tern_encoding *round_trip_named(const char *name)
{
    const tern_encoding *e = tern_encoding_by_name(name);
    assert_non_null(e);
    return e;
}

void *round_trip_encoded_bytes(const tern_encoding *e, shape s)
{
    size_t bytes = 0;
    tern_error err = {0};
    assert_ok(tern_encoding_bytes(e, s.rows, s.cols, &bytes, &err), err);
    void *p = malloc(bytes); /* exactly, so that the sanitizer sees a step outside */
    assert_non_null(p);
    memset(p, 0xa5, bytes);
    return p;
}

int8_t *round_trip_filled_codes(shape s, int fill, uint64_t seed)
{
    size_t n = (size_t)(s.rows * s.cols);
    int8_t *codes = malloc(n);
    assert_non_null(codes);
    tern_rng rng = {seed};
    for (size_t i = 0; i < n; i++) codes[i] = (int8_t)(fill ? fill - 2 : (int)tern_rng_below(&rng, 3) - 1);
    return codes;
}

int8_t *round_trip_decoded_codes(const tern_encoding *e, const void *bytes, shape s, float scale)
{
    tern_error err = {0};
    int8_t *codes = malloc((size_t)(s.rows * s.cols));
    float *scales = malloc((size_t)s.rows * sizeof *scales);
    bool uniform = false;
    size_t n_bad = 9;
    assert_ok(tern_encoding_check(e, bytes, s.rows, s.cols, &err), err);
    assert_ok(tern_decode_codes(e, bytes, s.rows, s.cols, 0, s.rows, codes, scales, &uniform, &n_bad, &err), err);
    assert_true(uniform && n_bad == 0);
    for (uint64_t r = 0; r < s.rows; r++) assert_true(scales[r] == scale);
    free(scales);
    return codes;
}
