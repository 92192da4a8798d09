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
case $output in
*'not checked'*) echo 'clang-format 14 was not found' ;;
*) try 1 'clang-format' a.c 'int  a;' ;;
esac
echo "the check of the text refuses what it should"
