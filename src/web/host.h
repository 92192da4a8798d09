/* Functions that JavaScript gives to the exports: those of Module.experts (web/lib/experts.js), imported by
 * src/web/host.js.
 */
#ifndef TERN_WEB_HOST_H
#define TERN_WEB_HOST_H

#include <stddef.h>
#include <stdint.h>

/* Puts the whole shard of an expert, whose sum has been found right, into into[bytes]. `source` says whose, `shard` is
 * its place in the manifest. On failure a tern_status, and why, with a zero byte, in message[cap]. */
int tern_web_host_expert(uint32_t source, uint32_t shard, uint8_t *into, size_t bytes, char *message, size_t cap);

#endif
