#!/usr/bin/env python3
"""Programs that were compiled against the headers of earlier releases run with this library.

For each folder of tests/releases: program.c is compiled against it and run with the library; members of its structs
and its enumerators are where they were; members that were added to a struct lie behind all that it had, or in its `reserved` room. The same
program is also compiled against headers made of this library's: sized structs lack their last member there, as in an
earlier release, or have more, as in a later one. Usage: check.py REPOSITORY CC LIBRARY MODEL"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

STRUCT = re.compile(r"typedef struct (tern_\w+) \{\n(.*?)\n\} \1;", re.S)
ENUM = re.compile(r"enum(?: tern_\w+)? \{(.*?)\}", re.S)
# The library alone makes these: they may grow at their end.
LENT = {"tern_piece", "tern_request_piece", "tern_request_result", "tern_finetune_event", "tern_finetune_plan"}


def bare(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def text_of(include):
    return "\n".join(bare(p.read_text()) for p in sorted(include.rglob("*.h")))


def declared(body):
    """The names that declarations of members declare: "uint32_t a, *b[4]; void (*f)(int);" gives a, b, f."""
    body = re.sub(r"\(\*(\w+)\)\([^)]*\)", r" \1", body)
    for declaration in filter(None, (d.strip() for d in body.split(";"))):
        for name in declaration.split(","):
            yield re.search(r"(\w+)(?:\[\w+\])*$", name.strip()).group(1)


def members_of(body):
    """All members of a struct, those of a group as "cpu.pin"; room for later ones is none."""
    groups = re.compile(r"struct \{(.*?)\n    \} (\w+);", re.S)
    for inner, group in groups.findall(body):
        yield group
        yield from (f"{group}.{name}" for name in declared(inner) if name != "reserved")
    yield from (name for name in declared(groups.sub("", body)) if name != "reserved")


def structs_of(text):
    return {name: list(members_of(body)) for name, body in STRUCT.findall(text)}


def enumerators_of(text):
    for body in ENUM.findall(text):
        if "#define" not in body:
            yield from re.findall(r"(TERN_\w+)(?= =|,|\s*$)", body.strip())
    yield from (f"TERN_{name}" for name in re.findall(r"X\((\w+), \d+,", text))  # the list of statuses


def compile_and_run(cc, folder, source, include, library=None, defines=(), arguments=()):
    program = folder / "program"
    linked = [library, f"-Wl,-rpath,{Path(library).parent}"] if library else []
    subprocess.run([cc, "-Wall", "-Wextra", "-Werror", *defines, source, "-I", include, "-o", program, *linked],
                   check=True)
    done = subprocess.run([program, *arguments], stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.split() if done.returncode == 0 else None


def numbers_of(cc, folder, include, expressions):
    """What a compiler makes of the expressions with these headers."""
    lines = "\n".join(f'printf("%lld\\n", (long long){e});' for e in expressions)
    source = folder / "numbers.c"
    source.write_text(f"#include <stddef.h>\n#include <stdio.h>\n#include <tern.h>\nint main(void)\n{{\n{lines}\n}}\n")
    return dict(zip(expressions, map(int, compile_and_run(cc, folder, source, include))))


def room_of(cc, folder, old, struct, size):
    """Where a struct may get members: behind all that it had, or from its room for later members on."""
    body = next(body for name, body in STRUCT.findall(text_of(old)) if name == struct)
    if "reserved" not in declared(re.sub(r"struct \{(.*?)\n    \} (\w+);", "", body, flags=re.S)):
        return size
    at = f"offsetof({struct}, reserved)"
    return numbers_of(cc, folder, old, [at])[at]


def moved(cc, folder, old, new):
    """What is not where it was, in words."""
    before, after = structs_of(text_of(old)), structs_of(text_of(new))
    gone = [f"{s}.{m}: gone" for s in before for m in before[s] if m not in after.get(s, ())]
    if gone:
        return gone
    places = [f"offsetof({s}, {m})" for s in before for m in before[s]] + list(enumerators_of(text_of(old)))
    sizes = [f"sizeof({s})" for s in before]
    then, now = (numbers_of(cc, folder, include, places + sizes) for include in (old, new))
    bad = [f"{what}: {now[what]}, {then[what]} before" for what in places if now[what] != then[what]]
    for s in before:
        size = f"sizeof({s})"
        grows = "size" in before[s] or s in LENT  # groups are listed before it
        if now[size] != then[size] and not (grows and now[size] > then[size]):
            bad.append(f"{size}: {now[size]}, {then[size]} before")
        added = [f"offsetof({s}, {m})" for m in after[s] if m not in before[s] and "." not in m]
        found = numbers_of(cc, folder, new, added) if added else {}
        room = room_of(cc, folder, old, s, then[size])
        bad += [f"{what}: {at}, but {size} was {then[size]}" for what, at in found.items() if at < room]
    return bad


def changed(include, into, change):
    """A copy of the headers whose sized structs are changed: change(body) gives the new body."""
    def replace(match):
        body = match.group(2)
        sized = re.search(r"^    size_t size;", body, re.M)
        return match.group(0).replace(body, change(body)) if sized else match.group(0)
    for path in include.rglob("*.h"):
        copy = into / path.relative_to(include)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(STRUCT.sub(replace, bare(path.read_text())))
    return into


def without_last(body):
    return re.sub(r"\n[^\n]*;\s*$", "", body)


def with_later(body):
    return body + "\n    unsigned long long later[4];"


def main(repository, cc, library, model):
    repository = Path(repository)
    current, source = repository / "include", repository / "tests/releases/program.c"
    releases = sorted(p for p in (repository / "tests/releases").iterdir() if p.is_dir())
    bad = [] if releases else ["no release in tests/releases"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ways = [(f"release {r.name}", r, ()) for r in releases]
        ways += [("headers with fewer members", changed(current, folder / "earlier", without_last), ()),
                 ("headers with more members", changed(current, folder / "later", with_later), ("-DTERN_TEST_LATER",))]
        for what, include, defines in ways:
            if compile_and_run(cc, folder, source, include, library, defines, (model, folder / "out.gguf")) is None:
                bad.append(f"{what}: a program of that kind fails with this library")
        for release in releases:
            bad += [f"{release.name}: {words}" for words in moved(cc, folder, release, current)]
        # the check itself: a member in front moves the others, and one that is gone is missed
        front = changed(current, folder / "front", lambda body: body.replace("\n", "\n    int first;\n", 1))
        for what, include in (("earlier", folder / "earlier"), ("front", front)):
            if not moved(cc, folder, current, include):
                bad.append(f"headers that are changed ({what}) are taken for the same")
    print(*bad, sep="\n")
    return len(bad) > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
