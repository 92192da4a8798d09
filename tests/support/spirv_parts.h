/* Shared by spirv*.c. */
#ifndef TERN_TESTS_SUPPORT_SPIRV_PARTS_H
#define TERN_TESTS_SUPPORT_SPIRV_PARTS_H

#include "support/spirv.h"

enum {
    SPIRV_MAX_MEMBERS = 48,
    SPIRV_MAX_CALLS = 24,
    SPIRV_MAX_BUILT_INS = 16,
    SPIRV_OWN = 0,
    SPIRV_WORKGROUP = 1,
    SPIRV_FIRST_BINDING = 2
};

/* Opcodes. */
/* clang-format off */
enum {
    OP_EXT_INST = 12, OP_ENTRY_POINT = 15, OP_EXECUTION_MODE = 16, OP_TYPE_VOID = 19, OP_TYPE_BOOL = 20,
    OP_TYPE_INT = 21, OP_TYPE_FLOAT = 22, OP_TYPE_VECTOR = 23, OP_TYPE_MATRIX = 24, OP_TYPE_ARRAY = 28,
    OP_TYPE_RUNTIME_ARRAY = 29, OP_TYPE_STRUCT = 30, OP_TYPE_POINTER = 32, OP_TYPE_FUNCTION = 33, OP_TRUE = 41,
    OP_FALSE = 42, OP_CONSTANT = 43, OP_CONSTANT_COMPOSITE = 44, OP_CONSTANT_NULL = 46, OP_FUNCTION = 54,
    OP_FUNCTION_PARAMETER = 55, OP_FUNCTION_END = 56, OP_CALL = 57, OP_VARIABLE = 59, OP_LOAD = 61, OP_STORE = 62,
    OP_ACCESS_CHAIN = 65, OP_ARRAY_LENGTH = 68, OP_DECORATE = 71, OP_MEMBER_DECORATE = 72, OP_EXTRACT_DYNAMIC = 77,
    OP_SHUFFLE = 79, OP_CONSTRUCT = 80, OP_EXTRACT = 81, OP_INSERT = 82, OP_COPY = 83, OP_CONTROL_BARRIER = 224,
    OP_MEMORY_BARRIER = 225, OP_ATOMIC_LOAD = 227, OP_ATOMIC_STORE = 228, OP_ATOMIC_LAST = 242, OP_LOOP_MERGE = 246,
    OP_SELECTION_MERGE = 247, OP_LABEL = 248, OP_BRANCH = 249, OP_BRANCH_CONDITIONAL = 250, OP_SWITCH = 251,
    OP_RETURN = 253, OP_RETURN_VALUE = 254, OP_GROUP_FIRST = 333, OP_GROUP_LAST = 366,
    OP_TYPE_COOPERATIVE = 4456, OP_COOPERATIVE_LOAD = 4457, OP_COOPERATIVE_STORE = 4458, OP_COOPERATIVE_MULTIPLY = 4459
};
/* clang-format on */

typedef struct spirv_type {
    uint32_t op, component,
        count;              /* of vectors, matrices (columns) and arrays; of pointers: pointee and storage class */
    uint32_t words;         /* of a value; 2 of a pointer: memory and byte offset */
    uint32_t columns;       /* of cooperative matrices */
    uint32_t bytes, stride; /* in memory */
    const uint32_t *members;
    uint32_t offsets[SPIRV_MAX_MEMBERS];
} spirv_type;

/* What an id stands for: a type, a label, or a value and where it lies among an invocation's words. */
typedef struct spirv_id {
    spirv_type *type;                                /* of a type id: itself; of a value: its type */
    uint32_t at;                                     /* of a variable the words behind its pointer */
    uint32_t label;                                  /* of a label and of a function: the word behind it */
    uint32_t storage;                                /* of a variable, else ~0 */
    uint32_t built_in, binding, value, array_stride; /* decorations (~0: none); of a constant its word */
    bool is_type, coherent;
} spirv_id;

/* Where the words of a value lie among an invocation's, and how many they are: apart from the rest of an id, as every
 * operand of every instruction is looked up here. */
typedef struct spirv_place {
    uint32_t first, words;
} spirv_place;

struct spirv_module {
    const uint32_t *words;
    size_t n;
    uint32_t bound, size[3], entry, n_words, workgroup_bytes;
    spirv_id *ids;
    spirv_place *places; /* by id */
    bool coherent[SPIRV_MAX_BINDINGS];
    uint32_t built_ins[SPIRV_MAX_BUILT_INS], n_built_ins; /* variables */
    uint32_t *initial; /* [n_words] what an invocation starts with: constants and pointers */
};

typedef enum spirv_state { SPIRV_RUNS, SPIRV_AT_BARRIER, SPIRV_AT_SUBGROUP, SPIRV_DONE } spirv_state;

typedef struct spirv_invocation {
    uint32_t *env;
    uint32_t pc, index, depth, calls[SPIRV_MAX_CALLS];
    spirv_state state;
    bool worked; /* touched a binding besides the parameters */
    uint64_t instructions;
} spirv_invocation;

typedef struct spirv_machine {
    const spirv_dispatch *d;
    const spirv_module *m;
    uint32_t group[3], n_invocations;
    spirv_invocation *invocations;
    spirv_memory workgroup;
    uint32_t time, dispatch_time, group_time, workgroup_time, storage_time; /* when the present one of each began */
    bool saw_atomic, acquired;
    uint64_t instructions, group_began;
    bool failed;
} spirv_machine;

/* Notes what is wrong, the first time. */
void spirv_fail(spirv_machine *machine, const spirv_invocation *v, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
extern char spirv_message[512];

/* The value of an id. */
static inline uint32_t *spirv_value(const spirv_machine *machine, const spirv_invocation *v, uint32_t id)
{
    return v->env + machine->m->places[id].first;
}

static inline uint32_t spirv_words(const spirv_machine *machine, uint32_t id)
{
    return machine->m->places[id].words;
}

/* The word at a pointer, checked; NULL after a failure. */
uint32_t *spirv_at(spirv_machine *machine, spirv_invocation *v, const uint32_t pointer[2], uint32_t offset, bool write,
                   bool atomic);
/* Moves one scalar from or to a word. */
void spirv_move(spirv_machine *machine, spirv_invocation *v, const spirv_type *scalar, const uint32_t pointer[2],
                uint32_t offset, bool write, uint32_t *value);
void spirv_load(spirv_machine *machine, spirv_invocation *v, const spirv_type *type, const uint32_t pointer[2],
                uint32_t *out);
void spirv_store(spirv_machine *machine, spirv_invocation *v, const spirv_type *type, const uint32_t pointer[2],
                 const uint32_t *value);
void spirv_access_chain(spirv_machine *machine, spirv_invocation *v, const uint32_t *i, uint32_t n);
void spirv_atomic(spirv_machine *machine, spirv_invocation *v, const uint32_t *i);
void spirv_array_length(spirv_machine *machine, spirv_invocation *v, const uint32_t *i);

/* An instruction that computes a value of others; false when it is not known. */
bool spirv_compute(spirv_machine *machine, spirv_invocation *v, const uint32_t *i, uint32_t n);
bool spirv_extended(spirv_machine *machine, spirv_invocation *v, const uint32_t *i);
/* A subgroup operation of n invocations, which all wait at it. */
void spirv_subgroup(spirv_machine *machine, spirv_invocation *lanes, uint32_t n, const uint32_t *i);
/* Loads, stores and products of cooperative matrices, likewise. */
void spirv_cooperative(spirv_machine *machine, spirv_invocation *lanes, uint32_t n, const uint32_t *i);

#endif
