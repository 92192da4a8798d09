#!/bin/sh
# Checks the layout of the text: no line of code, script or Markdown over 120 columns (Markdown: tables, code blocks and
# links may be longer), no source written by hand over 500 lines, no folder of src with more than 40 files (what is
# larger today is in scripts/text-limits.txt), no entry point of a kernel over 60 lines, and C as clang-format 14
# leaves it.
# Usage: check-text.sh [REPOSITORY]
set -eu
root=${1:-$(dirname "$0")/..}
cd "$root"
# Bytes, so that every awk counts alike: those that go on with a UTF-8 character are taken out.
export LC_ALL=C

list=$(mktemp)
sources=$(mktemp)
trap 'rm -f "$list" "$sources"' EXIT
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

for folder in src include tests web tools scripts python cmake bench examples; do
    [ -d "$folder" ] || continue
    find "$folder" \( -name build -o -name node_modules -o -name generated -o -path tests/data -o -path web/lib/wasm \
        -o -path web/lib/kernels.js \) -prune -o -type f -print
done | sort >"$sources"
limits=scripts/text-limits.txt
[ -f "$limits" ] || limits=/dev/null

# Lines of each file and of each entry point of WGSL, and files of each folder. A table says in its first line which
# script has written it.
awk -v limits="$limits" '
function check(name, n, most, what) {
    if (name in allowed) {
        used[name] = 1
        if (n <= most) printf "%s: %d %s found: it needs no row in %s\n", name, n, what, limits
        if (n > most && n <= allowed[name]) return
        most = allowed[name]
        if (n <= most) { n_bad++; return }
    }
    if (n <= most) return
    printf "%s: %d %s found, at most %d expected: cut it by what it does\n", name, n, what, most
    n_bad++
}
# Lines of an entry point, whose attributes lie before it.
function check_entry(name, n, text) {
    if (text ~ /^@compute/) is_entry = 1
    if (is_entry && text ~ /^fn /) entry_start = n
    if (!entry_start || text !~ /^}/) return
    if (n - entry_start >= 60) {
        printf "%s:%d: entry point of %d lines found, ", name, entry_start, n - entry_start + 1
        print "at most 60 expected: cut it by what it does"
        n_bad++
    }
    is_entry = entry_start = 0
}
BEGIN {
    while ((getline text < limits) > 0) if (text !~ /^#/ && split(text, row, " ") == 2) allowed[row[1]] = row[2]
}
{
    file = $0
    if (file ~ /^src\//) {
        folder = file
        sub(/\/[^\/]*$/, "", folder)
        n_files[folder]++
    }
    if (file !~ /\.(c|h|cu|cuh|wgsl|wesl|js|mjs|py|sh)$/) next
    is_table = is_entry = entry_start = 0
    for (n = 0; (getline text < file) > 0; n++) {
        if (n == 0 && text ~ /written by scripts\//) is_table = 1
        if (file ~ /\.w[eg]sl$/) check_entry(file, n + 1, text)
    }
    close(file)
    if (!is_table) check(file, n, 500, "lines")
}
END {
    for (folder in n_files) check(folder, n_files[folder], 40, "files")
    for (name in allowed) if (!(name in used)) {
        printf "%s: not found: it needs no row in %s\n", name, limits
        n_bad++
    }
    exit n_bad > 0
}' "$sources"

# Decisions: "# N. Title", a status, and a row in the index with the same title.
if [ -d docs/decisions ]; then
    awk '
    FNR == 1 {
        name = FILENAME
        sub(/.*\//, "", name)
        number = name + 0
        title = $0
        if (sub("^# " number "[.] ", "", title) != 1) printf "%s: \"# %d. Title\" expected\n", FILENAME, number
        row = "| " number " | [" title "](" name ") | "
        if (!index(index_text, row)) printf "docs/decisions/README.md: the row \"%s\" expected\n", row
    }
    FNR == 3 && !/^[*][*]Status[*][*]: / { printf "%s:3: **Status** expected\n", FILENAME }
    BEGIN { while ((getline text < "docs/decisions/README.md") > 0) index_text = index_text text "\n" }
    ' docs/decisions/0*.md >"$sources"
    cat "$sources"
    [ ! -s "$sources" ]
fi

for format in clang-format-14 clang-format none; do
    if [ "$format" = none ]; then
        echo 'clang-format 14 was not found: the layout of C is not checked'
        [ "${CI:-}" != true ]
        exit
    fi
    case $("$format" --version 2>/dev/null) in *'version 14.'*) break ;; esac
done
grep -E '\.([ch]|inc)$' "$list" | xargs -r "$format" --dry-run -Werror
