#!/bin/sh
# The symbol check must refuse libraries that export other names.
# Usage: symbols-self-test.sh CC
set -eu
cc=$1
check=$(cd "$(dirname "$0")" && pwd)/symbols.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo 'int tern_good(void); int tern_good(void) { return 1; }' >good.c
echo 'int stray(void); int stray(void) { return 1; }' >stray.c
"$cc" -fPIC -c good.c stray.c
"$cc" -shared -o good.so good.o
"$cc" -shared -o stray.so good.o stray.o
ar rc good.a good.o
ar rc stray.a good.o stray.o
"$check" nm good.so good.a
if "$check" nm stray.so good.a; then echo "a stray name in the shared library went unnoticed"; exit 1; fi
if "$check" nm good.so stray.a; then echo "a stray name in the static library went unnoticed"; exit 1; fi
