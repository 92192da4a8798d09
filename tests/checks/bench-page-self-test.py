#!/usr/bin/env python3
"""bench-page.py renders measurements, replaces a row that was measured again, and finds a page that was edited by hand.
Usage: bench-page-self-test.py"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/bench-page.py"
RATES = {"median": 1234.5, "min": 1200, "max": 1300}
BENCH = {"cpu": "EPYC", "machine": {"date": "2026-01-02T03:04:05Z"}, "model": "bitnet-b1.58 i2_s", "head": "f16",
         "prompt_tokens": 512, "depth": 64,
         "results": [{"threads": 2, "prefill_tokens_per_second": RATES, "decode_tokens_per_second": None}]}
PEERS = {"model": "/tmp/small.gguf", "date": "2026-01-03", "prompt": 128, "decode": 16, "results": [
    {"threads": 1, "phase": "decode", "engine": "tern", "tokens_per_second": {"median": 20.0}},
    {"threads": 1, "phase": "decode", "engine": "peer", "version": "abc123", "tokens_per_second": {"median": 8.04},
     "tern_over_it": {"median": 2.5}}]}
MACHINE = {"machine": "A machine", "notes": ["A note."], "rows": [
    {"model": "other", "run": "decode", "rate": [9.0, 10.5], "date": "2026-01-01", "commit": "0123abcd"},
    {"model": "small", "run": "CPU, decode of 16, 1 thread", "rate": 1, "date": "2026-01-01", "commit": "0123abcd"}]}


def run(*words, status=0):
    done = subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True)
    assert done.returncode == status, f"{words}: {done.returncode} found, {status} expected: {done.stderr}"
    return done.stdout + done.stderr


def main():
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "docs/bench").mkdir(parents=True)
        paths = {key: root / f"{key}.json" for key in ("bench", "peers", "wrong")}
        for key, value in (("bench", BENCH), ("peers", PEERS), ("wrong", {})):
            paths[key].write_text(json.dumps(value))
        (root / "docs/bench/a.json").write_text(json.dumps(MACHINE))

        table = run("--table", paths["bench"], paths["peers"])
        assert "| bitnet-b1.58 i2_s, head f16 | CPU, prompt of 512, 2 threads | 1,234 |  |  |  | 2026-01-02 |" in table
        assert "| small | CPU, decode of 16, 1 thread | 20.0 | peer abc123 | 8.0 | 2.50 | 2026-01-03 |" in table

        run("--root", root, "--add", "a", paths["peers"])
        page = (root / "docs/bench.md").read_text()
        assert "## A machine\n\n- A note.\n\n| model |" in page
        assert page.count("| small |") == 1 and "| 20.0 | peer abc123 |" in page, page
        assert "| other | decode | 9.0 to 10.5 |  |  |  | 2026-01-01 | 0123abcd |" in page
        run("--root", root, "--check")
        (root / "docs/bench.md").write_text(page.replace("20.0", "21.0"))
        assert "is not what docs/bench gives" in run("--root", root, "--check", status=1)

        assert "the output of `tern bench --json` or peers.py expected" in run("--table", paths["wrong"], status=1)
        run("--table", status=2)


if __name__ == "__main__":
    main()
