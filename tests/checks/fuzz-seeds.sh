#!/bin/sh
# Every fuzzer has an archive of seeds as scripts/fuzz_seeds.py writes it, and the script adds, extracts, takes out and
# refuses what it says. Usage: fuzz-seeds.sh SOURCE
set -eu
seeds=$1/scripts/fuzz_seeds.py
"$seeds" check
for fuzzer in "$1"/tests/fuzz/fuzz_*.c; do
    name=$(basename "$fuzzer" .c)
    archive=tests/fuzz/corpus/${name#fuzz_}.tar
    [ -s "$1/$archive" ] || { echo "$archive: no such archive"; exit 1; }
done

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
mkdir in
printf 'one' >in/a
printf 'one' >in/b
: >in/c
run() { "$seeds" --corpus . "$@"; }
expect() { # TEXT FOUND
    [ "$1" = "$2" ] || { echo "fuzz-seeds: expected '$1', found '$2'"; exit 1; }
}
refuses() { # WORDS COMMAND...
    words=$1
    shift
    if said=$(run "$@" 2>&1); then echo "fuzz-seeds: $*: accepted"; exit 1; fi
    case $said in *"$words"*) ;; *) echo "fuzz-seeds: $*: expected '$words', found '$said'"; exit 1 ;; esac
}

expect 'x: 2 added, 1 known' "$(run add x in/c in/b in/a)"
expect 'x: 0 added, 2 known' "$(run add x in/c in/a)"
cp x.tar once.tar
run add once in/b in/c >/dev/null
cmp x.tar once.tar
expect 'b c' "$(tar -tf x.tar | tr '\n' ' ' | sed 's/ $//')"
run extract x out
cmp in/b out/b
cmp in/c out/c
printf 'two' >in/b
refuses 'b is the name of another seed' add x in/b
refuses 'x has no seed d' remove x d
refuses 'no such archive' list y
run remove x c
expect "$(printf 'x\t3\tb')" "$(run list x)"
run check

tar -cf y.tar -C in a c # with times and owners
refuses 'y.tar: not as' check y
cp in/a in/d
tar -cf y.tar --format=ustar --mtime=@0 --owner=:0 --group=:0 --mode=644 -C in a d
refuses 'y.tar: two seeds have the same bytes' check y
expect 'y: 1 removed, 1 left' "$(run unique y)"
run check
