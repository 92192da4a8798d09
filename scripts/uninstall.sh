#!/bin/sh
# Removes the files that `make install` has installed, and Tern's folders that are empty then.
# Usage: uninstall.sh MANIFEST DESTDIR PREFIX   (MANIFEST: install_manifest.txt of CMake, one path a line)
set -eu
manifest=$1 destination=$2 prefix=$3
[ -f "$manifest" ] || { echo "$manifest does not exist: \`make install\` writes it" >&2; exit 1; }
first=$(head -n 1 "$manifest")
case $first in
"$prefix"/*) ;;
*) echo "$manifest is of another PREFIX than $prefix: $first" >&2; exit 1 ;;
esac
while IFS= read -r file || [ -n "$file" ]; do rm -f "$destination$file"; done <"$manifest"
cd "$destination$prefix"
for folder in share/tern share/doc/*tern* include/tern lib/tern; do
    [ ! -d "$folder" ] || find "$folder" -depth -type d -empty -delete
done
