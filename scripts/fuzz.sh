#!/usr/bin/env bash
# Runs fuzzers of a build, one after the other, and keeps what they learn.
#
#     scripts/fuzz.sh [--build DIR] [--seconds N] [--jobs N] [--timeout N] [--seed N] [--merge] [NAME...]
#
# NAME: gguf, json, ... (default: all that the build has). Each runs --seconds (5) of the clock in --jobs (1) processes,
# with at most 2 GB of memory and --timeout (10) seconds of the clock for an input, so that bombs are findings. It
# begins with the seeds in tests/fuzz/corpus/NAME.tar, which it unpacks into DIR/seeds/NAME, and with DIR/corpus/NAME,
# where inputs that reach new code are kept; findings go to DIR/found/NAME. Each run adds a line to DIR/fuzz.tsv: the
# fuzzer, seconds of the clock, seconds of processor time, inputs tried, findings.
# --seed (0: another in each run): the same inputs in the same order, so that a run can be repeated; ctest has 1.
# --merge (after the runs; alone with --seconds 0): brings tests/fuzz/corpus/NAME.tar up to what DIR/corpus/NAME covers,
# by adding the smallest inputs of at most 4 KB that do (scripts/fuzz_seeds.py adds single ones).
set -uo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/asan seconds=5 jobs=1 timeout=10 seed=0 merge=0
names=()
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "$0"; }
while [ $# -gt 0 ]; do
    case $1 in
    --build) build=$(realpath -- "$2"); shift ;;
    --seconds) seconds=$2; shift ;;
    --jobs) jobs=$2; shift ;;
    --timeout) timeout=$2; shift ;;
    --seed) seed=$2; shift ;;
    --merge) merge=1 ;;
    -h | --help) usage; exit 0 ;;
    -*) echo "fuzz.sh: $1: no such flag (--help lists them)" >&2; exit 2 ;;
    *) names+=("$1") ;;
    esac
    shift
done
if [ ${#names[@]} = 0 ]; then
    for source in "$root"/tests/fuzz/fuzz_*.c; do
        name=$(basename "$source" .c)
        names+=("${name#fuzz_}")
    done
fi

# Refusing a huge allocation is what the library must cope with, so AddressSanitizer does not stop at one; libFuzzer
# stops where one that is granted is over the limit.
export ASAN_OPTIONS=${ASAN_OPTIONS:-allocator_may_return_null=1:detect_stack_use_after_return=1}
limits=(-rss_limit_mb=2048 -malloc_limit_mb=2048 "-timeout=$timeout" "-report_slow_units=$timeout")
TIMEFORMAT='%R %U %S'

unpack() { # NAME: its seeds into a folder, as libFuzzer reads them
    rm -rf "$build/seeds/$1"
    mkdir -p "$build/seeds/$1"
    tar -xf "$root/tests/fuzz/corpus/$1.tar" -C "$build/seeds/$1"
}

run_one() { # NAME: its exit status
    local name=$1 log=$build/log/$1 inputs findings times status
    unpack "$name" || return 1
    local corpus=$build/corpus/$name found=$build/found/$name
    mkdir -p "$log" "$corpus" "$found"
    rm -f "$log"/fuzz-*.log
    local before after
    before=$(find "$found" -type f | wc -l)
    local how=("-seed=$seed" "-max_total_time=$seconds" -print_final_stats=1 "-artifact_prefix=$found/")
    [ "$jobs" -gt 1 ] && how+=("-jobs=$jobs" "-workers=$jobs")
    times=$({ time (cd "$log" && "$build/fuzz_$name" "${limits[@]}" "${how[@]}" "$corpus" \
        "$build/seeds/$name" >fuzz-main.log 2>&1); } 2>&1)
    status=$?
    after=$(find "$found" -type f | wc -l)
    findings=$((after - before))
    inputs=$(cat "$log"/fuzz-*.log | awk '/stat::number_of_executed_units/ {n += $2} END {printf "%d", n}')
    awk -v name="$name" -v times="$times" -v inputs="$inputs" -v findings="$findings" 'BEGIN {
        split(times, t, " ")
        printf "%s\t%.0f\t%.0f\t%d\t%d\n", name, t[1], t[2] + t[3], inputs, findings }' | tee -a "$build/fuzz.tsv"
    if [ $status != 0 ]; then
        tail -n 60 "$log"/fuzz-*.log >&2
        return 1
    fi
}

merge_one() { # NAME
    local name=$1 small=$build/small/$1
    [ -d "$build/corpus/$name" ] || return 0
    unpack "$name" || return 1
    rm -rf "$small"
    mkdir -p "$small" "$build/log/$name"
    find "$build/corpus/$name" -type f -size -5k -exec cp -t "$small" {} +
    "$build/fuzz_$name" "${limits[@]}" -merge=1 -use_counters=0 "$build/seeds/$name" "$small" \
        >"$build/log/$name/merge.log" 2>&1 || { tail "$build/log/$name/merge.log" >&2; return 1; }
    "$root/scripts/fuzz_seeds.py" add "$name" "$build/seeds/$name"/*
}

failed=0
for name in "${names[@]}"; do
    if ! [ -x "$build/fuzz_$name" ]; then
        echo "fuzz.sh: $build/fuzz_$name: no such fuzzer; make fuzz builds them" >&2
        exit 2
    fi
    [ "$seconds" -gt 0 ] && { run_one "$name" || failed=1; }
    [ "$merge" = 1 ] && { merge_one "$name" || failed=1; }
done
exit $failed
