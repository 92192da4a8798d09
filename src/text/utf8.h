/* UTF-8 code points in untrusted bytes. */
#ifndef TERN_TEXT_UTF8_H
#define TERN_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes (1 to 4) of the well-formed sequence at p, of which n bytes may be read, and its code point; 0, with *code
 * untouched, when there is none (overlong forms, surrogates and values above U+10FFFF are not well-formed). */
unsigned tern_utf8__decode(const uint8_t *p, size_t n, uint32_t *code);
/* True when the n bytes are the start of a well-formed sequence that has more than n bytes. */
bool tern_utf8__is_prefix(const uint8_t *p, size_t n);
/* Bytes at p that are well-formed sequences one after another. */
size_t tern_utf8__valid_run(const uint8_t *p, size_t n);
/* Writes 1 to 4 bytes; surrogates and values above U+10FFFF become U+FFFD. */
unsigned tern_utf8__encode(uint8_t out[4], uint32_t code);
/* Unicode's White_Space property. */
bool tern_utf8__is_space(uint32_t code);

#endif
