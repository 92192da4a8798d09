#!/usr/bin/env python3
"""Checks what the documentation says against what is there.

check.py links REPOSITORY            every relative link and picture of every page exists, with its heading; tables are whole;
                                     a page that a source names is there
check.py flags REPOSITORY TERN       every `tern COMMAND --flag` in a code block is one that this tern has; every command of
                                     it is on the manual page
check.py run   REPOSITORY TERN PAGE  runs the ```sh and ```python blocks of a page, in order, in a folder of its own
check.py release REPOSITORY          CMakeLists.txt, the wheel, the npm package and CHANGELOG name one version; the
                                     manual page has the date of its release, and docs/releases its notes
check.py unrun REPOSITORY            lists the blocks that are not run, of all pages (PAGES), and fails for those that
                                     give no reason or hide a command in an indented block

A block marked ```sh no-run (REASON) is only checked for its flags; REASONS are below. A block marked ```sh background
stays running behind those that follow, until the page ends; where it serves, it does so on a free port, by which 8080 is
replaced in all of the page. folder.py says what the folder has, and what the hub that `tern pull` asks. Training stops
after one step and measuring after one run where the page does not say how many, tuning measures for a millisecond
each, and curl fails where the server does.
"""
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import folder as page_folder

SKIPPED = {".git", "build", "node_modules", ".cache"}
SOURCES = (".c", ".h", ".cu", ".cuh", ".def", ".cmake", ".py", ".sh", ".mjs", ".js", ".wgsl", ".wesl")
REASONS = {"network", "GPU", "minutes", "hours", "an installation", "a build"}
COMMANDS = r"\s*(tern|make|cmake|cc|curl|pip|npm|npx|node|podman|awk|cd|scripts/\S+|[A-Z_]+=\S+) "
PAGES = ("*.md", "docs/*.md", "docs/guides/*.md", "docs/internals/**/*.md", "docs/reference/**/*.md", "*/README.md")
PRELUDE = """set -eu
tern() {
    case " $* " in
    *" --steps "* | *" --dry-run "*) command tern "$@" ;;
    " train "* | " finetune "*) command tern "$@" --steps 1 ;;
    " tune -m "*) command tern "$@" -t 1 --ms 1 --cold-mib 1 ;;
    " bench -m "*" -r "* | " bench "*" --kernels "*) command tern "$@" ;;
    " bench -m "*) command tern "$@" -r 1 ;;
    *) command tern "$@" ;;
    esac
}
curl() { command curl --fail-with-body -sS "$@"; }
"""


def pages(root):
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - SKIPPED)
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".md"))


def blocks(text):
    """(info string, first line's number, lines) of each code block; indented ones have the info string ''."""
    fence, found = None, None
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"\s*```(.*)", line)
        if mark and fence is None:
            fence, found = mark.group(1).strip(), (mark.group(1).strip(), number + 1, [])
        elif mark:
            yield found
            fence, found = None, None
        elif fence is not None:
            found[2].append(line)
        elif line.startswith("    "):
            yield "", number, [line.strip()]


def anchor(heading):
    """The anchor that a heading gets on the common hosts: lower case, words joined by -."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")


def prose(text):
    return re.sub(r"^\s*```.*?^\s*```", "", text, flags=re.M | re.S)


def check_named_pages(root):
    """Pages that comments and messages of sources name."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - SKIPPED)
        for file in (Path(folder, name) for name in files if name.endswith(SOURCES) or name == "CMakeLists.txt"):
            for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
                for page in re.findall(r"(?<![\w/.])docs/[\w./-]+\.md\b", line):
                    if not Path(root, page).exists() and file.name != "self_test.py":
                        yield f"{file.relative_to(root)}:{number}: {page}: no such page"


def check_links(root):
    yield from check_named_pages(root)
    anchors = {}
    for page in pages(root):
        headings = re.findall(r"^#+ +(.*)$", prose(page.read_text()), re.M)
        anchors[page.resolve()] = {anchor(h) for h in headings}
    for page in pages(root):
        for number, line in enumerate(page.read_text().splitlines(), 1):
            if "|---|" in line and not re.fullmatch(r"[|:-]+", line.strip()):
                yield f"{page.relative_to(root)}:{number}: a table whose rows share a line"
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(page.read_text()))):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, heading = target.partition("#")
            file = (page.parent / path).resolve() if path else page.resolve()
            if not file.exists():
                yield f"{page.relative_to(root)}: {target}: no such file"
            elif heading and heading not in anchors.get(file, set()):
                yield f"{page.relative_to(root)}: {target}: no such heading"


def flags_of(tern, command, known={}):
    if command not in known:
        done = subprocess.run([tern, command, "--help-all"], capture_output=True, text=True)
        found = set(re.findall(r"(?<![\w-])(--?[A-Za-z][\w-]*)", done.stdout))
        known[command] = found if done.returncode == 0 else None
    return known[command]


def words_of(line):
    line = re.sub(r"\s[|>&].*$", "", line)
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return shlex.split(re.sub(r"['\"].*", "", line))


def check_manual(root, tern):
    """Commands that the manual page does not have."""
    page = Path(root, "docs/reference/tern.1")
    listed = subprocess.run([tern, "help"], capture_output=True, text=True).stdout
    for name in re.findall(r"^  ([a-z-]+) ", listed, re.M) if page.exists() else []:
        if not re.search(rf"^\.It Cm {name}$", page.read_text(), re.M):
            yield f"docs/reference/tern.1: no {name}"


