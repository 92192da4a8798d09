/* Which kernel multiplies weights of one shape, as `tern tune` has measured it. */
#ifndef TERN_BACKEND_KERNEL_CHOICE_H
#define TERN_BACKEND_KERNEL_CHOICE_H

#include <stdint.h>

typedef struct tern_encoding tern_encoding; /* quant/encoding.h */

enum { TERN_KERNEL_NAME_BYTES = 48, TERN_KERNEL_DEVICE_BYTES = 256, TERN_KERNEL_MAX_TASK_ROWS = 1024 };

/* On the CPU: of ternary weights, with a few tokens at a time, on so many threads; any choice gives the same numbers.
 * On a GPU: of any weights, with up to so many tokens; any choice keeps to the same budget. */
typedef struct tern_kernel_choice {
    const tern_encoding *encoding;
    uint32_t rows, cols, n_threads;      /* n_threads 0: a GPU's */
    char kernel[TERN_KERNEL_NAME_BYTES]; /* as --kernel has it: "dot", "rsr:6" */
    uint32_t task_rows; /* rows that a thread takes at a time, at most TERN_KERNEL_MAX_TASK_ROWS; 0: by their bytes */
    uint32_t tokens;    /* of a GPU: 1, 8, 64, or 512 for any more; else 0 */
    char device[TERN_KERNEL_DEVICE_BYTES]; /* "NVIDIA H200, NVIDIA 570.124.06": device and driver; "": the CPU */
} tern_kernel_choice;

#endif
