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

# run PROGRAM: on the installed model; it must write more than the prompt.
run() {
    model=$(find "$stage" -name '*.gguf' | head -n 1)
    text=$(LD_LIBRARY_PATH=$lib "$1" "$model" "Once upon a time")
    case $text in "Once upon a time"*[a-z]*.*) ;; *) echo "$1 wrote: $text"; exit 1 ;; esac
}

for file in "$source"/examples/*.c; do
    name=$(basename "$file" .c)
    # shellcheck disable=SC2046 # flags are words
    "$cc" -Wall -Wextra -Werror "$file" -o "$stage/$name" $(pkg-config --cflags --libs tern)
    run "$stage/$name"
    # shellcheck disable=SC2046
    "$cc" -Wall -Wextra "$file" -o "$stage/$name-static" $(pkg-config --cflags tern) "$lib/libtern.a" \
        $(pkg-config --static --libs tern | sed 's/-ltern\b//')
    run "$stage/$name-static"
    echo "$name: compiled and linked, shared and static"
done
if command -v c++ >/dev/null; then
    # shellcheck disable=SC2046
    c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror "$source/tests/api/plain.cpp" \
        -o "$stage/plain" $(pkg-config --cflags --libs tern)
    LD_LIBRARY_PATH=$lib "$stage/plain"
    echo "plain.cpp: compiled as C++11"
fi
if [ -x "$stage/bin/tern" ]; then "$stage/bin/tern" version; fi
