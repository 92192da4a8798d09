/* Models that clients fetch, make, copy and delete, in a folder of the server's own:
 *
 *   manifests/NAME.json     what a model is made of; "/" and ":" of its name as %2F and %3A
 *   blobs/sha256-DIGITS     files that clients uploaded
 *
 * A manifest has "name"; "from", one of {"hub": name, "fetched": true where its bytes came for a client}, {"blob":
 * digest} and {"given": the name of a model that the server was started with}; and, as they are wanted, "parent",
 * "adapters" (digests), "template", "system", "parameters", "n_ctx", "messages", "license". Nothing that a client names
 * is a path. */
#ifndef TERN_SERVE_STORE_STORE_H
#define TERN_SERVE_STORE_STORE_H

#include "serve/store/jobs.h"

/* Makes the folders, and takes the models that are there. One that cannot be used is named on standard error. Errors:
 * IO. */
tern_status tern_store_open(tern_serve *server, tern_error *err);
/* A name without ":latest", in parts between "/" of letters, digits, ".", "_" and "-", with a tag of these behind ":".
 * Errors: INVALID_ARGUMENT. */
tern_status tern_store_name(const char *name, char out[256], tern_error *err);
/* Takes the manifest, writes it, and lists the model, in the place of one of this name that clients made. Errors: IO,
 * NOT_FOUND (what it is made of), INVALID_ARGUMENT (its options, its template; a model of this name was given). */
tern_status tern_store_save(tern_serve *server, json_t *manifest, tern_error *err);
/* A manifest that makes a model of what another one is made of, with all that it sets; NULL: there is none. */
json_t *tern_store_derive(tern_serve *server, const char *name);
/* Removes a model, and those of its files that came for a client and that no other model has. Errors: NOT_FOUND,
 * INVALID_ARGUMENT (it was given), IO. */
tern_status tern_store_remove(tern_serve *server, const char *name, tern_error *err);

/* store/blobs.c. The path of a blob; digest: "sha256:" and 64 digits. Errors: INVALID_ARGUMENT. */
tern_status tern_store_blob_path(tern_serve *server, const char *digest, char path[4096], tern_error *err);
bool tern_store_has_blob(tern_serve *server, const char *digest);
/* A blob that arrives piece by piece, as the exchange's upload; x->rest is its digest. Errors: INVALID_ARGUMENT (the
 * digest), LIMIT, IO (also no space). */
tern_status tern_store_upload(tern_exchange *exchange, const char *data, size_t n, tern_error *err);
/* All of it is there: *created unless it was there before. Errors: INVALID_ARGUMENT (another digest). */
tern_status tern_store_finish_upload(tern_exchange *exchange, bool *created, tern_error *err);

/* store/make.c. Jobs; the request is the exchange's document. */
tern_status tern_store_pull(tern_job *job, tern_error *err);
tern_status tern_store_create(tern_job *job, tern_error *err);
/* Errors: NOT_FOUND (the source), INVALID_ARGUMENT (the names). */
tern_status tern_store_copy(tern_serve *server, const char *source, const char *destination, tern_error *err);

#endif
