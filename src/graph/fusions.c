/* Lists of passes of fusion. */
#include "graph/fusions.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/nearest.h"
#include "base/show.h"

static const char *name_at(const void *context, size_t i)
{
    tern_fusion_pass pass;
    (void)context;
    return tern_graph_fusion_at((uint32_t)i, &pass) ? pass.name : NULL;
}

static tern_status fail_unknown(const char *name, size_t n, tern_error *err)
{
    char word[32], all[320] = "";
    const tern_shown shown = tern_show((tern_span){(const uint8_t *)name, n});
    snprintf(word, sizeof word, "%.*s", n < sizeof word ? (int)n : (int)sizeof word - 1, name);
    const char *nearest = tern_nearest(word, name_at, NULL);
    if (nearest)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "fusion \"%s\" is unknown: did you mean \"%s\"?", shown.text,
                         nearest);
    for (size_t i = 0, at = 0; name_at(NULL, i) && at < sizeof all; i++)
        at += (size_t)snprintf(all + at, sizeof all - at, ", %s", name_at(NULL, i));
    return tern_fail(err, TERN_INVALID_ARGUMENT, "fusion \"%s\": all%s expected, with commas between", shown.text, all);
}

static tern_status add(const char *name, size_t n, uint32_t *mask, tern_error *err)
{
    if (n == 3 && memcmp(name, "all", 3) == 0) {
        *mask = UINT32_MAX;
        return TERN_OK;
    }
    for (size_t i = 0; name_at(NULL, i); i++)
        if (strlen(name_at(NULL, i)) == n && memcmp(name_at(NULL, i), name, n) == 0) {
            *mask |= (uint32_t)1 << i;
            return TERN_OK;
        }
    return fail_unknown(name, n, err);
}

tern_status tern_graph_fusions_parse(const char *list, uint32_t *mask, tern_error *err)
{
    *mask = 0;
    for (const char *at = list; at && *at;) {
        const size_t n = strcspn(at, ",");
        TERN_TRY(add(at, n, mask, err));
        at += n;
        if (*at && !*++at) return fail_unknown(at, 0, err);
    }
    return TERN_OK;
}
