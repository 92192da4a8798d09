/* What every fuzzer shares: its entry point, and a check that stays on in release builds. */
#ifndef TERN_TESTS_FUZZ_H
#define TERN_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program when a property of the parser does not hold. */
#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) abort();                                                                                     \
    } while (0)

#endif
