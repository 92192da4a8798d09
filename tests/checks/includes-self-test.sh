#!/bin/sh
# The include check must pass a good tree and refuse each kind of bad include.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
check=$here/../../scripts/check-includes.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/scripts" "$tree/include/tern"
mkdir -p "$tree/src/base" "$tree/src/quant" "$tree/src/backend/cpu" "$tree/src/model"
printf 'base\nquant\nmodel\nbackend -model\napi\n' >"$tree/scripts/layers.txt"
for header in src/base/a.h src/quant/q.h src/model/m.h src/backend/cpu/c.h \
    include/tern/status.h include/tern/model.h include/tern.h; do
    echo '/* A header. */' >"$tree/$header"
done

# try EXPECTED_STATUS WORDS FILE LINE: with LINE in FILE the check ends with the status and says the words.
try() {
    printf '%s\n' "$4" >"$tree/$3"
    status=0
    output=$("$check" "$tree") || status=$?
    rm "$tree/$3"
    case $output in *"$2"*) found=1 ;; *) found=0 ;; esac
    if [ "$status" != "$1" ] || [ "$found" = 0 ]; then
        echo "for '$4' in $3: status $status, expected $1 with '$2'; output was:"
        echo "$output"
        exit 1
    fi
}

try 0 '0 wrong' src/quant/x.c '#include "base/a.h"'
try 0 '0 wrong' src/base/x.c '#include "tern/status.h"'
try 0 '0 wrong' src/base/x.c '#include <string.h>'
try 1 'base includes "quant/q.h" of quant, a later layer' src/base/x.c '#include "quant/q.h"'
try 1 'a later layer' src/base/x.h ' #  include "backend/cpu/c.h"'
try 1 'a later layer' src/quant/x.c '#include "tern.h"'
try 0 '0 wrong' src/model/x.c '#include "tern/model.h"'
try 1 'a later layer' src/quant/x.c '#include "tern/model.h"'
try 1 'a later layer' include/tern/status.h '#include "model/m.h"'
try 1 'which scripts/layers.txt forbids' src/backend/cpu/x.c '#include "model/m.h"'
printf '#include "quant/q.h"\n' >"$tree/src/model/chained.h"
printf 'base\nquant\nmodel\nbackend -quant\napi\n' >"$tree/scripts/layers.txt"
try 1 'backend reaches "model/chained.h" > "quant/q.h", which' src/backend/cpu/x.c '#include "model/chained.h"'
try 0 '0 wrong' src/backend/cpu/x.c '#include "model/m.h"'
printf 'base\nquant\nmodel\nbackend\napi\nbackend/cpu/x backend/cpu/y -quant\n' >"$tree/scripts/layers.txt"
try 1 'backend/cpu/x reaches "model/chained.h" > "quant/q.h", which' src/backend/cpu/x_1.c '#include "model/chained.h"'
try 1 'backend/cpu/y reaches "quant/q.h", which' src/backend/cpu/y.h '#include "quant/q.h"'
try 0 '0 wrong' src/backend/cpu/z.c '#include "quant/q.h"'
try 1 'includes are written from src/' src/base/x.c '#include "a.h"'
try 1 'there is no such file' src/base/x.c '#include "base/b.h"'
try 1 'with quotes' src/base/x.c '#include <tern/status.h>'
try 1 'is not a layer of' src/stray.c '/* outside of any layer */'
echo "the include check refuses what it should"
