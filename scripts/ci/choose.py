#!/usr/bin/env python3
"""Chooses the steps of .ci/run by what has changed since a commit that passed.

    choose.py [--root REPOSITORY] [COMMIT]

A file is touched when it, or a file that it includes by whatever chain, has changed. A step runs when it proves
something of a touched file (PROVES); every step runs when one of EVERYTHING has changed, when a changed file belongs
to no area that is known, and without a COMMIT or with one that is no ancestor of HEAD. Prints lines for the shell,

    steps=test lint asan
    touched=infer|apps        (folders of tests, as a regular expression; empty: not known)
    unreached=quant|gpu       (folders of tests that call nothing of a touched file, likewise; empty: none)
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
# Files outside of src and of the tests of one folder: those of NO_GROUP are read by checks, which always run, and by no
# group of a folder; any other is taken to reach every group.
NO_GROUP = DOCS + r"|web/(?!serve)|examples/|python/|scripts/|tools/|tests/(checks|docs|fuzz|interop|python|ranks|releases)/"
LAYER_OF_HEADER = {"tern": "api", "batch": "infer"}  # of include/tern/, as scripts/layers.txt says; others are named alike
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
    return closure(changed, lambda path: by.get(path, ()))


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


def unit_of(path):
    """The layer that a source or a public header belongs to, of backends the backend; None of other files."""
    parts = path.split("/")
    if parts[0] == "include":
        name = parts[-1].split(".")[0]
        return LAYER_OF_HEADER.get(name, name)
    if parts[0] != "src" or len(parts) < 3:
        return None
    return "/".join(parts[1:3]) if parts[1] == "backend" and len(parts) > 3 else parts[1]


def closure(starts, edges):
    found, left = set(), list(starts)
    while left:
        item = left.pop()
        if item not in found:
            found.add(item)
            left += edges(item)
    return found


def folder_of_tests(path):
    """`infer` of tests/infer/test_batch.c, `gpu` of tests/backend/gpu/rows.c; None where no program is made of it."""
    match = re.match(r"tests/(?:backend/)?([a-z]+)/[^/]*\.[ch]$", path)
    if re.match(r"tests/backend/[^/]*$", path):
        return "backend"
    return match.group(1) if match and match.group(1) not in ("support", "fuzz", "interop") else None


def headers_of(source, includes):
    """The headers of which a source of tests/support defines functions: that of its name, op_case.h of op_case_run.c;
    where there is none, all that it includes of the folder, as paths.c defines what test.h declares."""
    headers = {path for path in includes if path.startswith("tests/support/")}
    name = os.path.splitext(source)[0]
    own = {path for path in headers if (name + "_").startswith(os.path.splitext(path)[0] + "_")}
    return own or headers


def reach_of_tests(root, by):
    """For each folder of tests the units of src that its program calls, through whatever is between. A file may call all
    of a unit of which it includes a header, and whatever that unit includes."""
    includes, units = {}, {}
    for target, sources in by.items():
        for source in sources if os.path.isfile(os.path.join(root, target)) else ():
            includes.setdefault(source, set()).add(target)
            if unit_of(source) and unit_of(target):
                units.setdefault(unit_of(source), set()).add(unit_of(target))
    defined = {}
    for source in [path for path in includes if re.match(r"tests/support/.*\.c$", path)]:
        for header in headers_of(source, includes[source]):
            defined.setdefault(header, []).append(source)

    def next_files(path):
        return () if unit_of(path) else [*includes.get(path, ()), *defined.get(path, ())]

    reach = {}
    for folder in {folder_of_tests(path) for path in includes} - {None}:
        own = [path for path in includes if folder_of_tests(path) == folder]
        files = closure([*own, "tests/main.c"], next_files)
        if "tests/support/command.h" in files:  # it starts the command, which has all of them
            files = [*includes, *by]
        starts = {unit_of(path) for path in files} - {None}
        reach[folder] = closure(starts, lambda unit: units.get(unit, ()))
    return reach


def unreached(root, changed, code, by):
    """The folders of tests whose programs stay as they were."""
    changed = [path for path in changed if not re.match(NO_GROUP, path)]
    if not all(unit_of(path) or folder_of_tests(path) for path in changed):
        return []
    units = {unit_of(path) for path in [*changed, *code]}
    own = {folder_of_tests(path) for path in [*changed, *code]}
    return sorted(name for name, reach in reach_of_tests(root, by).items() if name not in own and not reach & units)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    parser.add_argument("commit", nargs="?", default="")
    how = parser.parse_args()
    changed, by = changed_since(how.root, how.commit), included_by(how.root)
    steps, code, why = choose(changed, by)
    print(f"{why}.", file=sys.stderr)
    out = [step for step in STEPS if step not in steps]
    if out:
        print(f"Left out, as they prove nothing of the touched files: {' '.join(out)}.", file=sys.stderr)
    apart = unreached(how.root, changed, code, by) if code else []
    if apart and steps != ["docs"]:
        print(f"Of the tests those of folders that call nothing of them: {' '.join(apart)}.", file=sys.stderr)
    print(f"steps={' '.join(steps)}")
    print(f"touched={'|'.join(folders_of(code)) if code else ''}")
    print(f"unreached={'|'.join(apart)}")
    sources = sorted(path for path in code or () if re.match(r"src/.*\.c$", path))
    print(f"sources={' '.join(sources)}")


if __name__ == "__main__":
    main()
