"""Ranks whose layers run on a GPU: the text of one process on it, with stages of layers and with a part of each matrix;
so do several sequences together, whose tokens the device chooses.

Usage: test_gpu.py MPIRUN TERN MODEL"""
import sys
from concurrent.futures import ThreadPoolExecutor

from processes import Ranks, expect
from server import Server

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


def complete_all(n, *words):
    """Prompts at once; by a likely token and by what is drawn from a few."""
    server = Server(ranks, n, *words, "--backend", "vulkan", model="m=" + MODEL)
    prompts = ("Once upon a time", "The dog", "It was dark")
    with ThreadPoolExecutor(2 * len(prompts)) as pool:
        asked = [pool.submit(server.complete, p, logprobs=None, temperature=t, top_k=8, max_tokens=8)
                 for p in prompts for t in (0, 0.8)]
        texts = [a.result()[0][0][0] for a in asked]
    server.stop()
    return texts


want = complete_all(1)
for words in (("--pp", "2"), ()):
    got = complete_all(2, *words)
    expect(got == want, f"2 ranks {words} together: {got}, one {want}")
print("the same texts with 2 ranks on a GPU")
