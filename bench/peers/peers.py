#!/usr/bin/env python3
"""Times Tern and other engines on the same file, in turns, and prints the ratios.

    bench/peers/peers.py -m FILE --peer NAME=LLAMA_BENCH [--peer NAME=LLAMA_BENCH@FILE ...]
        [--tern build/release/tern] [--tern-args "--head exact"] [--peer-args "-fa 0"]
        [-p 512] [-n 64] [-t 1,2] [--rounds 5] [--json]

A peer is the program `llama-bench` of llama.cpp or of one of its kin (ik_llama.cpp, bitnet.cpp), built by whoever
runs this; @FILE is for a peer that cannot read Tern's file. Each round runs every engine once, one after the other, so
that all of them meet the machine in the same mood, and the order turns from round to round. A ratio is Tern's speed
over a peer's in the same round; the median of the rounds is printed, with the least and the most. One run of an engine
before the first round is not counted.
"""
import argparse
import datetime
import json
import shlex
import statistics
import subprocess
import sys


def fail(text):
    sys.exit(f"peers.py: error: {text}")


def run_json(command, name):
    """What a program prints as JSON on standard output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as e:
        fail(f"{name}: {command[0]}: {e.strerror}")
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        fail(f"{name}: `{shlex.join(command)}` ended with {done.returncode}: {said[-1] if said else 'it said nothing'}")
    try:
        return json.loads(done.stdout)
    except ValueError as e:
        fail(f"{name}: `{shlex.join(command)}` printed no JSON: {e}")


class Tern:
    name, version = "tern", ""

    def __init__(self, args):
        self.command = [args.tern, "bench", "-m", args.model, "-r", "1", "--json", *shlex.split(args.tern_args)]

    def rates(self, threads, prompt, decode):
        said = run_json([*self.command, "-t", str(threads), "-p", str(prompt), "-n", str(decode)], self.name)
        run, self.version = said["results"][0], said["machine"]["version"]
        return {"prefill": run["prefill_tokens_per_second"]["median"] if prompt else None,
                "decode": run["decode_tokens_per_second"]["median"] if decode else None}


class Peer:
    def __init__(self, text, args):
        self.name, equals, rest = text.partition("=")
        program, _, file = rest.partition("@")
        if not equals or not self.name or not program:
            fail(f'--peer "{text}": NAME=LLAMA_BENCH or NAME=LLAMA_BENCH@FILE expected')
        if self.name == Tern.name:
            fail('--peer "tern=...": another name expected')
        self.version = ""
        self.command = [program, "-m", file or args.model, "-r", "1", "-o", "json", *shlex.split(args.peer_args)]

    def rates(self, threads, prompt, decode):
        said = run_json([*self.command, "-t", str(threads), "-p", str(prompt), "-n", str(decode)], self.name)
        rates = {"prefill": None, "decode": None}
        for row in said:
            self.version = row.get("build_commit", "")
            if row.get("n_prompt", 0) > 0 and row.get("n_gen", 0) == 0:
                rates["prefill"] = row["avg_ts"]
            if row.get("n_gen", 0) > 0 and row.get("n_prompt", 0) == 0:
                rates["decode"] = row["avg_ts"]
        return rates


def measure(engines, threads, args):
    """{engine: [rates of round 0, 1, ...]}"""
    rates = {e.name: [] for e in engines}
    for k in range(args.rounds + 1):
        for e in engines[k % len(engines):] + engines[:k % len(engines)]:
            print(f"{threads} threads, round {k} of {args.rounds}, {e.name}   ", end="\r", file=sys.stderr, flush=True)
            one = e.rates(threads, args.prompt, args.decode)
            if k:
                rates[e.name].append(one)
    print(" " * 60, end="\r", file=sys.stderr)
    return rates


def summary(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def rows_of(rates, versions, threads):
    """One row for each phase and engine: its speed, and Tern's over it."""
    for phase in ("prefill", "decode"):
        ours = [r[phase] for r in rates[Tern.name]]
        for name, rounds in rates.items():
            theirs = [r[phase] for r in rounds]
            if None in theirs or None in ours:
                continue
            row = {"threads": threads, "phase": phase, "engine": name, "version": versions[name],
                   "tokens_per_second": summary(theirs)}
            if name != Tern.name:
                row["tern_over_it"] = summary([a / b for a, b in zip(ours, theirs)])
            yield row


def print_table(rows):
    print("| threads | phase | engine | tokens/s | Tern is |")
    print("|---|---|---|---|---|")
    for r in rows:
        speed, ratio = r["tokens_per_second"], r.get("tern_over_it")
        times = f"{ratio['median']:.2f} times as fast ({ratio['min']:.2f} to {ratio['max']:.2f})" if ratio else ""
        print(f"| {r['threads']} | {r['phase']} | {r['engine']} | {speed['median']:.1f} ({speed['min']:.1f} to "
              f"{speed['max']:.1f}) | {times} |")


def count(text):
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f'"{text}": a number of tokens, 0 or more, expected')
    return int(text)


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True, help="the file that all engines read")
    p.add_argument("--peer", action="append", default=[], metavar="NAME=PROGRAM[@FILE]", help="may be repeated")
    p.add_argument("--tern", default="build/release/tern", help="default: %(default)s")
    p.add_argument("--tern-args", default="", metavar="FLAGS", help="further flags of tern bench, in one word")
    p.add_argument("--peer-args", default="", metavar="FLAGS", help="further flags of every llama-bench, in one word")
    p.add_argument("-p", "--prompt", type=count, default=512, metavar="N", help="tokens of prefill, 0: none")
    p.add_argument("-n", "--decode", type=count, default=64, metavar="N", help="tokens of decode, 0: none")
    p.add_argument("-t", "--threads", default="1", metavar="LIST", help="numbers of threads, with commas")
    p.add_argument("--rounds", type=int, default=5, metavar="N", help="default: %(default)s")
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    if not args.peer:
        fail("no --peer: NAME=LLAMA_BENCH expected")
    if args.rounds < 1 or not args.prompt + args.decode:
        fail("--rounds of at least 1 expected, and -p or -n above 0")
    if not all(t.isdigit() and int(t) > 0 for t in args.threads.split(",")):
        fail(f'--threads "{args.threads}": numbers above 0 with commas expected')
    return args


def main():
    args = parse()
    engines = [Tern(args), *(Peer(text, args) for text in args.peer)]
    if len({e.name for e in engines}) != len(engines):
        fail("two peers of one name")
    rows = []
    for t in args.threads.split(","):
        rates = measure(engines, int(t), args)
        rows += rows_of(rates, {e.name: e.version for e in engines}, int(t))
    if args.json:
        print(json.dumps({"model": args.model, "date": str(datetime.date.today()), "rounds": args.rounds, "prompt": args.prompt,
                          "decode": args.decode, "results": rows}, indent=2))
    else:
        print_table(rows)


if __name__ == "__main__":
    main()
