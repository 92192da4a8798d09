/* Which kernel multiplies ternary weights of one shape, as `tern tune` has measured it. */
#ifndef TERN_BACKEND_KERNEL_CHOICE_H
#define TERN_BACKEND_KERNEL_CHOICE_H

#include "quant/encoding.h"

enum { TERN_KERNEL_NAME_BYTES = 16, TERN_KERNEL_MAX_TASK_ROWS = 1024 };

/* With a few tokens at a time, on so many threads. Any choice gives the same numbers. */
typedef struct tern_kernel_choice {
    const tern_encoding *encoding;
    uint32_t rows, cols, n_threads;
    char kernel[TERN_KERNEL_NAME_BYTES]; /* as --kernel has it: "dot", "rsr:6" */
    uint32_t task_rows; /* rows that a thread takes at a time, at most TERN_KERNEL_MAX_TASK_ROWS; 0: by their bytes */
} tern_kernel_choice;

#endif
