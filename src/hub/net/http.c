/* One transfer by libcurl. */
#include "hub/net/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/show.h"

enum { CONNECT_SECONDS = 30, SILENT_SECONDS = 60, MAX_REDIRECTS = 10 };

typedef struct transfer {
    const tern_http_request *request;
    CURL *curl;
    tern_buf *body; /* or: */
    int fd;
    uint64_t at, end; /* of fd, or of body: what is there, and what there may be */
    uint64_t fetched, from;
    char range[64], code[64]; /* of the last answer: Content-Range, X-Error-Code */
    bool began;
    tern_status status; /* of what our functions found */
    tern_error *err;
} transfer;

static long code_of(const transfer *t)
{
    long code = 0;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    return code;
}

/* The value of a header line, without blanks at its ends; false where it is another one. */
static bool header(const char *line, size_t n, const char *name, char out[64])
{
    const size_t m = strlen(name);
    if (n <= m || strncasecmp(line, name, m) != 0 || line[m] != ':') return false;
    const char *at = line + m + 1, *end = line + n;
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    while (end > at && (unsigned char)end[-1] <= ' ') end--;
    snprintf(out, 64, "%.*s", (int)(end - at), at);
    return true;
}

static size_t on_header(char *line, size_t size, size_t count, void *context)
{
    transfer *t = context;
    const size_t n = size * count;
    if (n > 5 && strncmp(line, "HTTP/", 5) == 0) t->range[0] = t->code[0] = 0; /* another answer, after a redirect */
    if (!header(line, n, "content-range", t->range)) header(line, n, "x-error-code", t->code);
    return n;
}

/* Where the answer's bytes go: from the start where the server gives all of the file. */
static bool begin(transfer *t)
{
    t->began = true;
    if (code_of(t) == 206) {
        char *end = t->range;
        if (strncmp(t->range, "bytes ", 6) == 0 && strtoull(t->range + 6, &end, 10) == t->at && *end == '-')
            return true;
        t->status = tern_fail(t->err, TERN_MALFORMED, "the bytes from %llu asked for, \"%s\" given",
                              (unsigned long long)t->at, tern_show_z(t->range).text);
        return false;
    }
    if (t->at == 0 || t->fd < 0) return true;
    t->at = 0;
    if (ftruncate(t->fd, 0) == 0) return true;
    t->status = tern_fail(t->err, TERN_IO, "%s", strerror(errno));
    return false;
}

static bool store(transfer *t, const char *bytes, size_t n)
{
    if (n > t->end - t->at) {
        t->status = tern_fail(t->err, t->body ? TERN_LIMIT : TERN_MALFORMED, "more than the %llu bytes expected came",
                              (unsigned long long)t->end);
        return false;
    }
    if (t->body) {
        t->status = tern_buf_add(t->body, bytes, n, t->err);
        t->at += n;
        return t->status == TERN_OK;
    }
    while (n) {
        const ssize_t m = pwrite(t->fd, bytes, n, (off_t)t->at);
        if (m < 0 && errno == EINTR) continue;
        if (m <= 0) {
            t->status = tern_fail(t->err, TERN_IO, "%s", strerror(errno));
            return false;
        }
        bytes += m;
        n -= (size_t)m;
        t->at += (uint64_t)m;
    }
    return true;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *context)
{
    transfer *t = context;
    const size_t n = size * count;
    if (code_of(t) / 100 != 2) return n; /* what an error says, for people's eyes */
    if (!t->began && !begin(t)) return CURL_WRITEFUNC_ERROR;
    t->fetched += n;
    return store(t, bytes, n) ? n : CURL_WRITEFUNC_ERROR;
}

static int on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const transfer *t = context;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return t->request->progress && !t->request->progress(t->request->context, t->fetched);
}

