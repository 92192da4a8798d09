/* Limits of a completion that its lines set, for editors: indentation, and time. */
#include "serve/server.h"

static bool is_late(const tern_answer *a)
{
    const uint32_t ms = a->request.lines.ms;
    return ms && a->first_token > 0 && (tern_serve_seconds() - a->first_token) * 1e3 > ms;
}

/* Whether the text ends before this byte. */
static bool ends_before(const tern_answer *a, tern_line *line, char byte)
{
    if (!line->in_indent) return false;
    if (byte == ' ' || byte == '\t') {
        line->n_indent++;
        return false;
    }
    line->in_indent = false;
    return line->n_indent < a->request.lines.indent;
}

size_t tern_lines_take(const tern_answer *a, tern_completion *c, const char *text, size_t n)
{
    tern_line *line = &c->line;
    if (!a->request.lines.indent && !a->request.lines.ms) return n;
    for (size_t i = 0; i < n; i++) {
        if (line->ended) return i;
        line->ended = ends_before(a, line, text[i]);
        if (line->ended) return i;
        if (text[i] != '\n') continue;
        *line = (tern_line){.in_indent = true, .ended = is_late(a)};
    }
    return n;
}
