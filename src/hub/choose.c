/* The rule by which files are chosen. */
#include "hub/choose.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/parts.h"
#include "base/show.h"

/* Ternary first: it is what Tern is for. Then as in llama.cpp, Q4_K_M before others. */
static const char *const preferred[] = {"I2_S", "TQ2_0",  "TQ1_0", "MXFP4", "Q4_K_M", "Q4_K_S",
                                        "Q4_0", "Q5_K_M", "Q8_0",  "BF16",  "F16",    NULL};
/* The files of a SafeTensors folder beside its weights. */
static const char *const beside[] = {"config.json",
                                     "generation_config.json",
                                     "tokenizer.json",
                                     "tokenizer_config.json",
                                     "tokenizer.model",
                                     "tiktoken.model",
                                     "special_tokens_map.json",
                                     "added_tokens.json",
                                     "vocab.json",
                                     "merges.txt",
                                     "chat_template.jinja",
                                     "chat_template.json",
                                     "adapter_config.json",
                                     "model.safetensors.index.json",
                                     NULL};

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcasecmp(text + n - m, end) == 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool tern_hub_is_model(const char *path)
{
    uint32_t part;
    if (!ends_with(path, ".gguf") || strcasestr(base_name(path), "mmproj") || strcasestr(base_name(path), "imatrix"))
        return false;
    return !tern_parts_of_name(path, &part) || part == 1;
}

bool tern_hub_has_tag(const char *path, const char *tag)
{
    const size_t n = strlen(tag);
    for (const char *at = path; (at = strcasestr(at, tag)); at++)
        if ((at == path || strchr("-./", at[-1])) && (!at[n] || strchr("-./", at[n]))) return true;
    return false;
}

static size_t find(const tern_hub_files *files, const char *path)
{
    for (size_t i = 0; i < files->n; i++)
        if (strcmp(files->items[i].path, path) == 0) return i;
    return files->n;
}

static void want(tern_hub_files *files, size_t i, tern_hub_choice *choice)
{
    if (files->items[i].wanted) return;
    files->items[i].wanted = true;
    choice->bytes += files->items[i].bytes;
}

/* A GGUF file with all its parts, of which the first is opened. */
static tern_status want_gguf(tern_hub_files *files, size_t i, tern_hub_choice *choice, tern_error *err)
{
    uint32_t part;
    const char *path = files->items[i].path;
    choice->parts = tern_parts_of_name(path, &part);
    choice->model = i;
    if (!choice->parts) {
        choice->parts = 1;
        want(files, i, choice);
        return TERN_OK;
    }
    const int stem = (int)strlen(path) - (int)sizeof "00001-of-00003.gguf" + 1;
    for (uint32_t k = choice->parts; k >= 1; k--) {
        char name[sizeof((tern_hub_name *)0)->file + 32];
        snprintf(name, sizeof name, "%.*s%05u-of-%05u%s", stem, path, k, choice->parts, path + strlen(path) - 5);
        choice->model = find(files, name);
        if (choice->model == files->n)
            return tern_fail(err, TERN_NOT_FOUND, "%s: part %u of %u is not there", tern_show_z(name).text, k,
                             choice->parts);
        want(files, choice->model, choice);
    }
    return TERN_OK;
}

/* The existing names, for a message. */
static void show_files(const tern_hub_files *files, bool (*shown)(const char *), char *out, size_t cap)
{
    size_t n = 0, left = 0;
    out[0] = 0;
    for (size_t i = 0; i < files->n; i++) {
        if (!shown(files->items[i].path)) continue;
        if (n + 110 > cap) left++;
        else n += (size_t)snprintf(out + n, cap - n, "%s%s", n ? ", " : "", tern_show_z(files->items[i].path).text);
    }
    if (left) snprintf(out + n, cap - n, " and %zu more", left);
}

static bool any(const char *path)
{
    return path[0] != '.';
}

/* How many models have the tag (NULL: all of them), and the first of those in *first. */
static size_t count_models(const tern_hub_files *files, const char *tag, size_t *first)
{
    size_t n = 0;
    *first = files->n;
    for (size_t i = 0; i < files->n; i++) {
        const char *path = files->items[i].path;
        if (!tern_hub_is_model(path) || (tag && !tern_hub_has_tag(path, tag))) continue;
        if (n++ == 0) *first = i;
    }
    return n;
}

static tern_status fail_several(const tern_hub_files *files, const tern_hub_name *name, tern_error *err)
{
    char shown[300];
    show_files(files, tern_hub_is_model, shown, sizeof shown);
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s has several GGUF files%s%s: %s; name one (/FILE or :TAG)",
                     name->repository, name->tag[0] ? " with the tag " : "", name->tag, shown);
}

static tern_status choose_gguf(tern_hub_files *files, const tern_hub_name *name, tern_hub_choice *choice,
                               tern_error *err)
{
    size_t first;
    size_t n = count_models(files, name->tag[0] ? name->tag : NULL, &first);
    for (const char *const *tag = preferred; n > 1 && !name->tag[0] && *tag; tag++) {
        size_t one;
        const size_t with = count_models(files, *tag, &one);
        if (with == 0) continue;
        n = with;
        first = one;
        break;
    }
    if (n > 1) return fail_several(files, name, err);
    return want_gguf(files, first, choice, err);
}

static bool is_weights(const char *path)
{
    return !strchr(path, '/') && ends_with(path, ".safetensors") && strncmp(path, "consolidated", 12) != 0;
}

static tern_status choose_folder(tern_hub_files *files, const tern_hub_name *name, tern_hub_choice *choice,
                                 tern_error *err)
{
    char shown[300];
    choice->folder = true;
    choice->model = files->n;
    choice->parts = 1;
    for (size_t i = 0; i < files->n; i++)
        if (is_weights(files->items[i].path)) {
            choice->model = i;
            want(files, i, choice);
        }
    for (const char *const *one = beside; *one && choice->model < files->n; one++)
        if (find(files, *one) < files->n) want(files, find(files, *one), choice);
    if (choice->model < files->n) return TERN_OK;
    show_files(files, any, shown, sizeof shown);
    return tern_fail(err, TERN_NOT_FOUND, "%s has neither a GGUF nor a SafeTensors file, but %s", name->repository,
                     files->n ? shown : "no files at all");
}

tern_status tern_hub_choose(tern_hub_files *files, const tern_hub_name *name, tern_hub_choice *choice, tern_error *err)
{
    char shown[300];
    size_t first;
    *choice = (tern_hub_choice){0};
    for (size_t i = 0; i < files->n; i++) files->items[i].wanted = false;
    if (name->file[0]) {
        const size_t i = find(files, name->file);
        if (i < files->n) return want_gguf(files, i, choice, err);
        show_files(files, any, shown, sizeof shown);
        return tern_fail(err, TERN_NOT_FOUND, "%s has no file %s, but %s", name->repository,
                         tern_show_z(name->file).text, files->n ? shown : "none at all");
    }
    if (name->tag[0] && !count_models(files, name->tag, &first)) {
        show_files(files, tern_hub_is_model, shown, sizeof shown);
        return tern_fail(err, TERN_NOT_FOUND, "%s has no GGUF file with the tag %s, but %s", name->repository,
                         name->tag, shown[0] ? shown : "none at all");
    }
    return count_models(files, NULL, &first) ? choose_gguf(files, name, choice, err)
                                             : choose_folder(files, name, choice, err);
}
