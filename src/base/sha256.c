/* SHA-256, by libmd. */
#include "base/sha256.h"

#ifdef __EMSCRIPTEN__

tern_status tern_sha256(const void *bytes, size_t n, char digits[TERN_SHA256_DIGITS + 1], tern_error *err)
{
    (void)bytes;
    (void)n;
    digits[0] = 0;
    return tern_fail(err, TERN_UNSUPPORTED, "SHA-256 sums are the page's");
}

#else

#include <stdint.h>
#include <sys/types.h>

#include <sha2.h>

tern_status tern_sha256(const void *bytes, size_t n, char digits[TERN_SHA256_DIGITS + 1], tern_error *err)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t sum[SHA256_DIGEST_LENGTH];
    SHA2_CTX c;
    (void)err;
    SHA256Init(&c);
    SHA256Update(&c, bytes, n);
    SHA256Final(sum, &c);
    for (size_t i = 0; i < sizeof sum; i++) {
        digits[2 * i] = hex[sum[i] >> 4];
        digits[2 * i + 1] = hex[sum[i] & 15];
    }
    digits[TERN_SHA256_DIGITS] = 0;
    return TERN_OK;
}

#endif
