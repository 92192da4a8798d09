#!/usr/bin/env python3
"""Writes rows and what signs and a Hadamard transform of blocks make of them: hadamard.bin, little-endian.

Every sum and difference is rounded to f32: the halves of a block are transformed first, then put together, which is the
order of ops/ref/rotated/hadamard.h. The result is compared here with H[i][j] = (-1)^popcount(i & j) in f64. It shares
no code with Tern. Source: PrismML-Eng/llama.cpp, branch prism, src/llama-model.cpp and its build_lora_mm: forward
H(signs x), of the embedding's rows signs(H x), both divided by the root of the block's size.

Records: u32 block, u32 cols, then f32 [cols] each: x, signs, forward, inverse. Usage: make.py [FILE]; the same bytes
each time.
"""
import math
import os
import random
import struct
import sys

SHAPES = ((1, 5), (2, 6), (8, 8), (32, 96), (128, 256), (1024, 2048))


def f32(v):
    return struct.unpack("<f", struct.pack("<f", v))[0]


def halves(v):
    if len(v) == 1:
        return v
    a, b = halves(v[:len(v) // 2]), halves(v[len(v) // 2:])
    return [f32(p + q) for p, q in zip(a, b)] + [f32(p - q) for p, q in zip(a, b)]


def by_definition(v, i):
    return math.fsum(-v[j] if bin(i & j).count("1") & 1 else v[j] for j in range(len(v))) / math.sqrt(len(v))


def transform(v, block):
    scale, out = f32(1 / math.sqrt(block)), []
    for at in range(0, len(v), block):
        part = v[at:at + block]
        made = [f32(y * scale) for y in halves(part)]
        assert all(abs(made[i] - by_definition(part, i)) < 1e-5 for i in range(0, block, max(1, block // 64)))
        out += made
    return out


def main():
    numbers = random.Random(1024)
    here = os.path.dirname(os.path.abspath(__file__))
    with open(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "hadamard.bin"), "wb") as file:
        for block, cols in SHAPES:
            x = [f32(numbers.uniform(-2, 2)) for _ in range(cols)]
            signs = [numbers.choice((1.0, -1.0)) for _ in range(cols)]
            forward = transform([a * s for a, s in zip(x, signs)], block)
            inverse = [a * s for a, s in zip(transform(x, block), signs)]
            file.write(struct.pack("<II", block, cols))
            for row in (x, signs, forward, inverse):
                file.write(struct.pack("<%df" % cols, *row))


if __name__ == "__main__":
    main()
