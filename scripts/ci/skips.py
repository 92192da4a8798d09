#!/usr/bin/env python3
"""Lists the tests of a run of CTest that were skipped, as a whole or some of their cases, each with its reason.

    skips.py LOG SUMMARY   LOG: Testing/Temporary/LastTest.log; SUMMARY: a file that gets the names, one in each line

A reason is a line that the test prints, with a word of REASON in it. Exits with 1 where a test that CTest counts as
skipped, or a case that lacks something, gives none."""
import re
import sys

BLOCK = re.compile(r"^\d+/\d+ Test: (\S+)$(.*?)^\"\1\" end time:", re.M | re.S)
REASON = re.compile(r"\.\./shared|TERN_SHARED|^skipped: |^missing: |^Missing: ?", re.M)


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
        blocks = BLOCK.findall(file.read())
    silent, names = [], []
    for name, text in blocks:
        whole = "Test Skipped" in text or "Test Not Run" in text
        output = text.split("-" * 58, 2)[1] if text.count("-" * 58) > 1 else text
        reasons = sorted({line.strip() for line in output.splitlines() if REASON.search(line)})
        cases = len(re.findall(r"^\[  SKIPPED \] .*(?<!listed below:)$", output, re.M))
        if not whole and not (cases and reasons):
            continue
        names.append(name)
        if not reasons:
            silent.append(name)
        print(f"skipped: {name}{'' if whole else ', some cases'}: {'; '.join(reasons) or 'no reason is given'}")
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.writelines(name + "\n" for name in names)
    if not blocks:
        print(f"{sys.argv[1]}: no tests found")
    return 1 if silent or not blocks else 0


if __name__ == "__main__":
    sys.exit(main())
