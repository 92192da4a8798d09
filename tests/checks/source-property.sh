#!/bin/sh
# tern_source_property sets what set_property does and refuses a file that is not there; nothing else in the build sets
# a property of a source. Usage: source-property.sh SOURCE
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
echo 'int x;' >"$dir/a.c"
cp "$dir/a.c" "$dir/b.c"

# configure LINES: configures a project with these lines, after the function.
configure() {
    printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(p LANGUAGES NONE)' \
        "include($source/cmake/source-property.cmake)" "$1" >"$dir/CMakeLists.txt"
    cmake -S "$dir" -B "$dir/build" 2>&1 | tr -s '\n ' ' '
}
# expect WORDS LINES: what the configuration says has these words.
expect() {
    said=$(configure "$2")
    case $said in *"$1"*) ;; *) echo "for '$2': expected '$1', found '$said'"; exit 1 ;; esac
}
source=$1
# shellcheck disable=SC2016 # variables of CMake
here='${PROJECT_SOURCE_DIR}' show='foreach(f a b)
  get_source_file_property(v ${PROJECT_SOURCE_DIR}/${f}.c COMPILE_OPTIONS)
  list(APPEND all "${v}")
endforeach()
message(STATUS "found ${all}.")'
expect 'found -O1;-g;-O1;-g.' "tern_source_property($here/a.c $here/b.c PROPERTY COMPILE_OPTIONS -O1 -g)
$show"
expect 'found -O1;-g;NOTFOUND.' "tern_source_property($here/a.c PROPERTY COMPILE_OPTIONS -O1)
tern_source_property($here/a.c APPEND PROPERTY COMPILE_OPTIONS -g)
$show"
expect "c.c: no such file" "tern_source_property($here/a.c $here/c.c PROPERTY COMPILE_OPTIONS -O1)"
expect 'COMPILE_OPTIONS): no file named' 'tern_source_property(PROPERTY COMPILE_OPTIONS -O1)'

# Objects that the build makes are not there at configuration.
if grep -nE 'set_property\(SOURCE|set_source_files_properties' "$1"/CMakeLists.txt "$1"/cmake/*.cmake |
    grep -vE 'source-property.cmake|GENERATED ON'; then
    echo "tern_source_property expected"
    exit 1
fi
