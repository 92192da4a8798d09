/* Names of models, and what may be in them. */
#include "hub/name.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/show.h"

static const char form[] = "ORG/NAME[/FILE][:TAG][@REVISION]";

bool tern_hub_name_is(const char *text)
{
    return strncmp(text, "hf:", 3) == 0;
}

tern_status tern_hub_path_make(tern_hub_path *path, tern_error *err, const char *a, const char *b, const char *c,
                               const char *d)
{
    const char *const parts[] = {b, c, d};
    size_t n = (size_t)snprintf(path->text, sizeof path->text, "%s", a);
    for (size_t i = 0; i < 3 && n < sizeof path->text; i++)
        if (parts[i]) n += (size_t)snprintf(path->text + n, sizeof path->text - n, "/%s", parts[i]);
    if (n < sizeof path->text) return TERN_OK;
    return tern_fail(err, TERN_LIMIT, "%s...: a path of more than %zu bytes", tern_show_z(a).text,
                     sizeof path->text - 1);
}

bool tern_hub_is_hex(const char *text, size_t n)
{
    return strlen(text) == n && strspn(text, "0123456789abcdef") == n;
}

bool tern_hub_path_is_safe(const char *path)
{
    const size_t n = strlen(path);
    if (n == 0 || n >= sizeof((tern_hub_name *)0)->file) return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)path[i] < ' ' || path[i] == 127 || path[i] == '\\') return false;
    for (const char *at = path;; at++) {
        const size_t part = strcspn(at, "/");
        if (part == 0 || (part == 1 && at[0] == '.') || (part == 2 && at[0] == '.' && at[1] == '.')) return false;
        at += part;
        if (!*at) return true;
    }
}

/* Half a repository's name by the hub's rule: letters, digits, ".", "_" and "-", neither "--" nor "..", and none of "."
 * and "-" at an end. So names and folders of the cache belong together one by one. */
static bool is_half(const char *text, size_t n)
{
    if (n == 0 || n > 96 || strchr("-.", text[0]) || strchr("-.", text[n - 1])) return false;
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && c != '.' && c != '_' && c != '-') return false;
        if (i && c == text[i - 1] && (c == '-' || c == '.')) return false;
    }
    return true;
}

/* Takes what follows the last `mark` off the end of text, into out. */
static bool take_end(char *text, char mark, char *out, size_t cap)
{
    char *at = strrchr(text, mark);
    if (!at) return true;
    *at = 0;
    return (size_t)snprintf(out, cap, "%s", at + 1) < cap && out[0];
}

static bool is_tag(const char *tag)
{
    return strspn(tag, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.") == strlen(tag);
}

static bool is_revision(const char *revision)
{
    return tern_hub_path_is_safe(revision) && !strpbrk(revision, " ?#%");
}

static bool read_name(tern_hub_name *name, const char *text)
{
    char rest[800];
    if ((size_t)snprintf(rest, sizeof rest, "%s", text) >= sizeof rest) return false;
    snprintf(name->revision, sizeof name->revision, "main");
    if (!take_end(rest, '@', name->revision, sizeof name->revision) || !is_revision(name->revision)) return false;
    if (!take_end(rest, ':', name->tag, sizeof name->tag) || !is_tag(name->tag)) return false;
    const size_t org = strcspn(rest, "/");
    if (!rest[org]) return false;
    const size_t half = strcspn(rest + org + 1, "/"), whole = org + 1 + half;
    if (!is_half(rest, org) || !is_half(rest + org + 1, half)) return false;
    snprintf(name->repository, sizeof name->repository, "%.*s", (int)whole, rest);
    if (!rest[whole]) return true;
    if (name->tag[0] || !tern_hub_path_is_safe(rest + whole + 1)) return false;
    return (size_t)snprintf(name->file, sizeof name->file, "%s", rest + whole + 1) < sizeof name->file;
}

tern_status tern_hub_name_parse(tern_hub_name *name, const char *text, tern_error *err)
{
    *name = (tern_hub_name){0};
    if (read_name(name, tern_hub_name_is(text) ? text + 3 : text)) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: a model of the hub is %s, with a FILE or a TAG but not both",
                     tern_show_z(text).text, form);
}

void tern_hub_folder(const char *repository, char out[256])
{
    const size_t org = strcspn(repository, "/");
    snprintf(out, 256, "models--%.*s--%s", (int)org, repository, repository + org + (repository[org] == '/'));
}
