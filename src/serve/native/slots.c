/* POST /slots/ID?action=save|restore|erase of llama.cpp's server. Tern has one pool of pages for all sequences, which
 * any of them finds again: each id names the pool. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/show.h"
#include "serve/native/native.h"
#include "serve/server.h"

static const tern_field fields[] = {
    {"model", TERN_FIELD_TEXT, offsetof(tern_api_request, model)},
    {"filename", TERN_FIELD_TEXT, offsetof(tern_api_request, file_name)},
    {0},
};

tern_status tern_native__read_slot(tern_api_request *request, const json_t *body, tern_error *err)
{
    if (!body) return TERN_OK;
    return tern_fields_read((const tern_field *const[]){fields, NULL}, body, request, err);
}

/* One name, without a folder. */
static tern_status find_path(const tern_answer *a, char path[4096], tern_error *err)
{
    const char *folder = a->host->server->options.slot_folder, *name = a->request.file_name;
    if (!folder)
        return tern_fail(err, TERN_UNSUPPORTED, "this server saves no slots: it was started without --slot-save-path");
    const bool good = name && *name && *name != '.' && strlen(name) < 256 && !strpbrk(name, "/\\");
    if (!good)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "filename: \"%s\" found, a name without a folder expected",
                         tern_show_z(name ? name : "").text);
    if (snprintf(path, 4096, "%s/%s", folder, name) < 4096) return TERN_OK;
    return tern_fail(err, TERN_LIMIT, "%s: a path too long", tern_show_z(folder).text);
}

static tern_status find_id(const tern_answer *a, uint32_t *id, tern_error *err)
{
    char *end;
    const uint32_t most = tern_batch_n_parallel(a->host->batch);
    errno = 0;
    const unsigned long n = strtoul(a->exchange->rest, &end, 10);
    *id = (uint32_t)n;
    if (*a->exchange->rest >= '0' && *a->exchange->rest <= '9' && !*end && !errno && n < most) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "the slot \"%s\" found, one from 0 to %u expected",
                     tern_show_z(a->exchange->rest).text, most - 1);
}

static json_int_t bytes_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (json_int_t)st.st_size : 0;
}

/* words: the names of the numbers of tokens, of bytes and of milliseconds. */
static void answer(const tern_answer *a, uint32_t id, const char *path, uint32_t pages, const char *const words[3],
                   double began)
{
    const double ms = (tern_serve_seconds() - began) * 1e3;
    tern_exchange_send(a->exchange, 200,
                       json_pack("{s:I, s:s, s:I, s:I, s:{s:f}}", "id_slot", (json_int_t)id, "filename",
                                 a->request.file_name, words[0], (json_int_t)pages * TERN_PAGE_TOKENS, words[1],
                                 bytes_of(path), "timings", words[2], ms));
}

static tern_status save(tern_answer *a, uint32_t id, tern_error *err)
{
    static const char *const words[] = {"n_saved", "n_written", "save_ms"};
    const double began = tern_serve_seconds();
    char path[4096];
    uint32_t pages;
    TERN_TRY(find_path(a, path, err));
    TERN_TRY(tern_batch_save(a->host->batch, path, &pages, err));
    answer(a, id, path, pages, words, began);
    return TERN_OK;
}

static tern_status restore(tern_answer *a, uint32_t id, tern_error *err)
{
    static const char *const words[] = {"n_restored", "n_read", "restore_ms"};
    const double began = tern_serve_seconds();
    char path[4096];
    uint32_t pages;
    TERN_TRY(find_path(a, path, err));
    TERN_TRY(tern_batch_restore(a->host->batch, path, &pages, err));
    answer(a, id, path, pages, words, began);
    return TERN_OK;
}

static tern_status erase(tern_answer *a, uint32_t id, tern_error *err)
{
    uint32_t pages;
    if (!a->host->server->options.slot_folder)
        return tern_fail(err, TERN_UNSUPPORTED, "this server saves no slots: it was started without --slot-save-path");
    TERN_TRY(tern_batch_forget(a->host->batch, &pages, err));
    tern_exchange_send(
        a->exchange, 200,
        json_pack("{s:I, s:I}", "id_slot", (json_int_t)id, "n_erased", (json_int_t)pages * TERN_PAGE_TOKENS));
    return TERN_OK;
}

tern_status tern_native__slot(tern_answer *a, tern_host *host, tern_error *err)
{
    const char *action = a->exchange->action ? a->exchange->action : "";
    uint32_t id;
    (void)host;
    TERN_TRY(find_id(a, &id, err));
    if (strcmp(action, "save") == 0) return save(a, id, err);
    if (strcmp(action, "restore") == 0) return restore(a, id, err);
    if (strcmp(action, "erase") == 0) return erase(a, id, err);
    return tern_fail(err, TERN_INVALID_ARGUMENT, "action: \"%s\" found, save, restore or erase expected",
                     tern_show_z(action).text);
}
