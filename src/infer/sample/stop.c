/* Stop strings across the boundaries of tokens. */
#include "infer/sample/stop.h"

#include <string.h>

#include "base/bytes.h"

enum { ORDINARY_PIECE = 512 };

tern_status tern_stop_filter_init(tern_stop_filter *f, const char *const *stops, uint32_t n_stops, tern_error *err)
{
    static const char blank[64];
    *f = (tern_stop_filter){.stops = stops, .n_stops = n_stops};
    size_t longest = 0;
    for (uint32_t i = 0; i < n_stops; i++)
        if (strlen(stops[i]) > longest) longest = strlen(stops[i]);
    tern_status status = TERN_OK;
    while (f->text.size < longest + ORDINARY_PIECE && status == TERN_OK)
        status = tern_buf_add(&f->text, blank, sizeof blank, err);
    f->text.size = 0;
    if (status != TERN_OK) tern_stop_filter_deinit(f);
    return status;
}

void tern_stop_filter_deinit(tern_stop_filter *f)
{
    tern_buf_deinit(&f->text);
}

void tern_stop_filter_advance(tern_stop_filter *f)
{
    f->text.size -= f->n_shown;
    memmove(f->text.data, f->text.data + f->n_shown, f->text.size);
    f->n_shown = 0;
}

/* The length of the longest stop string that ends at text + end, which is f->met then; 0 when none does. */
static size_t longest_at(tern_stop_filter *f, size_t end)
{
    size_t longest = 0;
    for (uint32_t i = 0; i < f->n_stops; i++) {
        size_t n = strlen(f->stops[i]);
        if (n <= longest || n > end || memcmp(f->text.data + end - n, f->stops[i], n) != 0) continue;
        longest = n;
        f->met = f->stops[i];
    }
    return longest;
}

static bool may_begin(const tern_stop_filter *f, const char *tail, size_t n)
{
    for (uint32_t i = 0; i < f->n_stops; i++)
        if (strlen(f->stops[i]) > n && memcmp(f->stops[i], tail, n) == 0) return true;
    return false;
}

bool tern_stop_filter_scan(tern_stop_filter *f)
{
    for (size_t end = 1; f->n_stops && end <= f->text.size; end++) {
        size_t n = longest_at(f, end);
        if (n == 0) continue;
        f->n_shown = end - n;
        f->text.size = f->n_shown;
        return true;
    }
    for (f->n_shown = 0; f->n_shown < f->text.size; f->n_shown++)
        if (may_begin(f, f->text.data + f->n_shown, f->text.size - f->n_shown)) break;
    return false;
}

void tern_stop_filter_release(tern_stop_filter *f)
{
    f->n_shown = f->text.size;
}
