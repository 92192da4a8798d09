/* The hub's settings in the environment, and names of -m. */
#include "apps/hub/hub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "base/show.h"
#include "hub/known.h"
#include "hub/torrent/place.h"

static const char default_endpoint[] = "https://huggingface.co";
enum { MAX_TOKEN = 1000 };

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static bool is_set(const char *name)
{
    const char *value = variable(name);
    return value && (strcmp(value, "1") == 0 || strcasecmp(value, "on") == 0 || strcasecmp(value, "yes") == 0 ||
                     strcasecmp(value, "true") == 0);
}

/* HF_HOME, else "huggingface" in the user's cache. */
static tern_status find_home(tern_hub_path *home, tern_error *err)
{
    const char *own = variable("HF_HOME"), *cache = variable("XDG_CACHE_HOME"), *user = variable("HOME");
    if (own) return tern_hub_path_make(home, err, own, NULL, NULL, NULL);
    if (cache) return tern_hub_path_make(home, err, cache, "huggingface", NULL, NULL);
    return tern_hub_path_make(home, err, user ? user : "/tmp", ".cache", "huggingface", NULL);
}

static tern_status find_cache(const tern_hub_path *home, tern_hub_path *cache, tern_error *err)
{
    const char *own = variable("HF_HUB_CACHE");
    if (!own) own = variable("HUGGINGFACE_HUB_CACHE");
    return tern_hub_path_make(cache, err, own ? own : home->text, own ? NULL : "hub", NULL, NULL);
}

/* The token of the environment, or of the file that the hub's login writes; "" without one. */
static tern_status find_token(const tern_hub_path *home, char token[MAX_TOKEN + 1], tern_error *err)
{
    tern_hub_path path;
    tern_buf text = {0};
    tern_error ignored;
    const char *own = variable("HF_TOKEN"), *file = variable("HF_TOKEN_PATH");
    token[0] = 0;
    if (!own) own = variable("HUGGING_FACE_HUB_TOKEN");
    if (!own && !is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
        TERN_TRY(tern_hub_path_make(&path, err, file ? file : home->text, file ? NULL : "token", NULL, NULL));
        if (tern_file_read(&text, path.text, MAX_TOKEN, &ignored) != TERN_OK) return TERN_OK;
        snprintf(token, MAX_TOKEN + 1, "%.*s", (int)text.size, text.size ? (const char *)text.data : "");
        tern_buf_deinit(&text);
    } else if (own && (size_t)snprintf(token, MAX_TOKEN + 1, "%s", own) > MAX_TOKEN)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "HF_TOKEN: more than %d characters found, at most %d expected",
                         MAX_TOKEN, MAX_TOKEN);
    size_t n = strlen(token), blank = strspn(token, " \t\r\n");
    while (n > blank && strchr(" \t\r\n", token[n - 1])) token[--n] = 0;
    memmove(token, token + blank, n - blank + 1);
    for (const char *at = token; *at; at++)
        if (*at <= ' ' || *at > '~')
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "the hub's token: a character found that tokens cannot contain");
    return TERN_OK;
}

static tern_status find_endpoint(char *endpoint, size_t cap, tern_error *err)
{
    const char *own = variable("HF_ENDPOINT");
    const size_t n = (size_t)snprintf(endpoint, cap, "%s", own ? own : default_endpoint);
    if (n >= cap || (strncmp(endpoint, "https://", 8) != 0 && strncmp(endpoint, "http://", 7) != 0))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "HF_ENDPOINT: %s found, an address as %s expected",
                         tern_show_z(own ? own : "").text, default_endpoint);
    for (size_t i = n; i > 8 && endpoint[i - 1] == '/'; i--) endpoint[i - 1] = 0;
    return TERN_OK;
}

tern_status tern_app_hub(tern_hub *hub, tern_error *err)
{
    static tern_hub_path cache;
    static char token[MAX_TOKEN + 1], endpoint[1024];
    tern_hub_path home;
    *hub = (tern_hub){.cache = cache.text, .endpoint = endpoint};
    TERN_TRY(find_home(&home, err));
    TERN_TRY(find_cache(&home, &cache, err));
    TERN_TRY(find_token(&home, token, err));
    TERN_TRY(find_endpoint(endpoint, sizeof endpoint, err));
    hub->token = token[0] ? token : NULL;
    hub->offline = is_set("HF_HUB_OFFLINE") || is_set("TRANSFORMERS_OFFLINE");
    return TERN_OK;
}

