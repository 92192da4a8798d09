"""Ranks that train on a GPU share the passes of a step and give the files of one process on it, of adapters too.

Usage: test_gpu_training.py MPIRUN TERN MODEL"""
import json
import os
import random
import sys
import tempfile

from processes import Ranks, expect

MPIRUN, TERN, MODEL = sys.argv[1:4]
ranks = Ranks(MPIRUN, TERN)
random.seed(3)
with tempfile.TemporaryDirectory() as folder:
    data = os.path.join(folder, "ids.jsonl")
    with open(data, "w", encoding="utf-8") as file:
        for _ in range(12):
            file.write(json.dumps({"ids": [random.randrange(3, 60) for _ in range(24)]}) + "\n")
    words = ("finetune", "-m", MODEL, "--data", data, "--backend", "vulkan", "--steps", "3", "--batch", "1", "--seq", "24",
             "--val-split", "0", "--accumulate", "2")
    for name, more in (("all weights", ()), ("adapters", ("--lora", "4"))):
        made = []
        for n in (1, 2):
            out = os.path.join(folder, f"{name} {n}.gguf")
            code, _, said = ranks.run(n, *words, *more, "-o", out)
            expect(code == 0, f"{name}, {n} ranks: {code}, {said}")
            with open(out, "rb") as file:
                made.append(file.read())
        expect(made[0] == made[1], f"{name}: the files of one process and of two differ")
print("2 ranks train on a GPU as one process does")
