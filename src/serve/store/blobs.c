/* Files that clients upload: named by the sum of their bytes, whole or not there. */
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/types.h>

#include <sha2.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/show.h"
#include "serve/server.h"
#include "serve/store/store.h"

static const char prefix[] = "sha256:";

typedef struct tern_upload {
    SHA2_CTX sum;
    tern_file_writer file;
    bool exists; /* it was there before: the bytes are not kept */
    uint64_t bytes, room;
} tern_upload;

tern_status tern_store_blob_path(tern_serve *s, const char *digest, char path[4096], tern_error *err)
{
    const char *digits = digest && strncmp(digest, prefix, sizeof prefix - 1) == 0 ? digest + sizeof prefix - 1 : "";
    if (strlen(digits) != TERN_SHA256_DIGITS || strspn(digits, "0123456789abcdef") != TERN_SHA256_DIGITS)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "digest: \"%s\" found, \"sha256:\" and 64 hexadecimal digits expected",
                         tern_show_z(digest ? digest : "").text);
    if (snprintf(path, 4096, "%s/blobs/sha256-%s", s->options.store.folder, digits) < 4096) return TERN_OK;
    return tern_fail(err, TERN_LIMIT, "%s: a path too long", tern_show_z(s->options.store.folder).text);
}

bool tern_store_has_blob(tern_serve *s, const char *digest)
{
    char path[4096];
    tern_error err;
    return tern_store_blob_path(s, digest, path, &err) == TERN_OK && tern_file_exists(path);
}

static void close_upload(void *upload)
{
    tern_upload *u = upload;
    tern_file_writer_abort(&u->file);
    tern_free(u);
}

static tern_status begin(tern_exchange *x, tern_error *err)
{
    char path[4096];
    struct statvfs fs;
    TERN_TRY(tern_store_blob_path(x->server, x->rest, path, err));
    tern_upload *u = tern_calloc(1, sizeof *u);
    if (!u) return tern_fail_alloc(err, sizeof *u);
    x->upload = u;
    x->close_upload = close_upload;
    SHA256Init(&u->sum);
    u->room = x->server->options.store.max_bytes;
    if (statvfs(x->server->options.store.folder, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize < u->room)
        u->room = (uint64_t)fs.f_bavail * fs.f_frsize;
    u->exists = tern_file_exists(path);
    return u->exists ? TERN_OK : tern_file_writer_open(&u->file, path, err);
}

tern_status tern_store_upload(tern_exchange *x, const char *data, size_t n, tern_error *err)
{
    if (!x->upload) TERN_TRY(begin(x, err));
    tern_upload *u = x->upload;
    u->bytes += n;
    if (u->bytes > u->room)
        return tern_fail(err, TERN_LIMIT,
                         "the file: at most %llu bytes expected, by the limit of this server and its disk",
                         (unsigned long long)u->room);
    SHA256Update(&u->sum, (const uint8_t *)data, n);
    if (!u->exists) tern_file_writer_add(&u->file, data, n);
    return TERN_OK;
}

tern_status tern_store_finish_upload(tern_exchange *x, bool *created, tern_error *err)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t sum[SHA256_DIGEST_LENGTH];
    char digits[TERN_SHA256_DIGITS + 1] = "";
    if (!x->upload) TERN_TRY(begin(x, err));
    tern_upload *u = x->upload;
    SHA256Final(sum, &u->sum);
    for (size_t i = 0; i < sizeof sum; i++) {
        digits[2 * i] = hex[sum[i] >> 4];
        digits[2 * i + 1] = hex[sum[i] & 15];
    }
    *created = !u->exists;
    if (strcmp(digits, x->rest + sizeof prefix - 1) != 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "digest mismatch: the bytes have sha256:%s, %s expected", digits,
                         tern_show_z(x->rest).text);
    return u->exists ? TERN_OK : tern_file_writer_commit(&u->file, err);
}
