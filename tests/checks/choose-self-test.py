#!/usr/bin/env python3
"""What scripts/ci/choose.py must choose, in a small repository of its own."""
import os
import subprocess
import sys
import tempfile

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(SOURCE, "scripts", "ci"))
import choose  # noqa: E402  (from that folder)

FILES = {
    "src/base/alloc.h": "",
    "src/quant/encoding.h": '#include "base/alloc.h"\n',
    "src/text/json.c": '#include "text/json.h"\n',
    "src/text/json.h": "",
    "src/backend/cpu/kernel.h": "",
    "src/backend/cpu/kernel.c": '#include "quant/encoding.h"\n',
    "src/backend/cuda/open.c": '#include "quant/encoding.h"\n',
    "src/backend/cuda/walk.cu": "",
    "src/apps/cmd.c": ' #  include "text/json.h"\n',
    "tests/text/test_json.c": '#include "json_cases.h"\n#include "text/json.h"\n',
    "tests/text/json_cases.h": "",
    "tests/quant/test_encoding.c": '#include "quant/encoding.h"\n#include "support/test.h"\n',
    "tests/backend/cpu/test_kernel.c": '#include "quant/encoding.h"\n#include "support/kernels.h"\n',
    "tests/apps/test_cmd.c": '#include "support/command.h"\n',
    "tests/support/test.h": "",
    "tests/support/paths.c": '#include "support/test.h"\n',
    "tests/support/command.h": "",
    "tests/support/kernels.h": "",
    "tests/support/kernels_run.c": '#include "backend/cpu/kernel.h"\n#include "support/kernels.h"\n',
    "docs/README.md": "",
    "README.md": "",
    ".ci/run": "",
    "cmake/flags.cmake": "",
    "web/lib/index.js": "",
    "strange.bin": "",
}
WHOLE = set(choose.STEPS)
# changed files: steps that must run, steps that must not
CASES = [
    ([], WHOLE, set()),
    (["docs/README.md", "README.md"], {"docs"}, WHOLE),
    ([".ci/run"], WHOLE, set()),
    (["cmake/flags.cmake", "docs/README.md"], WHOLE, set()),
    (["src/base/alloc.h"], WHOLE, set()),
    (["tests/support/test.h"], WHOLE, set()),
    (["strange.bin"], WHOLE, set()),
    (["src/quant/encoding.h"], {"test", "arm64", "cuda", "asan", "web", "webgpu", "lint"}, {"shaders"}),
    (["src/text/json.h"], {"test", "shared", "asan", "tsan", "web", "interop", "lint"}, {"arm64", "cuda", "webgpu"}),
    (["src/backend/cuda/walk.cu"], {"test", "cuda"}, {"web", "asan", "arm64", "interop"}),
    (["web/lib/index.js"], {"test", "web", "webgpu"}, {"asan", "arm64", "lint", "cuda"}),
    (["tests/text/json_cases.h", "docs/README.md"], {"test", "asan"}, {"lint", "interop", "cuda", "webgpu"}),
    (["src/text/gone.c"], {"test", "asan", "web"}, {"cuda", "docs"}),
]
# changed files: the folders of tests that call nothing of them
UNREACHED = [
    (["src/text/json.c"], ["cpu", "quant"]),
    (["src/backend/cpu/kernel.c", "README.md"], ["quant", "text"]),
    (["src/backend/cpu/kernel.wesl"], ["quant", "text"]),
    (["src/quant/encoding.h"], ["text"]),
    (["src/apps/cmd.c"], ["cpu", "quant", "text"]),
    (["tests/text/json_cases.h"], ["apps", "cpu", "quant"]),
    (["web/lib/index.js", "scripts/lint.sh"], ["apps", "cpu", "quant", "text"]),
    (["models/stories.gguf"], []),
    (["tests/text/words.txt", "src/apps/cmd.c"], []),
]


def git(root, *words):
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(("git", "-C", root, *identity, *words), check=True, capture_output=True, text=True).stdout.strip()


def write(root, name, text):
    os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
    with open(os.path.join(root, name), "w", encoding="utf-8") as file:
        file.write(text)


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {found}, {wanted} expected")


def check_commits(root):
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    first = git(root, "rev-parse", "HEAD")
    expect("nothing changed", choose.changed_since(root, first), [])
    write(root, "src/text/json.h", "/* more */\n")
    git(root, "commit", "-q", "-a", "-m", "second")
    write(root, "docs/new.svg", "")
    expect("a commit and a new file", sorted(choose.changed_since(root, first)), ["docs/new.svg", "src/text/json.h"])
    git(root, "checkout", "-q", "--orphan", "other")
    git(root, "commit", "-q", "-m", "other")
    for commit in ("", "main", "0" * 40, first):
        expect(f"no ancestor: {commit}", choose.changed_since(root, commit), None)


def main():
    expect("unknown", choose.choose(None, {})[0], list(choose.STEPS))
    with tempfile.TemporaryDirectory() as root:
        for name, text in FILES.items():
            write(root, name, text)
        by = choose.included_by(root)
        for changed, runs, left_out in CASES:
            steps = set(choose.choose(changed, by)[0])
            if not runs <= steps or steps & left_out:
                sys.exit(f"{changed}: chosen {sorted(steps)}, {sorted(runs)} expected and not {sorted(left_out)}")
        for changed, folders in UNREACHED:
            code = choose.choose(changed, by)[1]
            expect(f"unreached by {changed}", choose.unreached(root, changed, code, by), folders)
        code = choose.choose(["src/text/json.h"], by)[1]
        expect("touched", sorted(code), ["src/apps/cmd.c", "src/text/json.c", "src/text/json.h", "tests/text/test_json.c"])
        expect("folders", choose.folders_of(code), ["apps", "text"])
        check_commits(root)


if __name__ == "__main__":
    main()
