/* Interrupts, time, text in and out. */
#include "apps/app.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/form.h"
#include "base/show.h"

/* A stream has no size that could be looked at first: it ends here, not where memory does. */
enum { MAX_STREAM_BYTES = 256 << 20, MAX_FILE_BYTES = 1 << 30 };

double tern_app_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static volatile sig_atomic_t interrupts, terms;
static const char *volatile interrupt_words;

/* The first one asks to stop. A second Ctrl-C or a second SIGTERM ends the program: at the end of a session SIGHUP and
 * SIGTERM both come, and the save that SIGHUP has begun must finish. */
static void on_interrupt(int number)
{
    const bool again = number == SIGINT ? interrupts : number == SIGTERM && terms;
    if (number == SIGTERM) terms = 1;
    if (again) {
        signal(number, SIG_DFL);
        raise(number);
    }
    const char *words = interrupts ? NULL : interrupt_words;
    interrupts = 1;
    if (words && write(STDERR_FILENO, words, strlen(words)) < 0) interrupt_words = NULL;
}

/* Under nohup it is ignored, and stays so. */
static bool is_ignored(int number)
{
    struct sigaction old;
    return sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_IGN;
}

void tern_app_say_on_interrupt(const char *words)
{
    interrupt_words = words;
}

void tern_app_catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (!is_ignored(SIGHUP)) sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

bool tern_app_interrupted(void)
{
    return interrupts != 0;
}

bool tern_app_take_interrupt(void)
{
    bool was = interrupts != 0;
    interrupts = terms = 0;
    return was;
}

tern_status tern_app_fail_interrupted(tern_error *err)
{
    return tern_fail(err, TERN_CANCELLED, "interrupted");
}

tern_status tern_app_parse_ids(const char *text, tern_tokens *ids, tern_error *err)
{
    static const char between[] = " ,;[]\t\r\n";
    for (const char *at = text + strspn(text, between); *at; at += strspn(at, between)) {
        char *end;
        errno = 0;
        long v = strtol(at, &end, 10);
        if (end == at || errno || v < 0 || v > INT32_MAX || (*end && !strchr(between, *end)))
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "token %zu of the ids is \"%.*s\": a whole number from 0 expected", ids->n,
                             (int)strcspn(at, between), at);
        TERN_TRY(tern_tokens_add(ids, (int32_t)v, err));
        at = end;
    }
    if (ids->n == 0) return tern_fail(err, TERN_INVALID_ARGUMENT, "no token ids given: numbers like 1,2,3 expected");
    return TERN_OK;
}

tern_status tern_app_parse_list(const char *flag, const char *text, uint32_t max, uint32_t *out, uint32_t cap,
                                uint32_t *n, tern_error *err)
{
    *n = 0;
    for (const char *at = text;; at++) {
        char *end;
        unsigned long v = strtoul(at, &end, 10);
        if (*at < '0' || *at > '9' || (*end && *end != ',') || v < 1 || v > max || *n == cap)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "--%s %s: %s from 1 to %u expected", flag, text,
                             cap == 1 ? "a whole number" : "whole numbers with commas between, each", max);
        out[(*n)++] = (uint32_t)v;
        at = end;
        if (*at == 0) return TERN_OK;
    }
}

static tern_status read_stream(FILE *in, tern_buf *text, tern_error *err)
{
    char piece[4096];
    size_t n;
    while ((n = fread(piece, 1, sizeof piece, in)) > 0) {
        if (text->size + n > MAX_STREAM_BYTES)
            return tern_fail(err, TERN_LIMIT, "standard input: more than %d bytes of text found, at most %d expected",
                             MAX_STREAM_BYTES, MAX_STREAM_BYTES);
        TERN_TRY(tern_buf_add(text, piece, n, err));
    }
    if (tern_app_interrupted()) return tern_app_fail_interrupted(err);
    return ferror(in) ? tern_fail(err, TERN_IO, "standard input: %s", strerror(errno)) : tern_buf_add(text, "", 0, err);
}

tern_status tern_app_read_text(const char *path, tern_buf *text, tern_error *err)
{
    TERN_TRY(strcmp(path, "-") == 0 ? read_stream(stdin, text, err) : tern_file_read(text, path, MAX_FILE_BYTES, err));
    const char *form = tern_form_of_bytes((tern_span){(const uint8_t *)text->data, text->size});
    if (!form) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s is %s%s", tern_show_z(path).text, form,
                     strchr(form, ':') ? "" : ": text expected");
}

