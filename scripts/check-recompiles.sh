#!/bin/sh
# Counts the sources (.c) of src/ that are compiled again when a header changes, and holds the counts to the limits of
# scripts/recompiles.txt. A source counts when a chain of quoted includes leads to the header, under any condition.
# Usage: check-recompiles.sh [--list] [REPOSITORY]    --list: all headers with their counts, the highest first
set -eu
list=0
if [ "${1:-}" = --list ]; then
    list=1
    shift
fi
cd "${1:-$(dirname "$0")/..}"

count() {
    find src include -type f \( -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.def' \) | sort | awk '
function path_of(target, from) {
    if (("src/" target) in known) return "src/" target
    if (("include/" target) in known) return "include/" target
    sub(/[^\/]*$/, "", from)
    return from target
}
# Counts what file includes, by whatever chain, once for the source.
function follow(file, source,   i, target) {
    for (i = 1; i <= n_of[file]; i++) {
        target = path_of(includes[file, i], file)
        if (reached[target] == source) continue
        reached[target] = source
        count[target]++
        follow(target, source)
    }
}
{
    known[$0]
    while ((getline text < $0) > 0)
        if (text ~ /^[ \t]*#[ \t]*include[ \t]*"/) {
            split(text, quoted, "\"")
            includes[$0, ++n_of[$0]] = quoted[2]
        }
    close($0)
}
END {
    for (file in known) if (file ~ /\.c$/) follow(file, file)
    for (file in known)
        if (file ~ /\.h$/) {
            name = file
            sub(/^(src|include)\//, "", name)
            print count[file] + 0, name
        }
}' | sort -k1,1nr -k2,2
}

if [ "$list" = 1 ]; then
    count
    exit
fi
count | awk '
BEGIN {
    table = "scripts/recompiles.txt"
    while ((getline row < table) > 0) {
        sub(/#.*/, "", row)
        n = split(row, word, " ")
        if (n == 0) continue
        if (n != 2 || (word[2] !~ /^[0-9]+$/ && word[2] != "any")) {
            printf "%s: \"%s\" found, a header and a number or \"any\" expected\n", table, row
            n_bad++
        }
        limit[word[1]] = word[2]
    }
    if (!("*" in limit)) { print table ": no row \"*\""; n_bad++ }
}
{
    seen[$2]
    most = $2 in limit ? limit[$2] : limit["*"]
    if (most == "any" || $1 <= most + 0) next
    printf "%s: a change recompiles %d sources, at most %d expected: declare types ahead instead of including it\n", \
        $2, $1, most
    n_bad++
}
END {
    for (header in limit)
        if (header != "*" && !(header in seen)) { printf "%s: there is no header %s\n", table, header; n_bad++ }
    printf "%d headers, %d wrong\n", NR, n_bad
    exit n_bad > 0 || NR == 0
}'
