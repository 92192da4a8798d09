#!/bin/sh
# Measures every ternary encoding, and the ways to store the output head, on weights larger than the caches.
# Prints Markdown: the first section of docs/bench.md, "Whole models on the CPU".
# Usage: bench.sh [ARGUMENT OF tern bench ...]
set -eu
cd "$(dirname "$0")/.."
tern=build/release/tern
files=build/bench
mkdir -p "$files"
[ $# -gt 0 ] || set -- -p 512 -n 128 -t 1,2 -r 3

# measure TITLE FILE ARGUMENTS: one section.
measure() {
    printf '\n### %s\n\n```\n' "$1"
    file=$2
    shift 2
    "$tern" bench -m "$file" "$@"
    printf '```\n'
}

# shellcheck disable=SC2016 # the backticks are Markdown
printf '## Whole models on the CPU\n\nMade by `make bench` at commit %s on %s.\n' \
    "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" \
    "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
# shellcheck disable=SC2016
printf 'The file has the shapes of the 2B4T model and random weights (`tern synth --preset bitnet-2b4t`).\n'
# The file of one encoding, in $file.
made() {
    file=$files/bitnet-2b4t-$1.gguf
    [ -e "$file" ] || "$tern" synth --preset bitnet-2b4t -o "$file" --type "$1" >&2
}
for type in i2_s tq2_0 tq1_0 t160; do
    made "$type"
    measure "$type, head as in the file" "$file" "$@"
done
for head in q8_0 q6_k q4_k exact; do
    measure "i2_s, head $head" "$files/bitnet-2b4t-i2_s.gguf" --head "$head" "$@" -p 0
done
measure "t160, head q6_k" "$files/bitnet-2b4t-t160.gguf" --head q6_k "$@" -p 0

# The same 2,000 greedy tokens with the whole head and with the rows that can win.
greedy() {
    out=$files/greedy-$1.txt
    shift
    "$tern" run -m "$files/bitnet-2b4t-i2_s.gguf" -p a --greedy -n 2000 --ignore-eos -q "$@" >"$out"
    [ -s "$out" ] || { echo "no text in $out" >&2; exit 1; }
}
greedy full
greedy exact --head exact
# shellcheck disable=SC2016
printf '\n### Greedy text with `--head exact`\n\n'
if cmp -s "$files/greedy-full.txt" "$files/greedy-exact.txt"; then echo 'The same 2,000 tokens as with the F16 head.'
else echo 'Not the same text.'; fi
