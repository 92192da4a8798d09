/* The mark of this build: the note of the ELF object that this function lies in. */
#include "base/build.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#if defined(__ELF__) && !defined(__EMSCRIPTEN__)
#include <link.h>
#endif

enum { MARK_BYTES = 64 };

#if defined(__ELF__) && !defined(__EMSCRIPTEN__)
typedef struct search {
    uintptr_t inside; /* an address in the object that is looked for */
    char *out;
} search;

static uint32_t aligned(uint32_t n)
{
    return (n + 3) / 4 * 4;
}

static void print_mark(const uint8_t *bytes, uint32_t n, char *out)
{
    for (uint32_t i = 0; i < n && 2 * i + 2 < MARK_BYTES; i++) snprintf(out + (size_t)2 * i, 3, "%02x", bytes[i]);
}

static void read_notes(const uint8_t *notes, size_t n, char *out)
{
    size_t at = 0;
    while (at + 12 <= n) {
        uint32_t head[3]; /* bytes of the name, bytes of the value, kind */
        memcpy(head, notes + at, sizeof head);
        const size_t value = at + 12 + aligned(head[0]);
        if (value > n || head[1] > n - value) return;
        if (head[2] == 3 && head[0] == 4 && memcmp(notes + at + 12, "GNU", 4) == 0)
            print_mark(notes + value, head[1], out);
        at = value + aligned(head[1]);
    }
}

static int visit(struct dl_phdr_info *info, size_t bytes, void *context)
{
    search *s = context;
    bool found = false;
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        found |= info->dlpi_phdr[i].p_type == PT_LOAD && s->inside >= start &&
                 s->inside - start < info->dlpi_phdr[i].p_memsz;
    }
    for (int i = 0; i < info->dlpi_phnum && found; i++)
        if (info->dlpi_phdr[i].p_type == PT_NOTE)
            read_notes(
                (const uint8_t *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr), /* NOLINT(performance-no-int-to-ptr) */
                info->dlpi_phdr[i].p_memsz, s->out);
    return found;
}

static void find_mark(char *out)
{
    search s = {.inside = (uintptr_t)&find_mark, .out = out};
    dl_iterate_phdr(visit, &s);
}
#else
static void find_mark(char *out)
{
    (void)out;
}
#endif

static const char compiler[] =
#if defined(__clang__)
    "clang " __clang_version__;
#else
    "gcc " __VERSION__;
#endif

void tern_build_name(char *out, uint32_t out_bytes)
{
    char mark[MARK_BYTES] = "";
    find_mark(mark);
    snprintf(out, out_bytes, "%s, %s%s%s", TERN_VERSION, compiler, *mark ? ", " : "", mark);
}
