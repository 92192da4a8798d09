#!/usr/bin/env python3
"""check.py finds a planted dead link, a heading, a flag, a command, a failing block and one that hides. Usage: self_test.py TERN"""
import subprocess
import sys
import tempfile
from pathlib import Path

GUIDE = """# A guide

    tern run "hidden"

```sh no-run
tern version
```

```sh no-run (network)
tern pull a/b
```

    int c_is_no_command;
"""
PAGE = """# A heading
| a | b | |---|---| | c | d |

[file](missing.md) [heading](#missing) [good](#a-heading)

    tern run --modell x      # a flag that is none
    tern nur

```sh
echo said; false
```
"""
EXPECTED = {
    "links": ["missing.md: no such file", "page.md:2: a table", "#missing: no such heading",
              "source.c:1: docs/gone.md: no such page"],
    "flags": ["tern run has no --modell", "tern nur: no such command",
              "docs/reference/tern.1: no eval"],
    "unrun": ["page.md:6: tern run --modell x      # a flag that is none: a block that is marked", 'guide.md:3: tern run "hidden": a block that is marked', "guide.md:6: sh no-run: a reason expected",
              "not run (network): docs/guides/guide.md:10: tern pull a/b"],
    "run": ["exit status 1:\nsaid"],
    "release": ["web/package.json: version 0.1.9 found, 0.2.0 expected", "CHANGELOG.md: version 0.1.0 found",
                ".Dd none found, January 2, 2026 expected", "docs/releases/0.2.0.md: not found"],
}


def main(tern):
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.md")
        page.write_text(PAGE)
        Path(folder, "source.c").write_text("/* docs/gone.md, docs/guides/guide.md */\n")
        guides = Path(folder, "docs/guides")
        guides.mkdir(parents=True)
        Path(guides, "guide.md").write_text(GUIDE)
        manual = Path(folder, "docs/reference/tern.1")
        manual.parent.mkdir()
        manual.write_text(".It Cm run\n")
        for name, text in (("CMakeLists.txt", "project(tern VERSION 0.2.0 LANGUAGES C)\n"),
                           ("CHANGELOG.md", "## [0.1.0] - 2026-01-02\n"), ("web/package.json", '  "version": "0.1.9",\n'),
                           ("python/pyproject.toml", 'version = "0.2.0"\n')):
            Path(folder, name).parent.mkdir(exist_ok=True)
            Path(folder, name).write_text(text)
        for what, expected in EXPECTED.items():
            rest = {"links": [], "unrun": [], "release": [], "flags": [tern], "run": [tern, str(page)]}[what]
            done = subprocess.run([sys.executable, str(Path(__file__).with_name("check.py")), what, folder, *rest],
                                  capture_output=True, text=True)
            for words in expected:
                if words not in done.stdout or done.returncode != 1:
                    sys.exit(f"check.py {what} missed {words!r}:\n{done.stdout}{done.stderr}")
            if any(words in done.stdout for words in ("good", "#a-heading", "c_is_no_command")):
                sys.exit(f"check.py {what} found what is right:\n{done.stdout}")


main(sys.argv[1])
