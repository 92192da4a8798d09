#!/usr/bin/env python3
"""check-sentences.py lists planted sentences with their line, and none that is plain. Usage: sentences-self-test.py"""
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/check-sentences.py"
WORDS = " ".join(["word"] * 30)
PAGE = f"""# What works

A plain sentence. What it does is hidden
here. Of these the first is taken.

- The same again
- In it are
  three files

| name | Whose file it is |
|---|---|
| `a` | plain; but for one |

1. What is the answer?
2. It is said that these are no models. There is no reason for it.
3. It is no longer here, and is no faster than before.

```sh
What a command
```

    Of a block

Before the file is the one that opens, a line is read. In the file `a.c` is a function.
One [two
three](page.md) four five six, {WORDS}. `Who it is` stays, {WORDS} one two three.
"""
HEADER = f"""/* What a header holds.
 *
 *     Of an example
 *
 * A plain line. Out goes the
 * oldest; {WORDS}; {WORDS}. */
int a; /* Beside it lies b */
const char *text = "/* What is in a string */";
/* Rows of a list are read one by one:
 *   one  {WORDS}
 *   two  {WORDS}
 * {WORDS}. */
"""
HELP = f"""What it does.

Usage: tern run

Flags:
  -m, --model PATH     What is opened;
                       the same as -f
      --long           {WORDS}
                       {WORDS}
      --list LIST             Names
                                first   {WORDS}
                                second  {WORDS}
"""
EXPECTED = {
    "readme": [1, 3, 4, 6, 7, 10, 12, 15, 15, 24, 25],
    "headers": [1, 5, 7],
    "help": [1, 6, 8],
}


def lines_of(output):
    return [int(line.split(":")[1]) for line in output.splitlines()[:-1]]


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "include").mkdir()
        (root / "README.md").write_text(PAGE)
        (root / "include/a.h").write_text(HEADER)
        tern = root / "tern"
        tern.write_text(f"#!/bin/sh\n[ \"$1\" = help ] && echo '  run  Lets a model write' || cat {root}/help\n")
        tern.chmod(0o755)
        (root / "help").write_text(HELP)
        for scope, expected in EXPECTED.items():
            done = subprocess.run([sys.executable, SCRIPT, "--root", root, "--tern", tern, scope],
                                  capture_output=True, text=True)
            if done.returncode != 1 or lines_of(done.stdout) != expected:
                sys.exit(f"{scope}: lines {expected} expected:\n{done.stdout}{done.stderr}")
        (root / "README.md").write_text("# A page\n\nA plain sentence.\n")
        done = subprocess.run([sys.executable, SCRIPT, "--root", root, "readme"], capture_output=True, text=True)
        if done.returncode != 0 or done.stdout != "2 sentences, 0 faults\n":
            sys.exit(f"a plain page: no fault expected:\n{done.stdout}{done.stderr}")


main()
