#!/bin/sh
# Installs the Debian packages of `make deb` into a fresh Debian system (debootstrap, from the mirror that apt has here)
# and tries them there: the command, the manual page, a program compiled against the library, removal.
# Needs root, a network and half a minute of it; the tests do what needs neither (tests/checks/packages.sh).
# Usage: try-packages.sh [PACKAGES_FOLDER [SCRATCH_FOLDER]]
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
packages=${1:-$source/build/release/packages}
scratch=${2:-$source/build/release/scratch}
ls "$packages"/tern_*.deb "$packages"/libtern0_*.deb "$packages"/libtern-dev_*.deb >/dev/null
# shellcheck disable=SC1091
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
# shellcheck disable=SC2016 # apt's own fields
fields='$(REPO_URI) $(CODENAME) $(COMPONENT)'
mirror=$(apt-get indextargets --format "$fields" | awk -v s="$suite" '$2 == s && $3 == "main" {print $1; exit}')
root=$scratch/fresh
mkdir -p "$scratch"
rm -rf "$root"
log=$scratch/debootstrap.log
debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$log" || { tail "$log"; exit 1; }
mkdir "$root/debs"
cp "$packages"/*.deb "$root/debs"
cp "$source/examples/generate.c" "$root/debs"
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive chroot "$root" sh -eu <<'END'
quietly() { "$@" >/install.log 2>&1 || { tail /install.log; exit 1; }; }
add='apt-get install -y -qq --no-install-recommends'
quietly $add /debs/libtern0_*.deb /debs/tern_*.deb
tern version
tern run "Once upon a time" -n 16 --greedy
test -s /usr/share/man/man1/tern-run.1 || test -s /usr/share/man/man1/tern-run.1.gz
installed='tern libtern0 libtern-dev'
if ls /debs/tern-cuda_*.deb >/dev/null 2>&1; then # it starts without a driver
    quietly $add /debs/tern-cuda_*.deb
    installed="$installed tern-cuda"
    tern devices | grep '^cuda: no NVIDIA driver'
fi
quietly $add /debs/libtern-dev_*.deb gcc libc6-dev pkg-config
cc /debs/generate.c -o /debs/generate $(pkg-config --cflags --libs tern)
/debs/generate /usr/share/tern/models/stories.gguf "Once upon a time"
echo
quietly apt-get purge -y -qq $installed
left=$(find /usr \( -name 'tern*' -o -name 'libtern*' \) -newer /debs/generate.c | head -n 1)
test -z "$left" || { echo "$left is left"; exit 1; }
END
rm -rf "$root"
echo "The packages were installed into a fresh $suite, tried and removed."
