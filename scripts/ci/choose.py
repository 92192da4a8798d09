#!/usr/bin/env python3
"""Chooses the steps of .ci/run by what has changed since a commit that passed.

    choose.py [--root REPOSITORY] [COMMIT]

A file is touched when it, or a file that it includes by whatever chain, has changed. A step runs when it proves
something of a touched file (PROVES); every step runs when one of EVERYTHING has changed, when a changed file belongs
to no area that is known, and without a COMMIT or with one that is no ancestor of HEAD. Prints lines for the shell,

    steps=test lint asan
    touched=infer|apps        (folders of tests, as a regular expression; empty: not known)
    sources=src/infer/batch.c (that are touched, by spaces)

and on stderr which steps are left out, and why."""
import argparse
import os
import re
import subprocess
import sys

STEPS = ("test", "shared", "shaders", "lint", "asan", "tsan", "arm64", "web", "webgpu", "interop", "install", "cuda")
EVERYTHING = r"\.ci/|scripts/(ci/|install-deps|layers)|cmake/|CMake|Makefile|src/base/|tests/(support/|main\.c)"
DOCS = r"docs/|[^/]*\.md$|.*/README\.md$|LICENSE|\.clang-format"
KNOWN = r"src/|include/|tests/|web/|tools/|models/|examples/|python/|bench/|scripts/|\.gitignore"
ENGINE = r"src/(?!backend/cuda/)|include/|models/"  # what every step but `cuda` compiles or runs
PROVES = {
    "shaders": r"src/backend/gpu/|tools/wgsl/",
    "lint": r"src/|include/|\.clang-tidy",
    "asan": ENGINE + r"|tests/.*\.([ch]|py|sh)$|tests/fuzz/|examples/",
    "tsan": ENGINE + r"|tests/.*\.[ch]$",
    "arm64": r"src/(quant|ops|backend/cpu)/|tests/(quant|ops|backend/cpu)/|tests/infer/|tests/data/",
    "web": r"web/|src/(?!backend/(cuda|vulkan)/|serve/|hub/|ranks/|apps/)|include/|models/|tests/.*\.[ch]$",
    "webgpu": r"web/lib/|src/(ops|quant|graph|backend/(gpu|webgpu))/|tests/backend/gpu/|tools/wgsl/",
    "interop": r"tests/(interop|serve)/|src/(?!backend/(cuda|vulkan|gpu|webgpu)/|train/)|include/",
    "install": r"include/|examples/|models/|src/(api|apps)/",
    "cuda": r"src/backend/cuda/",
}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)
COMPILED = (".c", ".h", ".inc", ".def", ".cu", ".cuh", ".cpp", ".hpp")


def included_by(root):
    """For each file the files that include it."""
    by = {}
    for top in ("src", "include", "tests"):
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = [name for name in folders if name not in ("node_modules", "corpus")]
            for name in names:
                if not name.endswith(COMPILED):
                    continue
                path = os.path.relpath(os.path.join(folder, name), root)
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    for target in INCLUDE.findall(file.read()):
                        for place in ("src", "include", "tests", os.path.dirname(path)):
                            by.setdefault(os.path.normpath(os.path.join(place, target)), set()).add(path)
    return by


def touched(changed, by):
    found, left = set(), list(changed)
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += by.get(path, ())
    return found


def git(root, *words):
    done = subprocess.run(("git", "-C", root, *words), capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def changed_since(root, commit):
    """The files that differ from a commit, those not committed included; None where it is no ancestor."""
    if not re.fullmatch("[0-9a-f]{40}", commit) or git(root, "merge-base", "--is-ancestor", commit, "HEAD") is None:
        return None
    names = git(root, "diff", "--name-only", "--no-renames", "-z", commit)
    others = git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return None if names is None or others is None else [name for name in (names + others).split("\0") if name]


def choose(changed, by):
    """(steps, touched files or None where all count as touched, why)."""
    if changed is None:
        return list(STEPS), None, "no commit is known that passed here: every step runs"
    if not changed:
        return list(STEPS), None, "this commit has passed here: every step runs once more"
    for path in changed:
        if re.match(EVERYTHING, path):
            return list(STEPS), None, f"{path} has changed: every step runs"
        if not re.match(DOCS, path) and not re.match(KNOWN, path):
            return list(STEPS), None, f"{path} has changed, which belongs to no area: every step runs"
    if all(re.match(DOCS, path) for path in changed):
        return ["docs"], set(changed), f"{len(changed)} files of the documentation have changed: its checks run"
    code = touched([path for path in changed if not re.match(DOCS, path)], by)
    steps = [step for step in STEPS if step not in PROVES or any(re.match(PROVES[step], path) for path in code)]
    return steps, code, f"{len(changed)} files have changed, {len(code)} are touched"


def folders_of(code):
    """The programs of tests that touched files make, and those of the layers that they lie in."""
    names = set()
    for path in code:
        parts = path.split("/")
        if parts[0] in ("src", "tests") and len(parts) > 2:
            names.add(parts[2] if parts[1] == "backend" and len(parts) > 3 else parts[1])
    return sorted(names)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    parser.add_argument("commit", nargs="?", default="")
    how = parser.parse_args()
    steps, code, why = choose(changed_since(how.root, how.commit), included_by(how.root))
    print(f"{why}.", file=sys.stderr)
    out = [step for step in STEPS if step not in steps]
    if out:
        print(f"Left out, as they prove nothing of the touched files: {' '.join(out)}.", file=sys.stderr)
    print(f"steps={' '.join(steps)}")
    print(f"touched={'|'.join(folders_of(code)) if code else ''}")
    sources = sorted(path for path in code or () if re.match(r"src/.*\.c$", path))
    print(f"sources={' '.join(sources)}")


if __name__ == "__main__":
    main()
