#!/bin/sh
# Checks that the shared library exports exactly what include/ marks TERN_API, and that the static one defines only
# names of tern_.
# Usage: symbols.sh NM SHARED STATIC [INCLUDE_FOLDER]
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
if [ -n "${4:-}" ]; then
    # A declaration may span lines: join, split at ends of statements, and take the name before the first parenthesis.
    declared=$(find "$4" -name '*.h' -exec cat {} + | tr '\n' ' ' | tr ';' '\n' |
        sed -n 's/^.*TERN_API [^(]*[ *]\(tern_[a-z0-9_]*\)(.*$/\1/p' | sort)
    exported=$("$nm" -D --defined-only "$shared" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)
    if [ "$declared" != "$exported" ]; then
        echo "declared but not exported: $(echo "$declared" | grep -vxF "$exported" | tr '\n' ' ')"
        echo "exported but not declared: $(echo "$exported" | grep -vxF "$declared" | tr '\n' ' ')"
        exit 1
    fi
fi
"$nm" -g --defined-only "$static" | awk 'NF == 3 { print $3 }' | only_tern "$static"
