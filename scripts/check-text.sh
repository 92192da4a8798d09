#!/bin/sh
# Checks the layout of the text: no line of code, script or Markdown over 120 columns (Markdown: tables, code blocks and
# links may be longer), and C as clang-format 14 leaves it.
# Usage: check-text.sh [REPOSITORY]
set -eu
root=${1:-$(dirname "$0")/..}
cd "$root"
# Bytes, so that every awk counts alike: those that go on with a UTF-8 character are taken out.
export LC_ALL=C

list=$(mktemp)
trap 'rm -f "$list"' EXIT
find . \( -name .git -o -name build -o -name .cache -o -name node_modules -o -name generated -o -path ./tests/data \
    -o -path ./web/lib/kernels.js -o -path ./web/lib/wasm \) -prune -o -type f \
    \( -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.md' -o -name '*.sh' -o -name '*.js' -o -name '*.mjs' \
    -o -name '*.wgsl' -o -name '*.wesl' \) \
    -print | sort >"$list"

awk '
function is_free(file, text) {
    if (file !~ /\.md$/) return 0
    return in_code || text ~ /^    / || text ~ /^ *\|/ || text ~ /^ *[-*]? *[^ ]*\]?\(?https?:[^ ]*$/
}
{
    file = $0
    in_code = 0
    for (line = 1; (getline text < file) > 0; line++) {
        if (file ~ /\.md$/ && text ~ /^ *```/) in_code = !in_code
        gsub(/[\200-\277]/, "", text)
        if (length(text) <= 120 || is_free(file, text)) continue
        printf "%s:%d: %d columns found, at most 120 expected\n", substr(file, 3), line, length(text)
        n_bad++
    }
    close(file)
}
END {
    printf "%d files, %d lines too long\n", NR, n_bad
    exit n_bad > 0 || NR == 0
}' "$list"

for format in clang-format-14 clang-format none; do
    if [ "$format" = none ]; then
        echo 'clang-format 14 was not found: the layout of C is not checked'
        [ "${CI:-}" != true ]
        exit
    fi
    case $("$format" --version 2>/dev/null) in *'version 14.'*) break ;; esac
done
grep -E '\.([ch]|inc)$' "$list" | xargs -r "$format" --dry-run -Werror
