#!/usr/bin/env python3
"""What each pass of fusion is worth: `tern bench` with all passes and without each, in turns, as a Markdown table.

Usage: ablation.py [--rounds N] [--passes a,b,...] MODEL [ARGUMENT OF tern bench ...]
The passes are those that `tern bench --help` lists. Rounds are A B A C A D ...: what changes over time changes for all.
"""
import argparse
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

TERN = Path(__file__).resolve().parent.parent / "build/release/tern"


def names():
    """The rows below --no-fusion in the help."""
    text = subprocess.run([TERN, "bench", "--help-all"], check=True, capture_output=True, text=True).stdout
    below = text[text.index("--no-fusion"):].splitlines()[1:]
    return [m.group(1) for m in (re.match(r" {30,}(\w+) {2,}\S", line) for line in below) if m]


def bench(model, arguments, without):
    """The last row (all threads, or the largest number of steps) of one bench."""
    command = [TERN, "bench", "-m", model, "-r", "1", "--json", *arguments]
    if without:
        command += ["--no-fusion", without]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {result.stderr.strip()}")
    return json.loads(result.stdout)


def rate(document, what):
    rates = document["results"][-1][f"{what}_tokens_per_second"]
    return rates["median"] if rates else 0


def main():
    parser = argparse.ArgumentParser(usage="%(prog)s [--rounds N] [--passes LIST] MODEL [ARGUMENT OF tern bench ...]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--passes", help="names with commas between; all when not given")
    parser.add_argument("model")
    o, arguments = parser.parse_known_args()
    passes = (o.passes.split(",") if o.passes else names()) + ["all"]
    runs = {name: [] for name in ["", *passes]}
    for _ in range(o.rounds):
        for name in passes:
            runs[""].append(bench(o.model, arguments, ""))
            runs[name].append(bench(o.model, arguments, name))
    first = runs[""][0]
    print(f"{first.get('cpu') or first.get('device')}; {first['model']}, {len(runs[''])} and {o.rounds} runs, medians\n")
    print("| without | decode, tokens/s | gain of the pass | prefill, tokens/s | gain | dispatches a token |")
    print("|---|---|---|---|---|---|")
    base = {what: statistics.median(rate(d, what) for d in runs[""]) for what in ("decode", "prefill")}
    for name, documents in runs.items():
        row = [name or "nothing"]
        for what, digits in (("decode", 2), ("prefill", 1)):
            value = statistics.median(rate(d, what) for d in documents)
            row.append(f"{value:.{digits}f}")
            row.append(f"{100 * (base[what] / value - 1):+.1f} %" if name and value else "")
        counters = documents[0]["results"][-1].get("counters") or {}
        row.append(f"{counters['dispatches_per_token']:.0f}" if counters.get("dispatches_per_token") else "-")
        print("| " + " | ".join(row) + " |")


main()
