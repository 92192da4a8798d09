/* Characters as Python sees them: code points of UTF-8; a byte that is not valid UTF-8 is a character of its own. */
#ifndef TERN_TEXT_JINJA_CHARS_H
#define TERN_TEXT_JINJA_CHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes (1 to 4) of the character at the start of the n > 0 bytes at s; *code is its code point, or the byte. */
size_t tern_jinja__char(const char *s, size_t n, uint32_t *code);
size_t tern_jinja__char_count(const char *s, size_t n);
/* Byte offset of character `index`, or n when there are fewer. */
size_t tern_jinja__char_offset(const char *s, size_t n, size_t index);
/* Python's str.isspace() for one character. */
bool tern_jinja__is_space(uint32_t code);
/* Bytes of white space at the start, and at the end, of s. */
size_t tern_jinja__leading_space(const char *s, size_t n);
size_t tern_jinja__trailing_space(const char *s, size_t n);
/* Writes 1 to 4 bytes of UTF-8. Code points that do not exist become U+FFFD. */
size_t tern_jinja__char_write(char out[4], uint32_t code);

static inline bool tern_jinja__is_digit(char c)
{
    return c >= '0' && c <= '9';
}
static inline bool tern_jinja__is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}
static inline bool tern_jinja__is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}
static inline char tern_jinja__to_upper(char c)
{
    return tern_jinja__is_lower(c) ? (char)(c - 32) : c;
}
static inline char tern_jinja__to_lower(char c)
{
    return tern_jinja__is_upper(c) ? (char)(c + 32) : c;
}

#endif
