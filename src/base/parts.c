/* Names of files in parts. */
#include "base/parts.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"

enum { FORM_BYTES = sizeof "-00001-of-00003.gguf" - 1, DIGITS = 5 };

static uint32_t read_digits(const char *text)
{
    uint32_t n = 0;
    for (int i = 0; i < DIGITS; i++) {
        if (text[i] < '0' || text[i] > '9') return 0;
        n = n * 10 + (uint32_t)(text[i] - '0');
    }
    return n;
}

uint32_t tern_parts_of_name(const char *path, uint32_t *part)
{
    const size_t n = strlen(path);
    if (n <= FORM_BYTES) return 0;
    const char *at = path + n - FORM_BYTES;
    if (at[0] != '-' || strncmp(at + 6, "-of-", 4) != 0 || strcasecmp(at + 15, ".gguf") != 0) return 0;
    const uint32_t found = read_digits(at + 1), parts = read_digits(at + 10);
    if (found < 1 || found > parts) return 0;
    *part = found;
    return parts;
}

char *tern_parts_path(const char *path, uint32_t part)
{
    char digits[DIGITS + 8];
    char *out = tern_strdup(path);
    if (!out) return NULL;
    snprintf(digits, sizeof digits, "%05u", part);
    memcpy(out + strlen(out) - FORM_BYTES + 1, digits, DIGITS);
    return out;
}

static uint64_t bytes_of_all(const char *path, uint32_t n)
{
    uint64_t bytes = 0;
    struct stat s;
    for (uint32_t i = 1; i <= n; i++) {
        char *part = tern_parts_path(path, i);
        if (part && stat(part, &s) == 0) bytes += (uint64_t)s.st_size;
        tern_free(part);
    }
    return bytes;
}

static bool is_weights(const char *name)
{
    return tern_path_ends(name, ".safetensors") && strncmp(name, "golden", 6) != 0;
}

static uint64_t bytes_of_folder(const char *path)
{
    uint64_t bytes = 0;
    struct stat s;
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        char *file = is_weights(e->d_name) ? tern_path_join(path, e->d_name) : NULL;
        if (file && stat(file, &s) == 0) bytes += (uint64_t)s.st_size;
        tern_free(file);
    }
    if (dir) closedir(dir);
    return bytes;
}

uint64_t tern_parts_bytes(const char *path)
{
    struct stat s;
    uint32_t part;
    const uint32_t n = tern_parts_of_name(path, &part);
    if (n > 1) return bytes_of_all(path, n);
    if (stat(path, &s) != 0) return 0;
    return S_ISDIR(s.st_mode) ? bytes_of_folder(path) : (uint64_t)s.st_size;
}
