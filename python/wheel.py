#!/usr/bin/env python3
"""Makes a wheel of the package that holds the library, with Python's own modules alone.

Usage: wheel.py LIBTERN [FOLDER]     prints the wheel's path; `pip install` takes it
Also a build backend (PEP 517): `TERN_LIBRARY=.../libtern.so pip install ./python` builds one by this file.
"""
from __future__ import annotations

import base64
import hashlib
import os
import re
import sys
import sysconfig
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


MODULE = "tern-cuda.so"
MARK = re.compile(rb"\0(\d+\.\d+\.\d+-[0-9a-f]{12})\0")


def module_of(library: bytes, module: Path) -> bytes:
    """A module that was built with this library; its mark says so (cmake/module-mark.cmake)."""
    data = module.read_bytes()
    found, expected = ({mark.decode() for mark in MARK.findall(bytes_)} for bytes_ in (data, library))
    if found != expected:
        raise SystemExit(f"{module} is of another build: {found} found, {expected} expected; `make cuda` makes it anew")
    return data


def version() -> str:
    found = re.search(r'^version = "(.*)"$', (HERE / "pyproject.toml").read_text(), re.M)
    assert found
    return found.group(1)


def metadata() -> str:
    return (f"Metadata-Version: 2.1\nName: tern\nVersion: {version()}\n"
            "Summary: Ternary (1.58-bit) and low-bit language models\nRequires-Python: >=3.9\nLicense: MIT\n")


def build(library: Path, folder: Path) -> Path:
    """One wheel for this system: Python's files, the library as tern/libtern.so with the module for NVIDIA GPUs that
    lies beside it, if any, and the records."""
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    info = f"tern-{version()}.dist-info"
    sources = [p for p in sorted((HERE / "tern").iterdir()) if p.suffix in (".py", ".typed")]
    files = {f"tern/{p.name}": p.read_bytes() for p in sources}
    files["tern/libtern.so"] = library.read_bytes()
    module = library.resolve().parent / MODULE
    if module.is_file():
        files[f"tern/{MODULE}"] = module_of(files["tern/libtern.so"], module)
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: tern\nRoot-Is-Purelib: false\n"
                              f"Tag: py3-none-{platform}\n").encode()
    files[f"{info}/LICENSE"] = (HERE.parent / "LICENSE").read_bytes()
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    files[f"{info}/RECORD"] = ("".join(lines) + f"{info}/RECORD,,\n").encode()
    made = folder / f"tern-{version()}-py3-none-{platform}.whl"
    unfinished = made.with_suffix(".part")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            wheel.writestr(name, data)
    unfinished.replace(made)
    return made


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: object = None) -> str:
    """PEP 517."""
    library = os.environ.get("TERN_LIBRARY", str(HERE.parent / "build/release/libtern.so"))
    if not Path(library).is_file():
        raise SystemExit(f"{library}: no such file; `make build` makes it, TERN_LIBRARY names another one")
    return build(Path(library), Path(wheel_directory)).name


def main() -> None:
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    folder = Path(sys.argv[2] if len(sys.argv) == 3 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    print(build(Path(sys.argv[1]), folder))


if __name__ == "__main__":
    main()
