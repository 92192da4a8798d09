/* Which function runs an op of training. */
#include "backend/cpu/exec.h"

typedef void (*exec_fn)(tern_cpu_step *, const tern_cpu_op *);

exec_fn tern_cpu__training_exec(tern_op_kind kind)
{
    exec_fn fn = tern_cpu__gradient_exec(kind);
    if (!fn) fn = tern_cpu__backward_exec(kind);
    return fn ? fn : tern_cpu__update_exec(kind);
}
