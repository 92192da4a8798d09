#!/usr/bin/env python3
"""Writes docs/bench.md from the results in docs/bench, one table for each machine.

bench-page.py                                 writes the page
bench-page.py --check                         fails when the page is not what the results give
bench-page.py --table RESULT.json...          prints the rows of measurements as a table
bench-page.py --add MACHINE RESULT.json...    puts them into docs/bench/MACHINE.json, then writes the page

RESULT.json is the output of `tern bench --json` or `bench/peers/peers.py --json`. A row replaces that of the same model
and run. MACHINE.json is {"machine", "notes": [...], "rows": [{"model", "run", "rate", "peer", "peer_rate", "ratio",
"date", "commit"}]}: a rate is a number of tokens/s or [lowest, highest], a missing ratio is computed from two numbers.
"""
import argparse
import datetime
import json
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = ("model", "run", "tokens/s", "peer", "its tokens/s", "ratio", "date", "commit")
HEAD = """# Speed

`scripts/bench-page.py` writes this page from the results in [docs/bench](bench), one table for each machine. To measure
your own machine, run `make bench`, `tern bench -m MODEL`, or [bench/peers/peers.py](../bench/peers/peers.py) to compare
with another engine on the same file.

- Rates are tokens/s. Two numbers are the lowest and the highest of several runs, one number is their median or the
  better one.
- Weights are random, in the shapes of the named model (`tern synth`). They run at the speed of trained ones, except
  where zeros are skipped.
- `ratio` is Tern's rate over the peer's on the same file, measured in turns.
- `commit` is the commit that recorded the result. A result stays until the same run is measured again on that
  machine. Earlier results and attempts are in [experiments](experiments/README.md).
"""


def fail(message):
    sys.exit(f"bench-page.py: error: {message}")


def read(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        return fail(f"{path}: {error}")


def shown(rate):
    if rate is None:
        return ""
    if isinstance(rate, list):
        return " to ".join(shown(one) for one in rate)
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def ratio(row):
    one, other = row["rate"], row.get("peer_rate")
    numbers = isinstance(one, (int, float)) and isinstance(other, (int, float))
    return row.get("ratio", one / other if numbers else None)


def table(rows):
    yield "| " + " | ".join(COLUMNS) + " |"
    yield "|---" * len(COLUMNS) + "|"
    for row in rows:
        times = ratio(row)
        cells = (row["model"], row["run"], shown(row["rate"]), row.get("peer", ""), shown(row.get("peer_rate")),
                 f"{times:.2f}" if times else "", row["date"], row["commit"])
        yield "| " + " | ".join(cells) + " |"


def item(note):
    return textwrap.fill(note, 120, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
                         break_on_hyphens=False)


def page(folder):
    text = [HEAD]
    for path in sorted(folder.glob("*.json")):
        machine = read(path)
        text += [f"## {machine['machine']}\n", *map(item, machine["notes"]), ""]
        text += [*table(machine["rows"]), ""]
    return "\n".join(text)


def commit_here():
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def threads(n):
    return f"{n} thread{'s' if n > 1 else ''}"


def bench_rows(document):
    """The rows of `tern bench --json`."""
    device = document.get("device") or "CPU"
    model = f"{document['model']}, head {document['head']}"
    for found in document["results"]:
        place = f"{found['gpu_steps']} tokens at once" if found.get("gpu_steps") else threads(found["threads"])
        runs = ((f"prompt of {document['prompt_tokens']}", found["prefill_tokens_per_second"]),
                (f"decode at depth {document['depth']}", found["decode_tokens_per_second"]))
        for run, rates in runs:
            if rates:
                yield {"model": model, "run": f"{device.split(':')[0]}, {run}, {place}", "rate": rates["median"],
                       "date": document["machine"]["date"][:10]}


def peer_rows(document):
    """The rows of `peers.py --json`: each peer beside Tern."""
    ours = {(r["threads"], r["phase"]): r for r in document["results"] if r["engine"] == "tern"}
    for found in document["results"]:
        if found["engine"] == "tern":
            continue
        one = ours[found["threads"], found["phase"]]
        n = document["prompt"] if found["phase"] == "prefill" else document["decode"]
        run = f"prompt of {n}" if found["phase"] == "prefill" else f"decode of {n}"
        yield {"model": Path(document["model"]).stem, "run": f"CPU, {run}, {threads(found['threads'])}",
               "rate": one["tokens_per_second"]["median"], "ratio": found["tern_over_it"]["median"],
               "peer": " ".join(filter(None, (found["engine"], found.get("version")))),
               "peer_rate": found["tokens_per_second"]["median"],
               "date": document.get("date") or str(datetime.date.today())}


def measured(paths):
    for path in paths:
        document = read(path)
        if not isinstance(document, dict) or "results" not in document:
            fail(f"{path}: {type(document).__name__} found, the output of `tern bench --json` or peers.py expected")
        for row in bench_rows(document) if "machine" in document else peer_rows(document):
            yield {**row, "commit": commit_here()}


def add(path, rows):
    machine = read(path)
    for row in rows:
        same = [i for i, r in enumerate(machine["rows"]) if all(r[k] == row[k] for k in ("model", "run"))]
        machine["rows"][same[0] if same else len(machine["rows"]):(same[0] + 1) if same else None] = [row]
    write(path, machine)


def write(path, machine):
    """One line for each note and row, so that a change of one is one line of a diff."""
    def lines(values):
        return ",\n  ".join(json.dumps(v, ensure_ascii=False) for v in values)
    path.write_text(f'{{"machine": {json.dumps(machine["machine"])},\n "notes": [\n  {lines(machine["notes"])}],\n'
                    f' "rows": [\n  {lines(machine["rows"])}]}}\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true")
    what.add_argument("--table", action="store_true")
    what.add_argument("--add", metavar="MACHINE")
    parser.add_argument("results", nargs="*", type=Path)
    args = parser.parse_args()
    file, folder = args.root / "docs/bench.md", args.root / "docs/bench"
    if bool(args.results) != bool(args.table or args.add):
        parser.error("RESULT.json expected with --table and --add, and only there")
    if args.table:
        return print("\n".join(table(measured(args.results))))
    if args.add:
        add(folder / f"{args.add}.json", measured(args.results))
    text = page(folder)
    if args.check and file.read_text() != text:
        fail(f"{file} is not what docs/bench gives: run scripts/bench-page.py")
    if not args.check:
        file.write_text(text)


if __name__ == "__main__":
    main()
