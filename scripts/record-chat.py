#!/usr/bin/env python3
"""Draws a conversation with a model as a terminal shows it: runs it, and writes what was typed and answered as an SVG.

    scripts/record-chat.py -o docs/pictures/chat.svg --tern build/release/tern [-- FLAGS OF tern chat] < lines.txt

    scripts/record-chat.py --check docs/pictures/chat.svg --tern build/release/tern

Each line of standard input is a message. The colours follow the reader's light or dark mode. --check holds the same
conversation again, with the messages and flags that the picture shows, and fails where the picture would be another.
"""
import argparse
import html
import re
import shlex
import subprocess
import sys
import textwrap

COLUMNS, LINE, WIDTH, MARGIN = 88, 20, 8.43, 20
STYLE = """
  rect { fill: #f7f9fb; stroke: #c5d0da; } text { font: 14px ui-monospace, Menlo, Consolas, monospace; fill: #1d2b36; }
  .typed { fill: #175a86; font-weight: bold; } .shell { fill: #5b6b78; }
  @media (prefers-color-scheme: dark) {
    rect { fill: #10171d; stroke: #33424e; } text { fill: #dbe4ea; } .typed { fill: #7fc4f2; } .shell { fill: #8fa0ad; }
  }
"""


def answers(command, messages):
    """What each message brings: a run with one more message begins as the one before it did."""
    before = ""
    for n in range(1, len(messages) + 1):
        said = subprocess.run(command, input="\n".join(messages[:n]) + "\n", capture_output=True, text=True, check=True)
        if not said.stdout.startswith(before):
            sys.exit("record-chat.py: two runs differ: --greedy or --seed N expected")
        yield said.stdout[len(before):].rstrip("\n")
        before = said.stdout


def wrapped(text):
    for line in text.split("\n"):
        yield from textwrap.wrap(line, COLUMNS) or [""]


def draw(lines):
    width, height = COLUMNS * WIDTH + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
           f'role="img" aria-label="A conversation with tern chat">', f"<style>{STYLE}</style>",
           f'<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1}" rx="8"/>']
    for i, (kind, text) in enumerate(lines):
        out.append(f'<text class="{kind}" x="{MARGIN}" y="{MARGIN + (i + 1) * LINE - 6}" xml:space="preserve">'
                   f"{html.escape(text, quote=False)}</text>")
    return "\n".join(out + ["</svg>", ""])


def record(tern, flags, messages):
    lines = [("shell", " ".join(["$ tern chat", *flags]))]
    for message, answer in zip(messages, answers([tern, "chat", *flags], messages)):
        lines += [("typed", line) for line in wrapped("> " + message)]
        lines += [("said", line) for line in wrapped(answer)]
    return draw(lines)


def check(path, tern):
    with open(path, encoding="utf-8") as file:
        picture = file.read()
    lines = re.findall(r'<text class="(\w+)"[^>]*>(.*)</text>', picture)
    flags = shlex.split(html.unescape(lines[0][1]).removeprefix("$ tern chat"))
    messages = []
    for before, (kind, text) in zip([("shell", "")] + lines, lines):
        if kind == "typed" and before[0] == "typed":  # a message that was wrapped
            messages[-1] += " " + html.unescape(text)
        elif kind == "typed":
            messages.append(html.unescape(text).removeprefix("> "))
    if not messages or record(tern, flags, messages) != picture:
        sys.exit(f"{path} is not what tern chat writes now: scripts/record-chat.py -o {path} draws it anew")


def main():
    parser = argparse.ArgumentParser(description="Draws a conversation with a model as an SVG.")
    to = parser.add_mutually_exclusive_group(required=True)
    to.add_argument("-o", "--output", metavar="FILE")
    to.add_argument("--check", metavar="FILE", help="whether this picture is what a run gives now")
    parser.add_argument("--tern", default="tern", metavar="FILE", help="the command (default: %(default)s)")
    parser.add_argument("flags", nargs="*", help="of tern chat")
    options = parser.parse_args()
    if options.check:
        return check(options.check, options.tern)
    messages = [line.rstrip("\n") for line in sys.stdin if line.strip()]
    if not messages:
        parser.error("no message on standard input: a line for each expected")
    with open(options.output, "w", encoding="utf-8") as file:
        file.write(record(options.tern, options.flags, messages))


if __name__ == "__main__":
    main()
