/* Untrusted bytes made fit for an error message. */
#include "base/show.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

tern_shown tern_show(tern_span bytes)
{
    enum { ELLIPSIS = 3, LONGEST = 4 };
    tern_shown shown;
    size_t at = 0;
    for (size_t i = 0; i < bytes.size; i++) {
        if (at + LONGEST + ELLIPSIS >= sizeof shown.text) {
            memcpy(shown.text + at, "...", ELLIPSIS);
            at += ELLIPSIS;
            break;
        }
        uint8_t b = bytes.data[i];
        if (b == '\\') at += (size_t)snprintf(shown.text + at, LONGEST + 1, "\\\\");
        else if (b >= 0x20 && b < 0x7f) shown.text[at++] = (char)b;
        else at += (size_t)snprintf(shown.text + at, LONGEST + 1, "\\x%02x", b);
    }
    shown.text[at] = 0;
    return shown;
}

tern_shown tern_show_z(const char *s)
{
    return tern_show((tern_span){(const uint8_t *)s, strlen(s)});
}
