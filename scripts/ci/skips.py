#!/usr/bin/env python3
"""Lists the tests that a run of CTest has skipped, as a whole or some of their cases, each with its reasons.

    skips.py SUMMARY LOG   SUMMARY: what CTest printed; LOG: its Testing/Temporary/LastTest.log

A reason is a line of the test's output that begins with "skipped: ". Exits with 1 where a test gives none."""
import re
import sys

WHOLE = re.compile(r"^\s*\d+ - (\S+) \((?:Skipped|Not Run|Disabled)\)$", re.M)
BLOCK = re.compile(r"^\d+/\d+ Test: (\S+)$(.*?)^\"\1\" end time:", re.M | re.S)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def main():
    summary, log = (read(path) for path in sys.argv[1:])
    tests, whole = dict(BLOCK.findall(log)), WHOLE.findall(summary)
    if not tests:
        sys.exit(f"{sys.argv[2]}: no tests found")
    silent = 0
    for name in sorted({*tests, *whole}):
        text = tests.get(name, "")
        cases = set(re.findall(r"^\[  SKIPPED \] (\w+)$", text, re.M))
        reasons = sorted(set(re.findall(r"^skipped: (.*)$", text, re.M)))
        if name in whole or cases:
            part = "" if name in whole else f" ({', '.join(sorted(cases))})"
            print(f"skipped: {name}{part}: {'; '.join(reasons) or 'no reason is given'}")
            silent += not reasons
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
