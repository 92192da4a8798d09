/* The gradients of linear layers. */
#include "backend/cpu/exec.h"

typedef void (*exec_fn)(tern_cpu_step *, const tern_cpu_op *);

exec_fn tern_cpu__gradient_exec(tern_op_kind kind)
{
    switch (kind) {
    default: return NULL;
    }
}
