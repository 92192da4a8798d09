#!/usr/bin/env python3
"""Compares what `tern bench --json` measured with a record of earlier results, and fails where it is slower.

Usage: baseline.py [--file FILE] [--update] [--bar SHARE] [--least TOKENS_PER_SECOND] BENCH.json [BENCH.json ...]

A result is known by its device, model, head, activations, kernel, adapters, threads and steps at once. It fails below
SHARE (0.9) of the recorded prefill or decode, and below --least tokens a second of decode; one that is not in the record
is said, and fails nothing. --update writes the results into the record instead. Exit status: 0 all is well, 1 something
is slower, 2 wrong words or files.
"""
import argparse
import json
import sys
from pathlib import Path

RECORD = Path(__file__).resolve().parent.parent / "tests/baselines.json"
KEYS = ("device", "model", "parameters", "head", "activations", "kernel", "no_fusion", "adapters", "prompt_tokens")
MEASURED = ("prefill_tokens_per_second", "decode_tokens_per_second")


def fail(message):
    print(f"baseline.py: {message}", file=sys.stderr)
    sys.exit(2)


def read(path):
    try:
        return json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        return fail(f"{path}: {error}")


def rows(path):
    """(key, {measured: median}, machine) of each row of a bench."""
    document = read(path)
    if not isinstance(document, dict) or "results" not in document:
        fail(f"{path}: no output of `tern bench --json`: \"results\" expected")
    key = {name: document.get(name) for name in KEYS}
    key["device"] = document.get("device") or document.get("cpu")
    for row in document["results"]:
        rates = {what: row[what]["median"] for what in MEASURED if row.get(what)}
        whole = {**key, "threads": row.get("threads"), "steps": row.get("gpu_steps", 0)}
        yield whole, rates, document.get("machine", {})


def words(key):
    place = f"{key['steps']} steps" if key["steps"] else f"{key['threads']} threads"
    return f"{key['device']}, {key['model']} {key['parameters'] / 1e9:.2f} G, {place}"


def update(record, key, rates, machine):
    record[:] = [r for r in record if r["key"] != key]
    record.append({"key": key, **rates, "machine": machine})


def compare(record, key, rates, o):
    """Prints a line for each rate; how many are too slow."""
    known = next((r for r in record if r["key"] == key), None)
    slow = 0
    for what, value in rates.items():
        least = o.least if what.startswith("decode") else 0
        before = known.get(what) if known else None
        bad = value < least or (before is not None and not value >= o.bar * before)
        against = f"{value / before:.2f} of {before:.2f}" if before else "not in the record"
        print(f"{'SLOWER' if bad else 'ok':6}  {words(key)}: {what.split('_')[0]} {value:.2f} tokens/s, {against}"
              + (f", at least {least:g} expected" if value < least else ""))
        slow += bad
    return slow


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", type=Path, default=RECORD)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--bar", type=float, default=0.9)
    parser.add_argument("--least", type=float, default=0)
    parser.add_argument("bench", nargs="+")
    o = parser.parse_args()
    if not 0 < o.bar <= 1:
        fail(f"--bar {o.bar}: above 0, at most 1 expected")
    record = read(o.file) if o.file.exists() else []
    slow = 0
    for path in o.bench:
        for key, rates, machine in rows(path):
            if o.update:
                update(record, key, rates, machine)
            else:
                slow += compare(record, key, rates, o)
    if o.update:
        record.sort(key=lambda r: json.dumps(r["key"], sort_keys=True))
        o.file.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
