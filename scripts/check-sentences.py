#!/usr/bin/env python3
"""Lists sentences that are hard to read, as far as a script can see it, with file and line.

check-sentences.py [--root REPOSITORY] [--tern TERN] SCOPE...

Scopes: readme, guides, headers (comments of include/), help (the output of TERN COMMAND --help-all), docs (all other
pages except decisions and experiments, which stay as they were recorded) and sources (comments of src/). The exit status is 1 when a sentence is listed.

Listed are inverted openings, phrases with a plainer form (PHRASES) and sentences of more than 35 words. A code span is
one word. Code blocks are left out. A semicolon ends a sentence in table cells, comments and help texts, a colon in
table cells. Help texts are read from the program, not from the sources: macros and defaults are resolved there.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

MOST_WORDS = 35
PLACES = "In|On|At|Behind|Beside|Besides|Under|Above|Below|Between|From|Among|Around|Inside|Within|Beyond|Over|To|With"
VERBS = "is|are|lies|lie|stands|stand|comes|come|goes|go|follows|follow|belongs|belong"
ARTICLES = "the|a|an|all|no|its|their|what|one|two|three"
NOUN = rf"(?!(?:{ARTICLES}|whose|that|which|where)\b)[^\s,.;:]+"
OPENINGS = [
    (r"(What|Whose|Who|Of|The same|But for)\b(?!.*\?$)", "opens with '{}': the subject comes first"),
    (rf"(?:Out|Underneath|Behind|Beside|Besides|Up|Down|In|On) (?:{VERBS})\b", "inverted opening '{}'"),
    (rf"(?:{PLACES}) (?:it|them|these|those|that|this|each|both) (?:{VERBS})\b", "inverted opening '{}'"),
    (rf"(?:{PLACES}) (?:(?:{ARTICLES}) )?(?:{NOUN} ){{1,4}}(?:{VERBS}) (?:{ARTICLES})\b", "inverted opening '{}'"),
]
PHRASES = [
    (r"\b(?:is|are) said\b", "'{}': name who says it, or 'is reported'"),
    (r"(?<!\bthere )\b(?:is|are) no (?!longer|more|less|matter|\w+er than)", "'{}': 'is not a', 'has no'"),
    (r"\bbut for\b", "'{}': 'except'"),
    (r"\bwhat there (?:is|are)\b", "'{}': name the thing"),
    (r"\b(?:is|are) asked for\b", "'{}': name who asks"),
]
ABBREVIATIONS = r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bal\.)(?<!\bvs\.)(?<!\bcf\.)(?<!\bNo\.)(?<!\bFig\.)"


def plain(text):
    """Markdown without its marks; a code span is one word. Line breaks stay, for counting lines."""
    def breaks(span):
        return "Code" + "\n" * span.count("\n")
    text = re.sub(r"(`+)(?:(?!\1).)+?\1", lambda m: breaks(m.group()), text, flags=re.S)
    text = re.sub(r"</?[A-Za-z][^>\n]*>", "", text)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\*\*|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)", "", text)


def sentences(text, line, ends):
    """(line, sentence) of a paragraph that begins in `line`."""
    start = 0
    clause = "(?<=[;:])\\s+" if ":" in ends else "(?<=;)\\s+" if ";" in ends else "\\Z"
    for end in re.finditer(rf"(?<=[.!?]){ABBREVIATIONS}[\"')\]]*\s+(?=[^a-z\s])|{clause}|\Z", text):
        sentence = text[start:end.start()]
        lead = len(sentence) - len(sentence.lstrip())
        yield line + text.count("\n", 0, start + lead), " ".join(sentence.split())
        start = end.end()


def faults(sentence):
    bare = sentence.lstrip("\"'([- ")
    for pattern, words in OPENINGS:
        found = re.match(pattern, bare)
        if found:
            yield words.format(found.group())
            break
    for pattern, words in PHRASES:
        found = re.search(pattern, sentence, re.I)
        if found:
            yield words.format(found.group().strip())
    n_words = len(re.findall(r"[^\W_][\w.,'/+-]*", sentence))
    if n_words > MOST_WORDS:
        yield f"{n_words} words, at most {MOST_WORDS} expected"


def markdown(text):
    """(line, paragraph, ends) of a page: paragraphs, list items, headings and table cells."""
    part, first, in_fence, blank = [], 0, False, True
    for number, line in enumerate(text.splitlines() + [""], 1):
        fence = re.match(r"\s*```", line)
        is_code = in_fence or fence or (blank and line.startswith("    "))
        is_row, is_item = line.lstrip().startswith("|"), re.match(r"\s*([-*]|\d+\.) |#|> ", line)
        if part and (is_code or is_row or is_item or not line.strip()):
            yield first, plain("\n".join(part)), ".!?"
            part = []
        in_fence = in_fence != bool(fence)
        blank = not line.strip() or (blank and is_code)
        if is_row:
            for cell in re.split(r"(?<!\\)\|", re.sub(r"`[^`]*`", "`c`", line)):
                yield number, plain(cell.strip()), ".!?;:"
        elif line.strip() and not is_code:
            first = first if part else number
            part.append(re.sub(r"^\s*([-*]|\d+\.|#+|>) +", "", line))
        if line.startswith("#"):
            yield first, plain(part.pop()), ".!?"


def comments(text):
    """(line, paragraph, ends) of the comments of a C file: lines indented by four are code, those by two rows."""
    for found in re.finditer(r"/\*(.*?)\*/|(?<![:\"/])//(.*)|\"(?:\\.|[^\"\\\n])*\"", text, re.S):
        if found.group().startswith('"'):
            continue
        body = found.group(1) if found.group(1) is not None else found.group(2).split("\n")[0]
        first, part = text.count("\n", 0, found.start()) + 1, []
        for number, line in enumerate(body.split("\n") + [""], first):
            line = re.sub(r"^\s*\* ?", "", line) if number > first else line
            is_code = number > first and line.startswith("    ") and text[found.start() - 1:found.start()] in ("\n", "")
            starts = number > first and (line.startswith("  ") or (part and part[-1].startswith("  ")))
            if part and (starts or is_code or not line.strip() or line.lstrip().startswith("- ")):
                yield begin, plain("\n".join(part)), ".!?;"
                part = []
            if line.strip() and not is_code:
                begin = begin if part else number
                part.append(line)


def help_texts(output):
    """(line, paragraph, ends) of a help: its introduction and the text of each flag."""
    part, first = [], 0
    for number, line in enumerate(output.splitlines() + [""], 1):
        line = re.sub(r"^( {31,33})(\S+) {2,}", r"  \2  ", line)  # a list within the text of a flag
        row = re.match(r"\s{2,6}(?:-\S.*?|[a-z-]+)(?:\s{2,}|$)(.*)", line)
        if part and (row or not line.strip() or line.startswith(" ") != is_row):
            yield first, plain("\n".join(part)), ".!?;"
            part = []
        if row:
            part, first, is_row = [row.group(1)], number, True
        elif line.strip() and not re.match(r"Usage:|[A-Z]\w+( \w+)?:$", line):
            if not part:
                first, is_row = number, line.startswith(" ")
            part.append(line)


def helps(tern):
    def output(*words):
        return subprocess.run([tern, *words], capture_output=True, text=True, check=True).stdout
    overview = output("help")
    yield f"{Path(tern).name} help", help_texts(overview)
    for name in re.findall(r"^  ([a-z-]+) ", overview, re.M):
        if name != "help":
            yield f"{Path(tern).name} {name} --help-all", help_texts(output(name, "--help-all"))


def files(root, scope):
    """(name, paragraphs) of a scope that lies in files."""
    patterns = {"readme": ["README.md"], "guides": ["docs/guides/*.md"], "headers": ["include/**/*.h"],
                "docs": ["*.md", "docs/**/*.md", "*/README.md"], "sources": ["src/**/*.[ch]"]}
    others = {path for other in ("readme", "guides") for path in root.glob(patterns[other][0])}
    found = {path for pattern in patterns[scope] for path in root.glob(pattern) if "generated" not in path.parts}
    if not found:
        sys.exit(f"{scope}: no file found in {root}")
    found = {path for path in found if not {"decisions", "experiments"} & set(path.parts)}
    for path in sorted(found - others if scope == "docs" else found):
        read = markdown if path.suffix == ".md" else comments
        yield str(path.relative_to(root)), read(path.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1], help="the repository")
    parser.add_argument("--tern", help="the program whose help is read")
    parser.add_argument("scopes", nargs="+", choices=["readme", "guides", "headers", "help", "docs", "sources"])
    args = parser.parse_args()
    if "help" in args.scopes and not args.tern:
        parser.error("help: --tern TERN expected")
    n_found = n_read = 0
    for scope in args.scopes:
        for name, paragraphs in helps(args.tern) if scope == "help" else files(args.root, scope):
            for line, paragraph, ends in paragraphs:
                for place, sentence in sentences(paragraph, line, ends):
                    n_read += 1
                    for fault in faults(sentence):
                        n_found += 1
                        shown = sentence if len(sentence) <= 100 else sentence[:97] + "..."
                        print(f"{name}:{place}: {fault}: {shown}")
    print(f"{n_read} sentences, {n_found} faults")
    return 1 if n_found else 0


if __name__ == "__main__":
    sys.exit(main())
