/* JSON documents to files. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "format/json.h"

tern_status tern_json_write(json_t *document, const char *path, size_t flags, tern_error *err)
{
    tern_file_writer file;
    char *text = document ? json_dumps(document, flags) : NULL;
    json_decref(document);
    tern_status status = text ? tern_file_writer_open(&file, path, err) : tern_fail_alloc(err, sizeof *document);
    if (status == TERN_OK) {
        tern_file_writer_add(&file, text, strlen(text));
        tern_file_writer_add(&file, "\n", 1);
        status = tern_file_writer_commit(&file, err);
    }
    tern_free(text);
    return status;
}

tern_status tern_json_write_in(json_t *document, const char *dir, const char *name, size_t flags, tern_error *err)
{
    char *path = tern_path_join(dir, name);
    if (!path) {
        json_decref(document);
        return tern_fail_alloc(err, strlen(dir) + strlen(name) + 2);
    }
    tern_status status = tern_json_write(document, path, flags, err);
    tern_free(path);
    return status;
}
