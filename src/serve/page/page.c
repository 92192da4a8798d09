/* The page at `/`: a chat with the models of this server. */
#include "serve/page/page.h"

#include <string.h>

#include "base/show.h"
#include "serve/http/route.h"

static tern_status send_file(tern_exchange *x, tern_error *err)
{
    for (const tern_page_file *f = tern_page_files; f->path; f++) {
        if (strcmp(f->path, x->path) != 0) continue;
        tern_exchange_send_text(x, 200, f->type, (const char *)f->bytes, f->n);
        return TERN_OK;
    }
    return tern_fail(err, TERN_NOT_FOUND, "GET %s: no such file of the page", tern_show_z(x->path).text);
}

/* The page needs no key: it asks the person for one, and sends it with what it asks. */
#define FILE_AT(at)                                                                                                    \
    {                                                                                                                  \
        "GET", at, &tern_protocol_native, .reply = send_file, .open = true                                             \
    }
const tern_route tern_routes_page[] = {
    FILE_AT("/"), FILE_AT("/style.css"), FILE_AT("/icon.svg"), FILE_AT("/js/**"), {0}};
