#!/usr/bin/env python3
"""check.py finds a planted dead link, a heading, a flag, a command and a failing block. Usage: self_test.py TERN"""
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = """# A heading
[file](missing.md) [heading](#missing) [good](#a-heading)

    tern run --modell x      # a flag that is none
    tern nur

```sh
echo said; false
```
"""
EXPECTED = {
    "links": ["missing.md: no such file", "#missing: no such heading"],
    "flags": ["tern run has no --modell", "tern nur: no such command"],
    "run": ["exit status 1:\nsaid"],
}


def main(tern):
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.md")
        page.write_text(PAGE)
        for what, expected in EXPECTED.items():
            rest = {"links": [], "flags": [tern], "run": [tern, str(page)]}[what]
            done = subprocess.run([sys.executable, str(Path(__file__).with_name("check.py")), what, folder, *rest],
                                  capture_output=True, text=True)
            for words in expected:
                if words not in done.stdout or done.returncode != 1:
                    sys.exit(f"check.py {what} missed {words!r}:\n{done.stdout}{done.stderr}")
            if "good" in done.stdout or "#a-heading" in done.stdout:
                sys.exit(f"check.py {what} found what is right:\n{done.stdout}")


main(sys.argv[1])
