/* The files of the page at `/`, which are in the program itself. */
#ifndef TERN_SERVE_PAGE_PAGE_H
#define TERN_SERVE_PAGE_PAGE_H

#include <stddef.h>

typedef struct tern_page_file {
    const char *path, *type; /* of its address; of HTTP */
    const unsigned char *bytes;
    size_t n;
} tern_page_file;

/* Made by cmake/serve-page.cmake of web/serve and of what it shares with web/page; ends with one without a path. */
extern const tern_page_file tern_page_files[];

#endif
