/* Copies of a weight as one candidate wants it: what a measurement multiplies with in turn. */
#ifndef TERN_BACKEND_CPU_TUNE_PARTS_H
#define TERN_BACKEND_CPU_TUNE_PARTS_H

#include "backend/cpu/candidates.h"
#include "backend/cpu/tune.h"

typedef struct tern_tune__way {
    char kernel[TERN_KERNEL_NAME_BYTES];
    tern_buffer **copies; /* [n_copies]; after an error the last ones may be NULL */
    size_t n_copies, next;
    uint64_t bytes;       /* that one product reads */
    tern_weight *weights; /* dot: one for each copy, with bytes of its own */
    uint8_t *packed;
} tern_tune__way;

/* n 0: the candidate's own number. Errors: UNSUPPORTED, INVALID_ARGUMENT (the candidate does not serve this weight so),
 * OUT_OF_MEMORY, those of the candidate. Close it also after an error. */
tern_status tern_tune__way_open(tern_tune__way *way, tern_cpu *cpu, const tern_weight *w,
                                const tern_cpu__candidate *candidate, uint32_t n, uint64_t cold_bytes, tern_error *err);
void tern_tune__way_close(tern_tune__way *way, tern_cpu *cpu);

#endif
