#!/bin/sh
# Installs into a scratch folder, then compiles and runs every example against what was installed, shared and static.
# Usage: install.sh CMAKE BUILD_FOLDER CC
set -eu
cmake=$1 build=$2 cc=$3
source=$(cd "$(dirname "$0")/../.." && pwd)
stage=$build/scratch/install
rm -rf "$stage"
mkdir -p "$stage"
"$cmake" --install "$build" --prefix "$stage" >"$stage.log"
PKG_CONFIG_PATH=$(dirname "$(find "$stage" -name tern.pc)")
export PKG_CONFIG_PATH
lib=$(pkg-config --variable=libdir tern)

cat >"$stage/words.c" <<'C'
#include <string.h>
#include "tern/status.h"
int main(void) { return strcmp(tern_status_words(TERN_OK), "ok"); }
C

# run PROGRAM NAME: an example is run on the installed model; the other program takes no argument.
run() {
    model=$(find "$stage" -name '*.gguf' | head -n 1)
    if [ "$2" = words ]; then LD_LIBRARY_PATH=$lib "$1"
    elif [ -n "$model" ]; then LD_LIBRARY_PATH=$lib "$1" "$model"
    else echo "$2: compiled, not run: no model is installed"; fi
}

for file in "$stage/words.c" "$source"/examples/*.c; do
    [ -e "$file" ] || continue
    name=$(basename "$file" .c)
    # shellcheck disable=SC2046 # flags are words
    "$cc" -Wall -Wextra -Werror "$file" -o "$stage/$name" $(pkg-config --cflags --libs tern)
    run "$stage/$name" "$name"
    # shellcheck disable=SC2046
    "$cc" -Wall -Wextra "$file" -o "$stage/$name-static" $(pkg-config --cflags tern) "$lib/libtern.a" \
        $(pkg-config --libs libpcre2-8 jansson) -pthread -lm
    run "$stage/$name-static" "$name"
    echo "$name: compiled and linked, shared and static"
done
if [ -x "$stage/bin/tern" ]; then "$stage/bin/tern" version; fi
