#!/usr/bin/env python3
"""The structs of python/tern/_native.py are those of include/tern.h: sizes, offsets and numbers of members, as a C
compiler sees them. Usage: test_layout.py REPOSITORY CC"""
import ctypes
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def members_of(header, name):
    """How many names a struct of the header declares."""
    body = re.search(rf"typedef struct {name} {{(.*?)\n}} {name};", header, re.S).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    body = re.sub(r"\w[\w ]*\(\*(\w+)\)\([^)]*\)", r"fn \1", body)
    return sum(len(d.split(",")) for d in body.split(";") if d.strip())


def expectations(structs):
    for name, struct in structs.items():
        yield f"sizeof({name})", ctypes.sizeof(struct)
        for field, _ in struct._fields_:
            yield f"offsetof({name}, {field})", getattr(struct, field).offset


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
        if members_of(header, name) != len(struct._fields_):
            bad.append(f"{name}: {len(struct._fields_)} members in Python, {members_of(header, name)} in C")
    print(*bad, sep="\n")
    return len(bad) > 0 or len(found) != len(wanted)


sys.exit(main(*sys.argv[1:]))
