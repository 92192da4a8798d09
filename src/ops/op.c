/* What can be asked of an op. */
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

bool tern_op_writes(const tern_op *op, uint32_t i)
{
    switch (op->kind) {
    case TERN_OP_ROPE:
    case TERN_OP_CROSS_ENTROPY:
    case TERN_OP_ROPE_BACKWARD: return i == 0;
    case TERN_OP_ROPE_KV: return i == 0 || i == 3 || i == 4;
    case TERN_OP_ROPE_ATTENTION: return i == 3 || i == 4;
    case TERN_OP_KV_WRITE:
    case TERN_OP_LINEAR_DW:
    case TERN_OP_EMBED_BACKWARD: return i == 2 || (op->kind == TERN_OP_KV_WRITE && i == 3);
    case TERN_OP_RMS_NORM_BACKWARD:
    case TERN_OP_GATE_BACKWARD: return i == 3;
    case TERN_OP_SAMPLE: return i >= 1;
    case TERN_OP_ATTENTION_ROWS: return i == 4;
    case TERN_OP_ATTENTION_ROWS_BACKWARD: return i >= 7;
    case TERN_OP_UPDATE: return i + 1 < op->n_in;
    case TERN_OP_REQUANTIZE: return i == 0 && op->clamp > 0;
    default: return false;
    }
}
