/* What every fuzzer shares: its entry point, and a check that stays on in release builds. */
#ifndef TERN_TESTS_FUZZ_H
#define TERN_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All fuzzers in one program, up to a NULL: the build lists them, under names of their own. */
typedef int (*fuzz_entry)(const uint8_t *data, size_t size);
typedef struct fuzz_replay {
    const char *name;
    fuzz_entry run;
} fuzz_replay;
extern const fuzz_replay fuzz_replays[];

/* Ends the program when a property of the parser does not hold. */
#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) abort();                                                                                     \
    } while (0)

#endif
