#!/bin/sh
# Fetches the sources of libraries that WebAssembly builds compile themselves, as Debian has them, and unpacks them:
# FOLDER/NAME for each NAME. Needs neither root nor deb-src entries on the system; apt checks the signatures. Does
# nothing for what is there already.
# Usage: fetch-sources.sh FOLDER NAME...
set -eu
[ $# -ge 2 ] || { echo "usage: fetch-sources.sh FOLDER NAME..." >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift

missing=
for name in "$@"; do [ -d "$folder/$name" ] || missing="$missing $name"; done
[ -n "$missing" ] || exit 0
command -v apt-get >/dev/null || {
    echo "No apt-get: unpack the sources of$missing yourself, each to $folder/NAME" >&2
    exit 1
}

# The system's own lists of Debian's main archive, read as lists of sources.
apt=$folder/.apt
rm -rf "$apt"
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/parts"
for list in /etc/apt/sources.list.d/*.sources; do
    [ ! -f "$list" ] || awk -v RS= '/Suites:[^\n]*(bookworm|trixie|stable)/ && !/security/ {
        gsub(/Types:[^\n]*/, "Types: deb-src"); print $0 "\n" }' "$list" >"$apt/parts/$(basename "$list")"
done
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ ! -f "$list" ] || sed -n '/security/!s/^deb \(.*\(bookworm\|trixie\|stable\) .*main\)/deb-src \1/p' "$list" \
        >"$apt/parts/$(basename "$list" .list).list"
done
find "$apt/parts" -empty -type f -delete
get() {
    apt-get -qq -oDir::Etc::SourceList=/dev/null -oDir::Etc::SourceParts="$apt/parts" -oDir::State::Lists="$apt/lists" \
        -oDir::Cache="$apt/cache" -oAPT::Sandbox::User="$(id -un)" "$@" </dev/null
}
get update

for name in $missing; do
    mkdir -p "$apt/$name"
    (cd "$apt/$name" && get source --download-only "$name")
    set -- "$apt/$name"/*.orig.tar.*
    mkdir "$apt/$name/tree"
    tar -xf "$1" -C "$apt/$name/tree" --strip-components=1
    mv "$apt/$name/tree" "$folder/$name"
done
rm -rf "$apt"
