#!/usr/bin/env python3
"""Writes src/text/tokenizer/normal/nfc_table.c from Python's copy of the Unicode Character Database."""
import sys
import textwrap
import unicodedata


def rows(items):
    return textwrap.fill(" ".join(item.replace(" ", "\0") for item in items), 119, initial_indent="    ",
                         subsequent_indent="    ", break_long_words=False).replace("\0", " ")


codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and not 0xAC00 <= c <= 0xD7A3]
pairs = []
for c in codes:
    parts = unicodedata.decomposition(chr(c)).split()
    if parts and not parts[0].startswith("<"):
        numbers = [int(p, 16) for p in parts] + [0]
        pairs.append((c, numbers[0], numbers[1]))
composed = [i for i, (c, a, b) in enumerate(pairs) if b and unicodedata.normalize("NFC", chr(c)) == chr(c)]
composed.sort(key=lambda i: pairs[i][1:])

classes = []
for c in codes:
    k = unicodedata.combining(chr(c))
    if k and classes and classes[-1][1] == c - 1 and classes[-1][2] == k:
        classes[-1][1] = c
    elif k:
        classes.append([c, c, k])

out = sys.stdout.write
version = unicodedata.unidata_version
out(f"/* Canonical decompositions and combining classes of Unicode {version}; written by scripts/nfc-table.py. */\n")
out('#include "text/tokenizer/normal/nfc.h"\n\n/* clang-format off */\n')
out("const tern_nfc_pair tern_nfc__pairs[] = {\n%s\n};\n" % rows(("{0x%X, 0x%X, 0x%X}," % p for p in pairs)))
out("const size_t tern_nfc__n_pairs = sizeof tern_nfc__pairs / sizeof tern_nfc__pairs[0];\n\n")
out("const uint16_t tern_nfc__composed[] = {\n%s\n};\n" % rows(("%d," % i for i in composed)))
out("const size_t tern_nfc__n_composed = sizeof tern_nfc__composed / sizeof tern_nfc__composed[0];\n\n")
out("const tern_nfc_class tern_nfc__classes[] = {\n%s\n};\n" % rows(("{0x%X, 0x%X, %d}," % tuple(r) for r in classes)))
out("const size_t tern_nfc__n_classes = sizeof tern_nfc__classes / sizeof tern_nfc__classes[0];\n")
