/* Names of ops. */
#include "ops/op.h"

const char *tern_op_name(tern_op_kind kind)
{
    static const char *const names[] = {
#define TERN_OP_WORD(name, word) word,
        TERN_OP_LIST(TERN_OP_WORD)
#undef TERN_OP_WORD
    };
    return kind < TERN_OP_COUNT ? names[kind] : "unknown";
}
