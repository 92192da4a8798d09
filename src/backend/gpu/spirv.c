/* The pipelines' SPIR-V: one file that the assembler reads, and a table of what lies in it. CMake says which files
 * (TERN_SPIRV_PACK, TERN_SPIRV_INDEX) and that this one depends on them; tools/wgsl/lib/pack.mjs has the format. */
#include "backend/gpu/spirv.h"

#include <stddef.h>
#include <string.h>

#include "backend/gpu/generated/kernels.h"
#include "base/alloc.h"

/* A symbol of this file alone: the assembler resolves it, the linker never sees it. */
extern const uint8_t pack[] __asm__(".Lspirv_pack") __attribute__((visibility("hidden")));
__asm__(".pushsection .rodata\n.Lspirv_pack:\n.incbin \"" TERN_SPIRV_PACK "\"\n.popsection\n");

/* Where each packed module lies. */
struct layout {
#define X(name, reference, n_words, n_bytes, sum) uint8_t name[n_bytes];
#include TERN_SPIRV_INDEX
#undef X
};

static const struct {
    uint32_t at, n_words, sum;
    tern_gpu_pipeline reference; /* the module that this one repeats parts of; its own: none */
} modules[TERN_GPU_PIPELINE_COUNT] = {
#define X(name, reference, n_words, n_bytes, sum)                                                                      \
    [TERN_GPU_##name] = {offsetof(struct layout, name), n_words, sum, TERN_GPU_##reference},
#include TERN_SPIRV_INDEX
#undef X
};

enum { HEADER_WORDS = 5, OP_FUNCTION = 54 };
static const uint32_t own = 1u << 31; /* marks an id that a function declares: its place in that function */

static uint32_t number(const uint8_t **at)
{
    uint32_t n = 0;
    for (unsigned shift = 0;; shift += 7) {
        const uint8_t byte = *(*at)++;
        n |= (uint32_t)(byte & 127) << shift;
        if (byte < 128) return n;
    }
}

/* Unpacks a module behind its references: those first, from words[0] on. Returns the end; *first is the lowest id of
 * functions. */
static size_t expand(tern_gpu_pipeline which, uint32_t *words, uint32_t *first)
{
    const tern_gpu_pipeline reference = modules[which].reference;
    size_t at = reference == which ? 0 : expand(reference, words, first);
    const size_t end = at + modules[which].n_words;
    const uint8_t *packed = pack + modules[which].at;
    *first = number(&packed);
    while (at < end) {
        for (uint32_t n = number(&packed); n > 0; n--) {
            const uint32_t turned = number(&packed);
            words[at++] = turned >> 1 | turned << 31;
        }
        if (at == end) break;
        const uint32_t n = number(&packed), distance = number(&packed);
        for (const size_t stop = at + n; at < stop; at++) words[at] = words[at - distance];
    }
    return end;
}

/* Makes ids of the places in functions: each function's begin where those of the one before it end. */
static void number_functions(uint32_t *words, size_t n, uint32_t first)
{
    uint32_t start = first, next = first;
    bool inside = false;
    for (size_t i = HEADER_WORDS; i < n; i += words[i] >> 16) {
        if ((words[i] & 0xffff) == OP_FUNCTION) start = next, inside = true;
        for (size_t k = i + 1; inside && k < i + (words[i] >> 16); k++) {
            if (words[k] < own) continue;
            words[k] = start + (words[k] - own);
            if (words[k] >= next) next = words[k] + 1;
        }
    }
}

/* FNV-1a over words. */
static uint32_t sum_of(const uint32_t *words, size_t n)
{
    uint32_t sum = 0x811c9dc5u;
    for (size_t i = 0; i < n; i++) sum = (sum ^ words[i]) * 0x01000193u;
    return sum;
}

tern_status tern_gpu_spirv(tern_gpu_pipeline pipeline, uint32_t **words, size_t *n_words, tern_error *err)
{
    const size_t n = modules[pipeline].n_words;
    size_t total = n;
    for (tern_gpu_pipeline p = pipeline; modules[p].reference != p; p = modules[p].reference)
        total += modules[modules[p].reference].n_words;
    uint32_t *all = tern_alloc(total * sizeof *all), first = 0;
    if (!all) return tern_fail_alloc(err, total * sizeof *all);
    expand(pipeline, all, &first);
    memmove(all, all + (total - n), n * sizeof *all);
    number_functions(all, n, first);
    const uint32_t sum = sum_of(all, n);
    if (sum != modules[pipeline].sum) {
        tern_free(all);
        return tern_fail(err, TERN_INTERNAL, "kernel %s: its SPIR-V has the checksum %08x, %08x expected",
                         tern_gpu_pipelines[pipeline].name, sum, modules[pipeline].sum);
    }
    *words = all;
    *n_words = n;
    return TERN_OK;
}

const void *tern_gpu_spirv_pack(size_t *n_bytes)
{
    *n_bytes = sizeof(struct layout);
    return pack;
}
