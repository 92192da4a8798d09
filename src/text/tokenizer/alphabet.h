/* GPT-2's alphabet: each byte as one printable character, so that byte-level pieces can be written in text files. */
#ifndef TERN_TEXT_TOKENIZER_ALPHABET_H
#define TERN_TEXT_TOKENIZER_ALPHABET_H

#include <stddef.h>
#include <stdint.h>

/* Printable Latin-1 stands for itself; the other 68 bytes, in order, are U+0100 and on.
 * Source: the GPT-2 release, bytes_to_unicode. */
uint32_t tern_alphabet__code(uint8_t byte);
/* The byte, or -1 for a character outside the alphabet. */
int tern_alphabet__byte(uint32_t code);
/* Decodes n bytes of piece into out (room for n); returns the number of bytes, or SIZE_MAX when the piece has other
 * characters. */
size_t tern_alphabet__decode(uint8_t *out, const uint8_t *piece, size_t n);

#endif
