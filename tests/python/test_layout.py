#!/usr/bin/env python3
"""The structs of python/tern/_native.py are those of include/tern.h: sizes, offsets and numbers of members, as a C
compiler sees them. Usage: test_layout.py REPOSITORY CC"""
import ctypes
import re
import subprocess
import sys
import tempfile
from pathlib import Path


GROUP = re.compile(r"struct \{(.*?)\n    \} (\w+);", re.S)


def count(body):
    """How many names a list of declarations has."""
    body = re.sub(r"\w[\w ]*\(\*(\w+)\)\([^)]*\)", r"fn \1", body)
    return sum(len(d.split(",")) for d in body.split(";") if d.strip())


def members_of(header, name):
    """How many members a struct of the header has, and those of each of its groups, by their names."""
    body = re.search(rf"typedef struct {name} {{(.*?)\n}} {name};", header, re.S).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    groups = {group: count(inner) for inner, group in GROUP.findall(body)}
    return {"": count(GROUP.sub(r"group \2;", body)), **groups}


def groups_of(struct):
    """The structs without a name of their own in a struct."""
    return {field: kind for field, kind in struct._fields_ if field in ("cpu", "gpu", "memory")}


def expectations(structs):
    for name, struct in structs.items():
        yield f"sizeof({name})", ctypes.sizeof(struct)
        for field, _ in struct._fields_:
            yield f"offsetof({name}, {field})", getattr(struct, field).offset
        for group, kind in groups_of(struct).items():
            for field, _ in kind._fields_:
                at = getattr(struct, group).offset + getattr(kind, field).offset
                yield f"offsetof({name}, {group}.{field})", at


def main(repository, compiler):
    sys.path.insert(0, str(Path(repository, "python")))
    from tern import _native

    header = "".join(p.read_text() for p in sorted(Path(repository, "include").rglob("*.h")))
    wanted = list(expectations(_native.STRUCTS))
    with tempfile.TemporaryDirectory() as folder:
        lines = "".join(f'printf("%zu\\n", (size_t){what});' for what, _ in wanted)
        source = Path(folder, "layout.c")
        source.write_text(f"#include <stddef.h>\n#include <stdio.h>\n#include <tern.h>\nint main(void) {{ {lines} }}\n")
        program = Path(folder, "layout")
        subprocess.run([compiler, source, "-I", Path(repository, "include"), "-o", program], check=True)
        found = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    bad = [f"{what}: {python} in Python, {c} in C" for (what, python), c in zip(wanted, found) if int(c) != python]
    for name, struct in _native.STRUCTS.items():
        here = {"": len(struct._fields_), **{g: len(kind._fields_) for g, kind in groups_of(struct).items()}}
        if members_of(header, name) != here:
            bad.append(f"{name}: members in Python: {here}, in C: {members_of(header, name)}")
    print(*bad, sep="\n")
    return len(bad) > 0 or len(found) != len(wanted)


sys.exit(main(*sys.argv[1:]))
