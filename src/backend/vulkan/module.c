/* The facts that a SPIR-V module states: its workgroups, which of its storage bindings it never writes, and which are
 * coherent. */
#include <string.h>

#include "backend/vulkan/device.h"
#include "base/alloc.h"

enum {
    HEADER_WORDS = 5,
    BOUND = 3,
    OP_EXECUTION_MODE = 16,
    OP_DECORATE = 71,
    LOCAL_SIZE = 17,
    COHERENT = 23,
    NON_WRITABLE = 24,
    BINDING = 33
};

static bool next(const uint32_t *words, size_t n, size_t *at)
{
    *at = *at ? *at + (words[*at] >> 16) : HEADER_WORDS;
    return *at < n && words[*at] >> 16 && *at + (words[*at] >> 16) <= n;
}

static bool is(const uint32_t *word, uint32_t op, uint32_t at_least)
{
    return (word[0] & 0xffff) == op && word[0] >> 16 >= at_least;
}

/* How ids are decorated, one byte for each. */
enum { IS_COHERENT = 1, IS_READ_ONLY = 2 };

static void find_decorated(const uint32_t *words, size_t n, uint8_t *ids)
{
    for (size_t at = 0; next(words, n, &at);) {
        if (!is(words + at, OP_DECORATE, 3) || words[at + 1] >= words[BOUND]) continue;
        if (words[at + 2] == NON_WRITABLE) ids[words[at + 1]] |= IS_READ_ONLY;
        if (words[at + 2] == COHERENT) ids[words[at + 1]] |= IS_COHERENT;
    }
}

tern_status tern_vulkan__module_of(tern_vulkan_module *module, const uint32_t *words, size_t n, tern_error *err)
{
    *module = (tern_vulkan_module){0};
    uint8_t *decorated = tern_calloc(words[BOUND], 1);
    if (!decorated) return tern_fail_alloc(err, words[BOUND]);
    find_decorated(words, n, decorated);
    for (size_t at = 0; next(words, n, &at);) {
        const uint32_t *i = words + at;
        if (is(i, OP_EXECUTION_MODE, 4) && i[2] == LOCAL_SIZE) module->local_size_x = i[3];
        if (!is(i, OP_DECORATE, 4) || i[2] != BINDING || i[3] == 0 || i[3] > TERN_VULKAN_MAX_BINDINGS ||
            i[1] >= words[BOUND])
            continue;
        if (!(decorated[i[1]] & IS_READ_ONLY)) module->writes |= 1u << (i[3] - 1);
        if (decorated[i[1]] & IS_COHERENT) module->coherent |= 1u << (i[3] - 1);
    }
    tern_free(decorated);
    return TERN_OK;
}
