/* Files that are mapped into memory: a list that a signal handler can read, and the handler. */
#include "base/mapped.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

typedef struct mapped {
    struct mapped *_Atomic next;
    uintptr_t start;
    size_t n;
    char path[];
} mapped;

/* Writers hold the mutex. Handlers read the list without it: a node is freed only while none of them does. */
static mapped *_Atomic files;
static atomic_uint n_readers;
static pthread_mutex_t writers = PTHREAD_MUTEX_INITIALIZER;

tern_status tern_mapped_add(const void *start, size_t n, const char *path, tern_error *err)
{
    const size_t bytes = strlen(path) + 1;
    mapped *file = tern_alloc(sizeof *file + bytes);
    if (!file) return tern_fail_alloc(err, sizeof *file + bytes);
    *file = (mapped){.start = (uintptr_t)start, .n = n};
    memcpy(file->path, path, bytes);
    pthread_mutex_lock(&writers);
    atomic_store(&file->next, atomic_load(&files));
    atomic_store(&files, file);
    pthread_mutex_unlock(&writers);
    return TERN_OK;
}

void tern_mapped_remove(const void *start)
{
    pthread_mutex_lock(&writers);
    mapped *_Atomic *link = &files;
    mapped *file = atomic_load(link);
    while (file && file->start != (uintptr_t)start) {
        link = &file->next;
        file = atomic_load(link);
    }
    if (file) atomic_store(link, atomic_load(&file->next));
    pthread_mutex_unlock(&writers);
    while (file && atomic_load(&n_readers)) /* one that is about to end the process, or to call the next handler */
        ;
    tern_free(file);
}

#if defined(__EMSCRIPTEN__)

/* Files are read, not mapped, and there are no signals. */
tern_status tern_mapped_report(tern_error *err)
{
    (void)err;
    return TERN_OK;
}

#else

static struct sigaction earlier;

/* ---- what a handler may call: stat, write and _exit alone */

typedef struct line {
    char text[1024];
    size_t n;
} line;

/* Control characters, which a name may have, become '?'. */
static void add(line *l, const char *text)
{
    for (; *text && l->n < sizeof l->text; text++) {
        const unsigned char c = (unsigned char)*text;
        l->text[l->n++] = c < 0x20 || c == 0x7f ? '?' : *text;
    }
}

static void add_number(line *l, uint64_t v)
{
    char digits[24];
    size_t at = sizeof digits;
    digits[--at] = 0;
    do digits[--at] = (char)('0' + v % 10);
    while (v /= 10);
    add(l, digits + at);
}

static void report(const mapped *file, uintptr_t at)
{
    struct stat st;
    line l = {.n = 0};
    add(&l, "tern: error: ");
    add(&l, file->path);
    if (stat(file->path, &st) == 0 && st.st_size >= 0 && (uint64_t)st.st_size < file->n) {
        add(&l, " was cut short while it was in use: ");
        add_number(&l, (uint64_t)st.st_size);
        add(&l, " bytes found, ");
        add_number(&l, file->n);
        add(&l, " expected");
    } else {
        add(&l, " was cut short while it was in use, or its disk has failed: byte ");
        add_number(&l, at - file->start);
        add(&l, " of ");
        add_number(&l, file->n);
        add(&l, " cannot be read");
    }
    if (l.n == sizeof l.text) l.n--;
    l.text[l.n++] = '\n';
    if (write(STDERR_FILENO, l.text, l.n) < 0) _exit(1);
    _exit(1);
}

/* As if this handler were not there; without an earlier one the fault is met again, and ends the process. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    if (earlier.sa_flags & SA_SIGINFO) {
        earlier.sa_sigaction(number, info, context);
    } else if (earlier.sa_handler != SIG_DFL && earlier.sa_handler != SIG_IGN) {
        earlier.sa_handler(number);
    } else {
        signal(number, SIG_DFL);
        if (info->si_code <= 0) raise(number); /* sent by a process */
    }
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    const int kept = errno;
    const uintptr_t at = (uintptr_t)info->si_addr;
    atomic_fetch_add(&n_readers, 1);
    for (const mapped *file = atomic_load(&files); file && info->si_code > 0; file = atomic_load(&file->next))
        if (at >= file->start && at - file->start < file->n) report(file, at);
    atomic_fetch_sub(&n_readers, 1);
    pass_on(number, info, context);
    errno = kept;
}

static bool installed;

static tern_status install(tern_error *err)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    if (installed) return TERN_OK;
    if (sigaction(SIGBUS, NULL, &earlier) != 0 || sigaction(SIGBUS, &action, NULL) != 0)
        return tern_fail(err, TERN_IO, "no handler of SIGBUS: %s", strerror(errno));
    installed = true;
    return TERN_OK;
}

tern_status tern_mapped_report(tern_error *err)
{
    pthread_mutex_lock(&writers);
    const tern_status status = install(err);
    pthread_mutex_unlock(&writers);
    return status;
}

#endif
