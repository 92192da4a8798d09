/* The head of a request: whether its length and its host have one meaning. */
#include "serve/http/head.h"

#include <string.h>
#include <strings.h>

typedef struct head {
    unsigned n_lengths, n_hosts, n_codings;
    const char *problem;
} head;

static bool is_token(const char *name, size_t n)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < n; i++) {
        const char c = name[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == 0 || !strchr(marks, c))) return false;
    }
    return n > 0;
}

static bool is_number(const char *value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (value[i] < '0' || value[i] > '9') return false;
    return n > 0;
}

static bool is(const char *text, size_t n, const char *word)
{
    return n == strlen(word) && strncasecmp(text, word, n) == 0;
}

static bool begins(const char *text, size_t n, const char *word)
{
    return n >= strlen(word) && strncasecmp(text, word, strlen(word)) == 0;
}

/* libmicrohttpd 0.9.75 joins a value that begins on the next line to the name: "Content-Length55" and no value. */
static bool is_folded(const char *name, size_t n, size_t n_value)
{
    return n_value == 0 &&
           (begins(name, n, "Content-Length") || begins(name, n, "Transfer-Encoding") || begins(name, n, "Host"));
}

static enum MHD_Result look(void *context, enum MHD_ValueKind kind, const char *name, size_t n, const char *value,
                            size_t n_value)
{
    head *h = context;
    (void)kind;
    if (!value) value = "";
    if (!is_token(name, n)) h->problem = "a header's name: letters, digits and marks expected, with no blank";
    if (is_folded(name, n, n_value) || memchr(value, '\n', n_value) || memchr(value, '\r', n_value))
        h->problem = "a header over several lines: one line expected";
    if (is(name, n, "Host")) h->n_hosts++;
    if (is(name, n, "Content-Length")) {
        h->n_lengths++;
        if (!is_number(value, n_value)) h->problem = "Content-Length: digits expected";
    } else if (is(name, n, "Transfer-Encoding")) {
        h->n_codings++;
        if (!is(value, n_value, "chunked")) h->problem = "Transfer-Encoding: chunked expected";
    }
    return MHD_YES;
}

const char *tern_head_problem(struct MHD_Connection *connection, const char *version)
{
    head h = {0};
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, look, &h);
    if (h.problem) return h.problem;
    if (h.n_lengths + h.n_codings > 1) return "the body's length is given twice: one Content-Length expected";
    if (h.n_hosts > 1) return "two Hosts found, one expected";
    if (h.n_hosts == 0 && strcmp(version, "HTTP/1.0") != 0) return "no Host found, one expected";
    return NULL;
}
