/* SHA-256 and Git's SHA-1 of files, by libmd. */
#include "hub/sum.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <sha1.h>
#include <sha2.h>

#include "base/alloc.h"

enum { CHUNK = 1 << 20 };

typedef struct summing {
    bool large;
    SHA2_CTX sha256;
    SHA1_CTX sha1;
} summing;

static void start(summing *s, uint64_t bytes, const char *like)
{
    char head[40];
    s->large = strlen(like) == TERN_HUB_SHA256_DIGITS;
    SHA256Init(&s->sha256);
    SHA1Init(&s->sha1);
    const int n = snprintf(head, sizeof head, "blob %llu", (unsigned long long)bytes);
    SHA1Update(&s->sha1, (const uint8_t *)head, (size_t)n + 1);
}

static void add(summing *s, const uint8_t *bytes, size_t n)
{
    if (s->large) SHA256Update(&s->sha256, bytes, n);
    else SHA1Update(&s->sha1, bytes, n);
}

static void finish(summing *s, char *out)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t sum[SHA256_DIGEST_LENGTH];
    const size_t n = s->large ? SHA256_DIGEST_LENGTH : SHA1_DIGEST_LENGTH;
    if (s->large) SHA256Final(sum, &s->sha256);
    else SHA1Final(sum, &s->sha1);
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = hex[sum[i] >> 4];
        out[2 * i + 1] = hex[sum[i] & 15];
    }
    out[2 * n] = 0;
}

tern_status tern_hub_sum(int fd, uint64_t bytes, const char *like, char out[TERN_HUB_SHA256_DIGITS + 1],
                         tern_hub_sum_progress *progress, void *context, tern_error *err)
{
    summing s;
    uint8_t *chunk = tern_alloc(CHUNK);
    tern_status status = chunk ? TERN_OK : tern_fail_alloc(err, CHUNK);
    start(&s, bytes, like);
    for (uint64_t at = 0; status == TERN_OK && at < bytes;) {
        const uint64_t left = bytes - at;
        const ssize_t n = pread(fd, chunk, left < CHUNK ? (size_t)left : CHUNK, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) status = tern_fail(err, TERN_IO, "reading it back: %s", n ? strerror(errno) : "it ended early");
        else add(&s, chunk, (size_t)n);
        at += n > 0 ? (uint64_t)n : 0;
        if (status == TERN_OK && progress && !progress(context, (float)at / (float)bytes))
            status = tern_fail(err, TERN_CANCELLED, "interrupted");
    }
    finish(&s, out);
    tern_free(chunk);
    return status;
}
