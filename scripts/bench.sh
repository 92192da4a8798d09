#!/bin/sh
# Measures every ternary encoding, and the ways to store the output head, on weights larger than the caches. Prints a
# table and leaves the results in build/bench/results, from where `scripts/bench-page.py --add MACHINE
# build/bench/results/*.json` puts them into docs/bench.md.
# Usage: bench.sh [ARGUMENT OF tern bench ...]
set -eu
cd "$(dirname "$0")/.."
tern=build/release/tern
files=build/bench
results=$files/results
rm -rf "$results"
mkdir -p "$results"
[ $# -gt 0 ] || set -- -p 512 -n 128 -t 1,2 -r 3

# The file of one encoding, in $file: the shapes of BitNet 2B4T, random weights.
made() {
    file=$files/bitnet-2b4t-$1.gguf
    [ -e "$file" ] || "$tern" synth --preset bitnet-2b4t -o "$file" --type "$1" >&2
}

# measure NAME TYPE ARGUMENTS: one result.
measure() {
    out=$results/$1.json
    made "$2"
    shift 2
    echo "measuring $out" >&2
    "$tern" bench -m "$file" --json "$@" >"$out"
}

for type in i2_s tq2_0 tq1_0 t160; do measure "$type" "$type" "$@"; done
for head in q8_0 q6_k q4_k exact; do measure "i2_s-$head" i2_s --head "$head" "$@" -p 0; done
measure t160-q6_k t160 --head q6_k "$@" -p 0
scripts/bench-page.py --table "$results"/*.json

# The same 2,000 greedy tokens with the whole head and with `--head exact`.
greedy() {
    out=$files/greedy-$1.txt
    shift
    "$tern" run -m "$files/bitnet-2b4t-i2_s.gguf" -p a --greedy -n 2000 --ignore-eos -q "$@" >"$out"
    [ -s "$out" ] || { echo "bench.sh: error: no text in $out" >&2; exit 1; }
}
greedy full
greedy exact --head exact
cmp "$files/greedy-full.txt" "$files/greedy-exact.txt" || {
    echo "bench.sh: error: the text with --head exact differs from that of the F16 head" >&2
    exit 1
}
