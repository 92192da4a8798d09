#!/bin/sh
# Runs clang-tidy over every source that a build folder compiles, the checks of includes, recompiles and text.
# Usage: lint.sh [--share TURN/N] BUILD_FOLDER [PART_OF_A_PATH ...]
#   --share  only what the parts name, and of the other sources of src/ every N-th, another one in each turn
set -eu
cd "$(dirname "$0")/.."
share=
if [ "$1" = --share ]; then
    share=$2
    shift 2
fi
build=$1
shift
[ $# -gt 0 ] || [ -n "$share" ] || set -- src/
files=$(sed -n 's/^ *"file": "\(.*\)",*$/\1/p' "$build/compile_commands.json" | sort -u)
# One file for each process: the analyzer of clang 14 carries va_list state from one file to the next. It follows the
# paths of a function for 20,000 nodes, a twelfth of what it does by itself, which takes a ninth of the time.
nodes='--extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=max-nodes=20000'
{
    for part in "$@"; do printf '%s\n' "$files" | grep -F "$PWD/$part" || true; done
    [ -z "$share" ] || printf '%s\n' "$files" | grep -F "$PWD/src/" |
        awk -v turn="${share%/*}" -v n="${share#*/}" '(NR + turn) % n == 0'
} | sort -u |
    xargs -P "$(nproc)" -n 1 clang-tidy -p "$build" --quiet $nodes --warnings-as-errors='*'
scripts/check-includes.sh
scripts/check-recompiles.sh
scripts/check-text.sh
