/* Encodings by their names, for the tests of encodings. */
#include "quant/encoding_cases.h"

const tern_encoding *encoding_named(const char *name)
{
    const tern_encoding *e = tern_encoding_by_name(name);
    assert_non_null(e);
    return e;
}
