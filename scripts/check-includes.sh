#!/bin/sh
# Checks that every quoted include under src/ and include/ points to the same or an earlier layer of scripts/layers.txt,
# and that no chain of includes leads to what a layer may not reach.
# Usage: check-includes.sh [REPOSITORY]
set -eu
root=${1:-$(dirname "$0")/..}
cd "$root"

find src include -type f \( -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.def' -o -name '*.cu' \
    -o -name '*.cuh' \) | sort |
    awk '
# include/tern/infer.h is of infer, include/tern/status.h (no such layer) of base.
function layer_of(path,   part) {
    if (path == "tern.h") return "api"
    split(path, part, "/")
    if (part[1] != "tern") return part[1]
    sub(/\.h$/, "", part[2])
    if (part[2] in header) return header[part[2]]
    return part[2] in rank ? part[2] : "base"
}
function complain(file, line, words) {
    printf "%s:%d: %s\n", file, line, words
    n_bad++
}
function exists(path,   got, ignored) {
    got = (getline ignored < path) >= 0
    close(path)
    return got
}
function check(file, line, from, target,   to, i) {
    to = layer_of(target)
    if (!(to in rank))
        complain(file, line, "\"" target "\": " to " is not a layer; includes are written from src/")
    else if (!exists("src/" target) && !exists("include/" target))
        complain(file, line, "\"" target "\": there is no such file in src/ or include/")
    else if (rank[to] > rank[from])
        complain(file, line, from " includes \"" target "\" of " to ", a later layer")
    includes[file, ++n_of[file]] = exists("src/" target) ? "src/" target : "include/" target
}
# What file reaches of the folders that the layer `from` may not reach, depth first; chain is the way there.
function follow(file, from, chain,   i, target, name) {
    for (i = 1; i <= n_of[file]; i++) {
        target = includes[file, i]
        if (seen[target]++) continue
        name = target
        sub(/^(src|include)\//, "", name)
        if (is_denied(from, name))
            complain(first, 1, from " reaches " chain "\"" name "\", which scripts/layers.txt forbids")
        else follow(target, from, chain "\"" name "\" > ")
    }
}
function is_denied(from, target,   i) {
    for (i = 1; i <= n_denied[from]; i++)
        if (index(target, denied[from, i] "/") == 1 || target == denied[from, i]) return 1
    return 0
}
BEGIN {
    table = "scripts/layers.txt"
    while ((getline row < table) > 0) {
        sub(/#.*/, "", row)
        n = split(row, word, " ")
        if (n == 0) continue
        if (word[1] == "header") { header[word[2]] = word[3]; continue }
        if (!index(word[1], "/")) rank[word[1]] = ++n_layers
        for (n_named = 1; n_named < n && word[n_named + 1] !~ /^-/; n_named++);
        for (k = 1; k <= n_named; k++) {
            if (index(word[k], "/")) paths[++n_paths] = word[k]
            for (i = n_named + 1; i <= n; i++) denied[word[k], ++n_denied[word[k]]] = substr(word[i], 2)
        }
    }
    if (n_layers == 0) { print table ": no layers found"; exit 2 }
}
{
    file = $0
    from = file
    sub(/^(src|include)\//, "", from)
    from = layer_of(from)
    if (!(from in rank)) complain(file, 1, from " is not a layer of " table)
    layer[file] = from
    for (line = 1; (getline text < file) > 0; line++)
        if (text ~ /^[ \t]*#[ \t]*include[ \t]*"/) {
            split(text, quoted, "\"")
            check(file, line, from, quoted[2])
            n_includes++
        } else if (text ~ /^[ \t]*#[ \t]*include[ \t]*<tern[.\/]/) {
            complain(file, line, "own headers are included with quotes")
        }
    close(file)
}
END {
    if (n_layers == 0) exit 2
    for (first in layer) {
        delete seen
        if (n_denied[layer[first]]) follow(first, layer[first], "")
        for (i = 1; i <= n_paths; i++) {
            delete seen
            if (index(first, "src/" paths[i]) == 1) follow(first, paths[i], "")
        }
    }
    printf "%d files, %d includes, %d wrong\n", NR, n_includes, n_bad
    exit n_bad > 0 || NR == 0
}'