static int output_error; /* errno of the first write that failed */

bool tern_app_write(const void *bytes, size_t n)
{
    errno = 0;
    if (output_error == 0 && fwrite(bytes, 1, n, stdout) != n) output_error = errno ? errno : EIO;
    return output_error == 0;
}

bool tern_app_on_terminal(void)
{
    return isatty(STDOUT_FILENO) && !getenv(TERN_APP_PIPED);
}

/* Bytes of the control character at p, in UTF-8; 0: it is none. */
static size_t control_at(const uint8_t *p, size_t n)
{
    if (*p == '\n' || *p == '\t') return 0;
    if (*p < 0x20 || *p == 0x7f) return 1;
    return n > 1 && *p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0 ? 2 : 0;
}

bool tern_app_write_text(const void *bytes, size_t n)
{
    const uint8_t *text = bytes;
    size_t written = 0;
    const bool terminal = tern_app_on_terminal();
    for (size_t i = 0, taken; i < n && terminal; i += taken ? taken : 1) {
        char shown[8];
        taken = control_at(text + i, n - i);
        if (taken == 0) continue;
        tern_app_write(text + written, i - written);
        tern_app_write(shown, (size_t)snprintf(shown, sizeof shown, "\\x%02x", text[i + taken - 1]));
        written = i + taken;
    }
    return tern_app_write(text + written, n - written);
}

void tern_app_say(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    const int n = vasprintf(&text, format, args);
    va_end(args);
    for (size_t i = 0, taken; n > 0 && i < (size_t)n; i += taken ? taken : 1) {
        taken = control_at((const uint8_t *)text + i, (size_t)n - i);
        if (taken) fprintf(stderr, "\\x%02x", (unsigned char)text[i + taken - 1]);
        else fputc(text[i], stderr);
    }
    if (n >= 0) free(text);
}

/* The error of an earlier write, when nothing was left to flush: EPIPE if nobody reads the pipe, else EIO. */
static int earlier_error(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && out.revents & POLLERR ? EPIPE : EIO;
}

bool tern_app_flushed(void)
{
    errno = 0;
    if (output_error == 0 && fflush(stdout) != 0) output_error = errno ? errno : EIO;
    if (output_error == 0 && ferror(stdout)) output_error = earlier_error();
    return output_error == 0;
}

/* jansson leaves the control characters from U+007F on as they are. */
static int print_piece(const char *bytes, size_t n, void *context)
{
    const uint8_t *text = (const uint8_t *)bytes;
    size_t written = 0;
    (void)context;
    for (size_t i = 0, taken; i < n; i += taken ? taken : 1) {
        char escape[8];
        taken = control_at(text + i, n - i);
        if (taken == 0) continue;
        tern_app_write(text + written, i - written);
        tern_app_write(escape, (size_t)snprintf(escape, sizeof escape, "\\u%04X", text[i + taken - 1]));
        written = i + taken;
    }
    return tern_app_write(text + written, n - written) ? 0 : -1;
}

static tern_status print_json(json_t *document, size_t how, tern_error *err)
{
    if (!document) return tern_fail(err, TERN_INTERNAL, "the result could not be made into JSON: is memory short?");
    json_dump_callback(document, print_piece, NULL, how | JSON_REAL_PRECISION(9));
    json_decref(document);
    tern_app_write("\n", 1);
    return tern_app_flush(err);
}

tern_status tern_app_print_json(json_t *document, tern_error *err)
{
    return print_json(document, JSON_INDENT(2), err);
}

tern_status tern_app_print_json_line(json_t *document, tern_error *err)
{
    return print_json(document, JSON_COMPACT, err);
}

json_t *tern_app_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_string(isnan(value) ? "nan" : "infinity");
}

json_t *tern_app_json_text(const void *bytes, size_t n)
{
    json_t *text = json_stringn(bytes, n);
    return text ? text : json_string(tern_show((tern_span){bytes, n}).text);
}

tern_status tern_app_flush(tern_error *err)
{
    if (tern_app_flushed() || output_error == EPIPE) return TERN_OK;
    return tern_fail(err, TERN_IO, "standard output: %s", strerror(output_error));
}

const char *tern_app_bytes(uint64_t bytes, char out[16])
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    double v = (double)bytes;
    size_t unit = 0;
    for (; v >= 999.5 && unit < 4; unit++) v /= 1000;
    snprintf(out, 16, "%.*f %s", unit && v < 9.995 ? 2 : unit && v < 99.95 ? 1 : 0, v, units[unit]);
    return out;
}
