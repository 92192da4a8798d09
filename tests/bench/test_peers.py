#!/usr/bin/env python3
"""bench/peers/peers.py with two engines that only say what they are to: the ratios, the turns, and wrong words.

    test_peers.py PEERS.PY TERN MODEL
"""
import json
import os
import subprocess
import sys
import tempfile

peers, tern, model = sys.argv[1:4]

# The speeds of a round, and a line in a log: "llama-bench" of a fast and a slow engine.
FAKE = """#!/usr/bin/env python3
import json, os, sys
at = sys.argv.index
log = os.path.join(os.path.dirname(sys.argv[0]), "log")
with open(log, "a") as f: f.write(os.path.basename(sys.argv[0]) + " " + " ".join(sys.argv[1:]) + "\\n")
n = sum(1 for line in open(log) if line.startswith(os.path.basename(sys.argv[0]) + " "))
p, g = int(sys.argv[at("-p") + 1]), int(sys.argv[at("-n") + 1])
rows = []
if p: rows.append({"n_prompt": p, "n_gen": 0, "avg_ts": SPEED * n})
if g: rows.append({"n_prompt": 0, "n_gen": g, "avg_ts": SPEED * n / 10})
print(json.dumps(rows))
"""


def run(*words):
    return subprocess.run([sys.executable, peers, *words], capture_output=True, text=True)


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o755)
    return path


def refused(words, expected):
    done = run(*words)
    if done.returncode == 0 or expected not in done.stderr:
        sys.exit(f"{words}: {done.returncode}, {done.stderr!r}: {expected!r} expected")


with tempfile.TemporaryDirectory() as folder:
    slow, fast = (write(folder, name, FAKE.replace("SPEED", speed)) for name, speed in (("slow", "100"), ("fast", "7e9")))
    ask = ["-m", model, "--tern", tern, "-p", "4", "-n", "3", "--rounds", "3", "--tern-args", "--ffn dense"]
    done = run(*ask, "--json", "--peer", f"slow={slow}", "--peer", f"fast={fast}@other.gguf", "--peer-args", "-fa 0")
    if done.returncode:
        sys.exit(done.stderr)
    said = json.loads(done.stdout)
    found = {(r["phase"], r["engine"]): r for r in said["results"]}
    assert len(found) == 6 and said["rounds"] == 3, found
    # the first of four runs is not counted: 2, 3 and 4 times the speed are left
    assert found["prefill", "slow"]["tokens_per_second"] == {"median": 300, "min": 200, "max": 400}
    assert found["decode", "slow"]["tokens_per_second"] == {"median": 30, "min": 20, "max": 40}
    for phase in ("prefill", "decode"):
        assert "tern_over_it" not in found[phase, "tern"]
        assert found[phase, "slow"]["tern_over_it"]["median"] > 1 > found[phase, "fast"]["tern_over_it"]["max"] > 0
    log = open(os.path.join(folder, "log")).read().splitlines()
    assert [line.split()[0] for line in log] == ["slow", "fast", "slow", "fast", "fast", "slow", "slow", "fast"], log
    assert all(f"-m {model} -r 1 -o json -fa 0 -t 1 -p 4 -n 3" in line for line in log if line.startswith("slow")), log
    assert all("-m other.gguf " in line for line in log if line.startswith("fast")), log

    table = run(*ask, "-p", "0", "--rounds", "1", "--peer", f"slow={slow}").stdout
    assert "| 1 | decode | slow |" in table and "times as fast" in table and "prefill" not in table, table

    broken = write(folder, "broken", "#!/bin/sh\necho no such file >&2\nexit 3\n")
    silent = write(folder, "silent", "#!/bin/sh\necho hello\n")
    refused(ask, "no --peer")
    refused([*ask, "--peer", "x"], "NAME=LLAMA_BENCH")
    refused([*ask, "--peer", f"tern={slow}"], "another name")
    refused([*ask, "--peer", f"a={slow}", "--peer", f"a={slow}"], "two peers of one name")
    refused([*ask, "--peer", "a=/nowhere/llama-bench"], "a: /nowhere/llama-bench: No such file")
    refused([*ask, "--peer", f"a={broken}"], "ended with 3: no such file")
    refused([*ask, "--peer", f"a={silent}"], "printed no JSON")
    refused([*ask, "-t", "0", "--peer", f"a={slow}"], "numbers above 0")
    refused([*ask, "-p", "x", "--peer", f"a={slow}"], "a number of tokens")
