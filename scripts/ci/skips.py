#!/usr/bin/env python3
"""Lists the tests that a run of CTest has skipped, as a whole or some of their cases, each with its reasons.

    skips.py LOG   LOG: Testing/Temporary/LastTest.log

A reason is a line of the test's output that begins with "skipped: ". Exits with 1 where a test gives none."""
import re
import sys

BLOCK = re.compile(r"^\d+/\d+ Test: (\S+)$(.*?)^\"\1\" end time:", re.M | re.S)


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
        blocks = BLOCK.findall(file.read())
    if not blocks:
        sys.exit(f"{sys.argv[1]}: no tests found")
    silent = 0
    for name, text in blocks:
        whole = re.search(r"^Test (Skipped|Not Run)", text, re.M)
        cases = len(re.findall(r"^\[  SKIPPED \] \w+$", text, re.M)) // 2  # cmocka says each twice
        reasons = sorted(set(re.findall(r"^skipped: (.*)$", text, re.M)))
        if whole or cases or reasons:
            print(f"skipped: {name}{'' if whole else f', {cases} of its cases'}: {'; '.join(reasons) or 'no reason is given'}")
            silent += not reasons
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
