"""Ranks whose layers run on a GPU: the text of one process on it, with stages of layers and with a part of each matrix.

Usage: test_gpu.py MPIRUN TERN MODEL"""
import sys

from processes import Ranks, expect

MPIRUN, TERN, MODEL = sys.argv[1:4]
ranks = Ranks(MPIRUN, TERN)
ON_GPU = ("-m", MODEL, "--backend", "vulkan")
TEXT = ("run", *ON_GPU, "--greedy", "-n", "12", "-p", "Once upon a time")

_, alone, said = ranks.run(1, *TEXT)
expect(alone, f"alone: {said}")
for words in (("--pp", "2"), ()):
    code, out, said = ranks.run(2, *TEXT, *words)
    expect(code == 0, f"2 ranks {words}: {code}, {said}")
    expect(out == alone, f"2 ranks {words}: {out!r}, alone {alone!r}")
code, out, said = ranks.run(2, *TEXT, "--gpu-layers", "2")
expect(code != 0 and "one expected" in said, f"split layers in two processes: {code}, {said}")
print("the same text with 2 ranks on a GPU")
