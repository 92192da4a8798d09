#!/bin/sh
# The check of the text must pass short lines and what may be long, and refuse long lines and C that is not laid out.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cp "$here/../../.clang-format" "$tree"
long=$(printf '%0119d' 0) # with a sign and a space in front: 121 columns

# try EXPECTED_STATUS WORDS FILE TEXT: with TEXT as FILE the check ends with the status and says the words.
try() {
    printf '%s\n' "$4" >"$tree/$3"
    status=0
    output=$("$here/../../scripts/check-text.sh" "$tree" 2>&1) || status=$?
    rm "$tree/$3"
    case $output in *"$2"*) found=1 ;; *) found=0 ;; esac
    if { [ "$1" = 0 ] && [ "$status" != 0 ]; } || { [ "$1" != 0 ] && [ "$status" = 0 ]; } || [ "$found" = 0 ]; then
        echo "for '$4' in $3: status $status, expected $1 with '$2'; output was:"
        echo "$output"
        exit 1
    fi
}

try 1 '0 files' none.txt ''
try 0 '0 lines too long' a.sh "#$long"
try 1 'a.sh:1: 121 columns found' a.sh "# $long"
try 1 'a.mjs:1: 122 columns found' a.mjs "// $long"
try 1 'a.md:1: 121 columns found' a.md "a $long"
try 0 '0 lines too long' a.md "é$long"
try 0 '0 lines too long' a.md "| $long |"
try 0 '0 lines too long' a.md "    $long"
try 0 '0 lines too long' a.md "\`\`\`
a $long
\`\`\`"
try 0 '0 lines too long' a.md "https://$long"
try 1 'a.c:1: 122 columns found' a.c "/* $long"
try 0 '0 lines too long' a.c 'int a;'
mkdir -p "$tree/src/base" "$tree/scripts"
lines=$(yes 'int a;' | head -n 500)
try 0 '0 lines too long' src/base/a.c "$lines"
try 1 'src/base/a.c: 501 lines found, at most 500 expected' src/base/a.c "$lines
int b;"
try 1 'src/base/a.wesl: 501 lines found, at most 500 expected' src/base/a.wesl "$lines
int b;"
try 0 '0 lines too long' src/base/a.c "/* A table, written by scripts/a.py. */
$lines"
statements=$(yes '    a = 1u;' | head -n 58)
entry='@compute @workgroup_size(1)
fn main() {'
try 0 '0 lines too long' src/base/a.wgsl "fn a() {
$statements
    a = 1u;
}
$entry
$statements
}"
try 1 'src/base/a.wesl:2: entry point of 61 lines found, at most 60 expected' src/base/a.wesl "$entry
$statements
    a = 1u;
}"
echo 'src/base/a.c 501' >"$tree/scripts/text-limits.txt"
try 0 '0 lines too long' src/base/a.c "$lines
int b;"
try 1 'src/base/a.c: 502 lines found, at most 501 expected' src/base/a.c "$lines
int b;
int c;"
try 1 'src/base/a.c: 500 lines found: it needs no row' src/base/a.c "$lines"
try 1 'src/base/a.c: not found: it needs no row' src/base/b.c 'int a;'
rm "$tree/scripts/text-limits.txt"
for i in $(seq 40); do echo 'int a;' >"$tree/src/base/$i.h"; done
try 0 '0 lines too long' a.c 'int a;'
try 1 'src/base: 41 files found, at most 40 expected' src/base/a.c 'int a;'
echo 'src/base 41' >"$tree/scripts/text-limits.txt"
try 0 '0 lines too long' src/base/a.c 'int a;'
rm -r "$tree/src" "$tree/scripts"
case $output in
*'not checked'*) echo 'clang-format 14 was not found' ;;
*) try 1 'clang-format' a.c 'int  a;' ;;
esac
echo "the check of the text refuses what it should"
