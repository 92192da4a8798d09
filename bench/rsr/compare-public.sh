#!/bin/sh
# Times the ternary kernels of the public RSR code (github.com/UIC-InDeXLab/RSR-core) beside Tern's: the same matrices,
# the same clock, weights that are in no cache. LIBRARY is a shared library of its kernels (rsr_ternary_v3_1.so or
# rsr_ternary_v3_3.so), built as that project says.
# Usage: compare-public.sh LIBRARY [LIBRARY ...] [-- ARGUMENTS OF bench_rsr]
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
if [ $# -eq 0 ] || [ ! -f "$1" ]; then
    sed -n '2,5s/^# //p' "$0" >&2
    exit 2
fi
libraries=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    libraries="$libraries --public $(realpath "$1")"
    shift
done
[ $# -eq 0 ] || shift
(cd "$root" && cmake --preset release >/dev/null && cmake --build --preset release --target bench_rsr >/dev/null)
# shellcheck disable=SC2086 # several arguments
exec "$root/build/release/bench_rsr" $libraries "$@" shapes
