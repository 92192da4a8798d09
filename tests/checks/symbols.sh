#!/bin/sh
# Checks that the shared library exports, and the static library defines, only names that begin with tern_.
# Usage: symbols.sh NM SHARED STATIC
set -eu
nm=$1 shared=$2 static=$3

# only_tern WHAT < names: prints names that do not begin with tern_; fails on those and on an empty list.
only_tern() {
    awk -v what="$1" '
        !/^tern_/ { print what ": " $0 " does not begin with tern_"; bad = 1 }
        END { print what ": " NR " names"; exit bad || NR == 0 }'
}

# The version script's own absolute symbol (type A) is not a name of ours.
"$nm" -D --defined-only "$shared" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | only_tern "$shared"
"$nm" -g --defined-only "$static" | awk 'NF == 3 { print $3 }' | only_tern "$static"
