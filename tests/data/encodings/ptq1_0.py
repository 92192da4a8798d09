#!/usr/bin/env python3
"""Writes blocks of PTQ1_0 and the codes in them: ptq1_0.bin, records of 28 bytes and 128 int8 codes.

From the published description alone; it shares no code with Tern. Sources: PrismML-Eng/llama.cpp, branch prism,
ggml/src/ggml-common.h (block_ptq1_0: 24 bytes qs, 2 bytes qh, the f16 scale last) and ggml/src/ggml-quants.c
(dequantize_row_ptq1_0, quantize_row_ptq1_0_ref: the order of elements and digits, the byte of a number).

The first WRITTEN records are blocks as a writer makes them; the rest has every byte there is, as a reader takes them.
Usage: ptq1_0.py [FILE]; the same bytes each time.
"""
import os
import random
import struct
import sys

WRITTEN = 16
# Runs of bytes: the first byte, how many, the element of their first digit, digits in a byte. Byte b of a run has the
# elements first + b, first + b + count, first + b + 2 count and so on.
RUNS = ((0, 16, 0, 5), (16, 8, 80, 5), (24, 2, 120, 4))


def pack(codes, scale):
    body = bytearray(26)
    for at, count, first, digits in RUNS:
        for b in range(count):
            value = sum((codes[first + b + k * count] + 1) * 3 ** (4 - k) for k in range(digits))
            body[at + b] = -(-value * 256 // 243)
    return bytes(body) + struct.pack("<e", scale)


def unpack(block):
    codes = [0] * 128
    for at, count, first, digits in RUNS:
        for b in range(count):
            for k in range(digits):
                codes[first + b + k * count] = (block[at + b] * 3 ** k % 256 * 3 >> 8) - 1
    return codes


def blocks():
    numbers = random.Random(143)
    for i in range(WRITTEN):
        codes = [numbers.randrange(-1, 2) for _ in range(128)]
        codes[i * 8] = 1  # a block of zeros has any scale
        block = pack(codes, (1 + i) * 0.03125)
        assert unpack(block) == codes
        yield block
    for first in range(0, 256, 26):
        yield bytes((first + i) % 256 for i in range(26)) + struct.pack("<e", -0.5)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    with open(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "ptq1_0.bin"), "wb") as out:
        for block in blocks():
            out.write(block + struct.pack("128b", *unpack(block)))


if __name__ == "__main__":
    main()
