#!/bin/sh
# The check of recompiles must count what sources include by any chain, and refuse each kind of excess and bad row.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
check=$here/../../scripts/check-recompiles.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/scripts" "$tree/include/tern" "$tree/src/base" "$tree/src/quant"
echo '/* A header. */' >"$tree/src/base/a.h"
echo '/* A public header. */' >"$tree/include/tern/status.h"
printf '#include "base/a.h"\n#include "quant/beside.inc"\n' >"$tree/src/quant/q.h"
echo '#include "beside.inc"' >"$tree/src/quant/r.h"
echo '#include "tern/status.h"' >"$tree/src/quant/beside.inc"
printf '#include "quant/q.h"\n#include "base/a.h"\n' >"$tree/src/quant/x.c" # two ways to a.h, one source
echo ' #  include "base/a.h"' >"$tree/src/base/y.c"
echo '#include "quant/r.h"' >"$tree/src/base/z.c"

listed=$("$check" --list "$tree")
expected='2 base/a.h
2 tern/status.h
1 quant/q.h
1 quant/r.h'
if [ "$listed" != "$expected" ]; then
    printf 'listed:\n%s\nexpected:\n%s\n' "$listed" "$expected"
    exit 1
fi

# try EXPECTED_STATUS WORDS TABLE: with these limits the check ends with the status and says the words.
try() {
    printf '%b' "$3" >"$tree/scripts/recompiles.txt"
    status=0
    output=$("$check" "$tree") || status=$?
    case $output in *"$2"*) found=1 ;; *) found=0 ;; esac
    if [ "$status" != "$1" ] || [ "$found" = 0 ]; then
        echo "for '$3': status $status, expected $1 with '$2'; output was:"
        echo "$output"
        exit 1
    fi
}

try 0 '4 headers, 0 wrong' '* 2\n'
try 0 '0 wrong' '# Limits.\n* 1\nbase/a.h 2 # two ways\ntern/status.h any\n'
try 1 'base/a.h: a change recompiles 2 sources, at most 1 expected' '* any\nbase/a.h 1\n'
try 1 'tern/status.h: a change recompiles 2 sources, at most 1' '* 1\nbase/a.h 2\n'
try 1 'there is no header base/b.h' '* 2\nbase/b.h 2\n'
try 1 '"base/a.h" found, a header and a number or "any" expected' '* 2\nbase/a.h\n'
try 1 '"base/a.h few" found' '* 2\nbase/a.h few\n'
try 1 'no row "*"' 'base/a.h 2\n'
echo "the check of recompiles refuses what it should"