static tern_status fail_answer(const transfer *t, long code, tern_error *err)
{
    const char *what = t->request->repository, *host = t->request->hub->endpoint;
    const bool known = t->request->hub->token != NULL;
    if (strcmp(t->code, "GatedRepo") == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s is gated (%ld): %s%s/%s%s", what, code,
                         known ? "the token's owner has no access yet; ask for it on " : "ask for access on ", host,
                         what, known ? "" : ", then give a token in HF_TOKEN");
    if (strcmp(t->code, "RevisionNotFound") == 0)
        return tern_fail(err, TERN_NOT_FOUND, "%s has no such revision (%ld)", what, code);
    if (strcmp(t->code, "EntryNotFound") == 0)
        return tern_fail(err, TERN_NOT_FOUND, "%s has no such file (%ld)", what, code);
    if (code == 401 || code == 403)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s/%s does not exist, or is private (%ld): %s", host, what, code,
                         known ? "the token of HF_TOKEN has no access to it" : "give a token in HF_TOKEN");
    if (code == 404) return tern_fail(err, TERN_NOT_FOUND, "%s/%s does not exist (404)", host, what);
    return tern_fail(err, TERN_IO, "%s: the hub answers %ld, 200 expected", what, code);
}

static bool is_passing(CURLcode result)
{
    return result == CURLE_PARTIAL_FILE || result == CURLE_RECV_ERROR || result == CURLE_SEND_ERROR ||
           result == CURLE_GOT_NOTHING || result == CURLE_OPERATION_TIMEDOUT || result == CURLE_HTTP2 ||
           result == CURLE_HTTP2_STREAM || result == CURLE_COULDNT_CONNECT;
}

static tern_status judge(const transfer *t, CURLcode result, const char *words, bool *again, tern_error *err)
{
    const long code = code_of(t);
    if (t->status != TERN_OK) return t->status;
    if (result == CURLE_ABORTED_BY_CALLBACK) return tern_fail(err, TERN_CANCELLED, "interrupted");
    if (result != CURLE_OK) {
        *again = is_passing(result);
        return tern_fail(err, TERN_IO, "%s: %s", t->request->hub->endpoint,
                         words[0] ? words : curl_easy_strerror(result));
    }
    if (code == 200 || code == 206) return TERN_OK;
    *again = code == 429 || code >= 500;
    return fail_answer(t, code, err);
}

/* Options that every transfer has. */
static void set_up(transfer *t, char *words)
{
    CURL *c = t->curl;
    const bool safe = strncmp(t->request->url, "https:", 6) == 0;
    curl_easy_setopt(c, CURLOPT_URL, t->request->url);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "tern/" TERN_VERSION);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, safe ? "https" : "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)MAX_REDIRECTS);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)SILENT_SECONDS);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, words);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
    curl_easy_setopt(c, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)0);
}

static tern_status perform(transfer *t, bool *again, tern_error *err)
{
    char words[CURL_ERROR_SIZE] = "", range[32], authorization[1100];
    struct curl_slist *headers = NULL;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    t->curl = curl_easy_init();
    if (!t->curl) return tern_fail_alloc(err, sizeof *t);
    set_up(t, words);
    if (t->from) {
        snprintf(range, sizeof range, "%llu-", (unsigned long long)t->from);
        curl_easy_setopt(t->curl, CURLOPT_RANGE, range);
    }
    if (t->request->hub->token) { /* a header of ours goes to no other host */
        snprintf(authorization, sizeof authorization, "Authorization: Bearer %s", t->request->hub->token);
        headers = curl_slist_append(NULL, authorization);
        curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, headers);
    }
    const CURLcode result = curl_easy_perform(t->curl);
    const tern_status status = judge(t, result, words, again, err);
    curl_slist_free_all(headers);
    curl_easy_cleanup(t->curl);
    return status;
}

tern_status tern_http_get(const tern_http_request *request, size_t max_bytes, tern_buf *body, tern_error *err)
{
    transfer t = {.request = request, .body = body, .fd = -1, .end = max_bytes, .err = err};
    bool again;
    return perform(&t, &again, err);
}

tern_status tern_http_fetch(const tern_http_request *request, int fd, uint64_t from, uint64_t bytes, uint64_t *at,
                            bool *again, tern_error *err)
{
    transfer t = {.request = request, .fd = fd, .at = from, .end = bytes, .from = from, .err = err};
    *again = false;
    const tern_status status = perform(&t, again, err);
    *at = t.at;
    return status;
}
