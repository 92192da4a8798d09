#!/bin/sh
# Builds the Debian packages and installs them into an empty system folder: the command answers, the library links, what
# they need is named, and nothing is left after removal.
# Usage: packages.sh BUILD_FOLDER CC
set -eu
build=$1 cc=$2
source=$(cd "$(dirname "$0")/../.." && pwd)
for tool in cpack dpkg-shlibdeps; do
    command -v "$tool" >/dev/null && continue
    echo "$tool was not found: the packages are not checked"
    [ "${CI:-}" != true ]
    exit
done
root=$build/scratch/packages
rm -rf "$root"
mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info" "$root/var/log" "$root/tmp"
: >"$root/var/lib/dpkg/status"
(cd "$build" && cpack >"$root/cpack.log" 2>&1) || { cat "$root/cpack.log"; exit 1; }

needs() {
    dpkg-deb --field "$build"/packages/"$1"_*.deb Depends | grep -q "$2" && return
    echo "$1 does not depend on $2"
    exit 1
}
needs libtern0 libpcre2-8-0
needs libtern-dev 'libtern0 (= '
needs tern libjansson4
dpkg="dpkg --root=$root --force-depends --force-not-root --force-script-chrootless --log=$root/var/log/dpkg.log"
$dpkg --install "$build"/packages/*.deb >"$root/install.log" 2>&1 || { cat "$root/install.log"; exit 1; }

"$root/usr/bin/tern" version
"$root/usr/bin/tern" run "Once upon a time" -n 8 --greedy -q >/dev/null
test -f "$root/usr/share/man/man1/tern.1" || test -f "$root/usr/share/man/man1/tern.1.gz"
lib=$(dirname "$(find "$root/usr/lib" -name 'libtern.so.0')")
"$cc" "$source/examples/generate.c" -o "$root/tmp/generate" -I "$root/usr/include" -L "$lib" -ltern \
    -Wl,-rpath-link,"$lib"
text=$(LD_LIBRARY_PATH=$lib "$root/tmp/generate" "$root/usr/share/tern/models/stories.gguf" "One day")
case $text in "One day"*[a-z]*) ;; *) echo "generate wrote: $text"; exit 1 ;; esac

modules=
for module in mpi:libopenmpi torrent:libtorrent-rasterbar cuda:libc6; do # the command alone needs none of it
    name=tern-${module%%:*}
    if ls "$build"/packages/"$name"_*.deb >/dev/null 2>&1; then
        needs "$name" "${module#*:}"
        test -f "$root/usr/lib/tern/$name.so"
        modules="$modules $name"
    fi
done
if dpkg-deb --field "$build"/packages/tern_*.deb Depends | grep -qE 'mpi|torrent|stdc\+\+'; then
    echo "tern depends on a module's libraries"
    exit 1
fi

if [ -e "$root/usr/lib/tern/tern-cuda.so" ]; then # opened by either, from where the package has it
    said=$(CUDA_VISIBLE_DEVICES='' "$root/usr/bin/tern" devices | grep '^cuda: ')
    case $said in *driver*) ;; *) echo "tern devices: $said"; exit 1 ;; esac
fi

# shellcheck disable=SC2086 # no word where there is no such package
$dpkg --purge $modules tern libtern-dev libtern0 >"$root/install.log" 2>&1 || { cat "$root/install.log"; exit 1; }
left=$(find "$root/usr" -type f 2>/dev/null | head -n 1)
[ -z "$left" ] || { echo "$left is left after removal"; exit 1; }
echo "packages: built, installed, used and removed"
