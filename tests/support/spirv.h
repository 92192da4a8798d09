/* SPIR-V run by the CPU, one instruction after the other: a GPU of any subgroup size, that no driver optimises, and
 * that notices what real ones let pass. It stops with a message at
 *   - an access outside of a binding or an array, a write to a binding that is only read,
 *   - a race: two invocations at one word, one of them writing, without a barrier between (in workgroup memory or in a
 *     binding), or two workgroups of one dispatch, unless the later one has gone through an atomic operation and a
 *     storage barrier, and the binding is coherent,
 *   - barriers and subgroup operations that not all of their invocations reach,
 *   - a loop without an end.
 * Workgroup memory begins as NaN, a shuffle from a lane that is not there gives NaN, a divisor beyond 2^126 is infinite
 * and one below 2^-126 is 0: whoever relies on them gets a wrong result. It knows the instructions that naga makes of
 * Tern's kernels, and says so when it meets another. */
#ifndef TERN_TESTS_SUPPORT_SPIRV_H
#define TERN_TESTS_SUPPORT_SPIRV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct spirv_module spirv_module;

/* Who was last at a word, for finding races. Times are the machine's; 0 is never. */
typedef struct spirv_trace {
    uint32_t write_time, writer, read_time, reader;
} spirv_trace;

/* Memory that dispatches can be given. */
typedef struct spirv_memory {
    uint32_t *words;
    spirv_trace *traces; /* one for each word */
    uint64_t bytes;
} spirv_memory;

typedef struct spirv_binding {
    spirv_memory *memory;
    uint64_t offset, bytes;
    bool written; /* otherwise only read */
} spirv_binding;

enum { SPIRV_MAX_BINDINGS = 10 };

typedef struct spirv_dispatch {
    const spirv_module *module;
    uint32_t subgroup_size, groups[3];
    bool fences; /* storage barriers order storage for other workgroups too: tern_gpu_caps */
    spirv_binding bindings[SPIRV_MAX_BINDINGS]; /* by number; memory NULL: none */
} spirv_dispatch;

/* A module of n words, which must outlive it; NULL, with a message, when it is not understood. */
spirv_module *spirv_open(const uint32_t *words, size_t n, const char **error);
void spirv_close(spirv_module *module);

/* What the runs of a dispatch amounted to, in instructions: all; those of workgroups that touched a binding besides the
 * parameters; and as many as these could have run while their busiest invocation did. Barriers: the most that one
 * workgroup has met (workgroupUniformLoad is two). */
typedef struct spirv_figures {
    uint64_t instructions, done, possible, barriers;
} spirv_figures;

/* Runs all workgroups, one after the other, from the last to the first when `backwards`. NULL, or what is wrong (static
 * storage). */
const char *spirv_run(const spirv_dispatch *dispatch, bool backwards, spirv_figures *figures);

/* Set: floats are as bad as Vulkan lets them be. Subnormal numbers are 0 as operands and as results of sums and
 * products, quotients and inverse square roots are up to 2 units in the last place off, square roots
 * up to 4. */
extern bool spirv_sloppy;

#endif