bool tern_app_hub_says(const char *text)
{
    return tern_hub_name_is(text) || tern_torrent_name_is(text);
}

bool tern_app_hub_names(const char *text)
{
    return tern_app_hub_says(text) || (tern_hub_known_find(text) && !tern_file_exists(text) && !tern_file_is_dir(text));
}

/* Whether a name is of a repository of the hub and not of a file. */
static bool may_be_repository(const char *text)
{
    static const char *const suffixes[] = {".gguf", ".safetensors", ".json", ".bin", ".jsonl", ".txt"};
    tern_hub_name name;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (tern_path_ends(text, suffixes[i])) return false;
    return tern_hub_name_parse(&name, text, NULL) == TERN_OK && !name.file[0];
}

tern_status tern_app_hub_check_there(const char *text, tern_error *err)
{
    if (access(text, F_OK) == 0 || errno != ENOENT) return TERN_OK;
    if (strncmp(text, "magnet:", 7) == 0)
        return tern_fail(err, TERN_NOT_FOUND, "%s: a link found; `tern pull` fetches it, torrent:NAME opens it",
                         tern_show_z(text).text);
    if (strstr(text, "://"))
        return tern_fail(err, TERN_NOT_FOUND,
                         "%s: an address found; a file, a folder or hf:ORG/NAME (a model of the hub) expected",
                         tern_show_z(text).text);
    if (may_be_repository(text))
        return tern_fail(err, TERN_NOT_FOUND, "%s: no such folder here; hf:%s is the model of that name on the hub",
                         tern_show_z(text).text, tern_show_z(text).text);
    const char *nearest = tern_hub_known_nearest(text);
    if (strchr(text, '/') || (strchr(text, '.') && !nearest)) return TERN_OK;
    return tern_fail(err, TERN_NOT_FOUND,
                     "%s: no such file or folder, and no short name of a model%s%s%s (tern list --known shows them)",
                     tern_show_z(text).text, nearest ? "; did you mean " : "", nearest ? nearest : "",
                     nearest ? "?" : "");
}

bool tern_app_hub_ask(const char *question)
{
    char answer[16] = "";
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) return false;
    tern_app_say("%s [y/N] ", question);
    fflush(stderr);
    const bool read = fgets(answer, sizeof answer, stdin) != NULL && !tern_app_interrupted();
    return read && (answer[0] == 'y' || answer[0] == 'Y');
}

/* The package of a name that `tern list` shows. */
static tern_status find_torrent(const char *text, tern_app_path *path, tern_error *err)
{
    tern_hub hub;
    tern_torrent_entry entry;
    TERN_TRY(tern_app_hub(&hub, err));
    TERN_TRY(tern_torrent_find(&hub, text, &entry, err));
    if (!entry.whole)
        return tern_fail(err, TERN_NOT_FOUND, "%s is incomplete: `tern pull` of the same link continues the download",
                         tern_show_z(text).text);
    snprintf(path->text, sizeof path->text, "%s", entry.place.package.text);
    return TERN_OK;
}

tern_status tern_app_hub_find(const char *text, tern_app_path *path, tern_error *err)
{
    tern_hub hub;
    tern_hub_name name;
    tern_hub_found found;
    tern_error why = {0};
    char question[sizeof name + 80];
    if (tern_torrent_name_is(text)) return find_torrent(text, path, err);
    TERN_TRY(tern_hub_known_parse(&name, text, err));
    TERN_TRY(tern_app_hub(&hub, err));
    tern_status status = tern_hub_cache_find(&hub, &name, &found, &why);
    if (status == TERN_NOT_FOUND) {
        snprintf(question, sizeof question, "%s is not on this machine. Pull it from %s?", text, hub.endpoint);
        if (hub.offline || !TERN_PULL || !tern_app_hub_ask(question))
            return tern_fail(err, TERN_NOT_FOUND, "%s; `tern pull %s` fetches it", why.message, tern_show_z(text).text);
        status = tern_app_hub_pull(&hub, &name, false, &found, &why);
    }
    if (status != TERN_OK) return tern_fail(err, status, "%s", why.message);
    snprintf(path->text, sizeof path->text, "%s", found.path.text);
    return TERN_OK;
}
