/* Models of the Hugging Face hub for the commands: the environment's settings, names of -m, pulling with a progress
 * bar. */
#ifndef TERN_APPS_HUB_HUB_H
#define TERN_APPS_HUB_HUB_H

#include "apps/open.h"
#include "hub/cache.h"

/* By the variables that huggingface_hub reads: HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME; HF_TOKEN, HF_TOKEN_PATH and the
 * file `token` in HF_HOME; HF_ENDPOINT; HF_HUB_OFFLINE. The strings live as long as the program. Errors:
 * INVALID_ARGUMENT (a token with blanks or control characters; an endpoint that is not an address), LIMIT. */
tern_status tern_app_hub(tern_hub *hub, tern_error *err);

/* Whether a text says that it is a name of what was fetched: "hf:..." or "torrent:...". */
bool tern_app_hub_says(const char *text);
/* Whether a value of -m is a name of the hub: "hf:...", or a short name where no file has it. */
bool tern_app_hub_names(const char *text);
/* The model of such a name in the cache. One that is not there is pulled, where standard input and error are a terminal
 * and the person says yes. Errors: NOT_FOUND (with the command that fetches it). */
tern_status tern_app_hub_find(const char *text, tern_app_path *path, tern_error *err);

/* OK where a value of -m is there, and where opening it says as well why it is not. Errors: NOT_FOUND (with what it may
 * have been meant for: a short name, a repository of the hub, an address). */
tern_status tern_app_hub_check_there(const char *text, tern_error *err);

/* Pulls with a progress bar and lines on standard error, unless `quiet`. Errors: also UNSUPPORTED in a build without
 * libcurl. */
tern_status tern_app_hub_pull(const tern_hub *hub, const tern_hub_name *name, bool quiet, tern_hub_found *found,
                              tern_error *err);
/* Asks on the terminal, with "[y/N]" behind; false where there is none. */
bool tern_app_hub_ask(const char *question);

#endif
