/* Unicode normalisation form C: accents and their letters joined wherever there is a character for both. */
#ifndef TERN_TEXT_TOKENIZER_NFC_H
#define TERN_TEXT_TOKENIZER_NFC_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"

/* Adds the NFC of text to out; bytes that are not UTF-8 stay as they are. Source: Unicode Standard Annex 15. */
tern_status tern_nfc__normalize(tern_span text, tern_buf *out, tern_error *err);

/* The tables. A code and what it decomposes to (second 0: one character), sorted by code. */
typedef struct tern_nfc_pair {
    uint32_t code, first, second;
} tern_nfc_pair;
/* Codes from `low` to `high` of one canonical combining class; all others have class 0. */
typedef struct tern_nfc_class {
    uint32_t low, high, value;
} tern_nfc_class;

extern const tern_nfc_pair tern_nfc__pairs[];
extern const size_t tern_nfc__n_pairs;
extern const uint16_t tern_nfc__composed[]; /* the pairs that compose again, sorted by (first, second) */
extern const size_t tern_nfc__n_composed;
extern const tern_nfc_class tern_nfc__classes[];
extern const size_t tern_nfc__n_classes;

#endif
