#!/usr/bin/env python3
"""Checks at random that all that Tern's grammars of schemas allow is valid by jsonschema: check.py SAMPLES,
with the program schema_samples. TERN_TEST_SEED chooses other texts."""
import json
import os
import random
import subprocess
import sys

program = sys.argv[1]
data = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
debian = "/usr/bin/python3"  # has Debian's python3-jsonschema, where another python3 comes first in PATH
try:
    import validate
except ImportError as missing:
    if os.path.exists(debian) and sys.executable != debian:
        os.execv(debian, [debian, *sys.argv])
    if os.environ.get("CI") == "true":
        raise
    print("skipped:", missing)
    sys.exit(77)

seed = os.environ.get("TERN_TEST_SEED", "17")
seed = str(random.randrange(1 << 32)) if seed == "random" else seed
with open(os.path.join(data, "schemas.jsonl"), encoding="utf-8") as file:
    source = file.read()
rows = [json.loads(line) for line in source.splitlines()]
answers = subprocess.run([program, seed], input=source, encoding="utf-8", stdout=subprocess.PIPE, check=True).stdout
answers = [json.loads(line) for line in answers.split("\n") if line]
assert len(answers) == len(rows), (len(answers), len(rows))
checked = 0
for row, texts in zip(rows, answers):
    if isinstance(texts, str):  # refused
        continue
    for text in texts:
        checked += 1
        if not validate.is_valid(row["schema"], text):
            sys.exit("seed %s: %s allows %s, which is not valid" % (seed, json.dumps(row["schema"]), text))
assert checked > 900, checked
print(checked, "texts are valid, seed", seed)