def check_flags(root, tern):
    yield from check_manual(root, tern)
    for page in pages(root):
        for _, number, lines in blocks(page.read_text()):
            for line in lines:
                words = words_of(line.removeprefix("$ ")) if re.match(r"\s*(\$ )?tern [a-z-]+( |$)", line) else []
                if len(words) < 2 or words[1] == "help":
                    continue
                known = flags_of(tern, words[1])
                if known is None:
                    yield f"{page.relative_to(root)}:{number}: tern {words[1]}: no such command"
                    continue
                for word in words[2:]:
                    flag = re.match(r"\[?(--[a-z][\w-]*|-[a-zA-Z](?![\w.]))", word)
                    if flag and flag.group(1) not in known | {"--help", "--help-all", "-h"}:
                        yield f"{page.relative_to(root)}:{number}: tern {words[1]} has no {flag.group(1)}"


def check_unrun(root):
    """Prints the list of blocks that are not run; yields what is wrong with it."""
    for page in sorted({page for pattern in PAGES for page in Path(root).glob(pattern)}):
        for info, number, lines in blocks(page.read_text()):
            place = f"{page.relative_to(root)}:{number}"
            commands = [line.strip() for line in lines if re.match(COMMANDS, line + " ")]
            if info == "" and commands:
                yield f"{place}: {commands[0]}: a block that is marked sh or sh no-run (REASON) expected"
            if not info.startswith("sh no-run"):
                continue
            reason = re.fullmatch(r"sh no-run \((.+)\)", info)
            if not reason or reason.group(1) not in REASONS:
                yield f"{place}: {info}: a reason expected, one of {', '.join(sorted(REASONS))}"
            else:
                print(f"not run ({reason.group(1)}): {place}: {commands[0] if commands else lines[0]}")


def check_release(root):
    """The newest release: its version everywhere, the date on the manual page, the notes."""
    def first(pattern, path):
        found = re.search(pattern, Path(root, path).read_text(), re.M)
        return found.group(1) if found else "none"

    version = first(r"^project\(tern VERSION ([\d.]+)", "CMakeLists.txt")
    for path, pattern in (("CHANGELOG.md", r"^## \[([\d.]+)\]"), ("web/package.json", r'^  "version": "(.*)"'),
                          ("python/pyproject.toml", r'^version = "(.*)"')):
        other = first(pattern, path)
        if other != version:
            yield f"{path}: version {other} found, {version} expected (CMakeLists.txt)"
    date = first(r"^## \[[\d.]+\] - (.*)$", "CHANGELOG.md")
    if date == "unreleased":
        return
    try:
        released = time.strptime(date, "%Y-%m-%d")
    except ValueError:
        yield f"CHANGELOG.md: date {date} found, YYYY-MM-DD or unreleased expected"
        return
    written, expected = first(r"^\.Dd (.*)$", "docs/reference/tern.1"), time.strftime("%B %-d, %Y", released)
    if written != expected:
        yield f"docs/reference/tern.1: .Dd {written} found, {expected} expected (CHANGELOG.md)"
    if not Path(root, f"docs/releases/{version}.md").exists():
        yield f"docs/releases/{version}.md: not found: the notes of the release expected"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listens(server, log):
    """Whether it says so before it ends, or half a minute has passed."""
    for _ in range(600):
        if "listening on" in log.read_text():
            return True
        if server.poll() is not None:
            return False
        time.sleep(0.05)
    return False


def run_page(root, tern, page):
    """Yields what failed. The page's blocks see TERN_SOURCE (the repository) and this tern on PATH; the models, the
    cache and the history of the user are out of their sight."""
    with tempfile.TemporaryDirectory() as folder:
        mine = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        env = dict(mine, PATH=f"{Path(tern).parent}:{os.environ['PATH']}", TERN_SOURCE=str(root), HOME=folder,
                   XDG_CACHE_HOME=f"{folder}/cache", XDG_DATA_HOME=f"{folder}/data",
                   PYTHONPATH=f"{root}/python", TERN_LIBRARY=str(Path(tern).parent / "libtern.so"), LC_ALL="C.UTF-8")
        work = Path(folder, "work")
        work.mkdir()
        page_folder.fill(work)
        behind, hub = [], page_folder.hub()
        env["HF_ENDPOINT"] = hub.endpoint
        port = str(free_port())
        try:
            for info, number, lines in blocks(Path(page).read_text()):
                if info not in ("sh", "sh background", "python"):
                    continue
                body = re.sub(r"\b8080\b", port, "\n".join(lines))
                if info == "sh background" and "--port" not in body:
                    body = body.replace("tern serve", f"tern serve --port {port}")
                script = [sys.executable, "-c", body] if info == "python" else ["bash", "-c", PRELUDE + body]
                place = f"{Path(page).name}:{number}"
                log = open(f"{folder}/log{number}", "w+")
                child = subprocess.Popen(script, cwd=work, env=env, stdin=subprocess.DEVNULL,
                                         stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
                if info == "sh background":
                    behind.append(child)
                    if not listens(child, Path(log.name)):
                        yield f"{place}: does not listen:\n{Path(log.name).read_text()}"
                        return
                    continue
                try:
                    status = child.wait(timeout=120)
                except subprocess.TimeoutExpired:
                    os.killpg(child.pid, signal.SIGKILL)
                    status = "none after 120 s"
                if status != 0:
                    yield f"{place}: exit status {status}:\n{Path(log.name).read_text()}"
                    return
        finally:
            hub.close()
            for child in behind:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGTERM)
                child.wait()


def main(what, root, *rest):
    check = {"links": check_links, "flags": check_flags, "run": run_page, "unrun": check_unrun,
             "release": check_release}[what]
    found = list(check(Path(root).resolve(), *rest))
    print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("links", "flags", "run", "unrun", "release"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
