# shellcheck shell=bash
# Builds and runs tests for .ci/run, and counts them in the file $counts: sourced.
# shellcheck disable=SC2154 # counts, jobs, turn and touched are of .ci/run

# count PASSED FAILED SKIPPED: of tests, for the last line.
count() { printf '%d %d %d\n' "$@" >>"$counts"; }
# count_ctest LOG: of the summary of CTest, which is shown.
count_ctest() {
    local n failures skips
    grep -A 100 '^[0-9]*% tests passed' "$1" || true
    read -r failures n \
        < <(sed -n 's/^[0-9]*% tests passed, \(.*\) tests failed out of \(.*\)$/\1 \2/p' "$1" | tail -n 1)
    skips=$(grep -c '(Skipped)$' "$1" || true)
    count $((n - failures - skips)) "$failures" "$skips"
}
# run_ctest LOG FLAG...: all that failed, and CTest's closing lines.
run_ctest() {
    local log=$1 status=0
    shift
    ctest --output-on-failure "$@" -j "$jobs" >"$log" 2>&1 || status=$?
    [ "$status" = 0 ] || cat "$log"
    count_ctest "$log"
    return "$status"
}
# run_node LOG COMMAND...: tests of Node, and how many they were.
run_node() {
    local log=$1 status=0
    shift
    "$@" >"$log" 2>&1 || status=$?
    cat "$log"
    # shellcheck disable=SC2046 # three numbers
    count $(awk '/^[^ ]+ (pass|fail|skipped) [0-9]+$/ { n[$2] += $3 }
        END { print n["pass"] + 0, n["fail"] + 0, n["skipped"] + 0 }' "$log")
    return "$status"
}

# build PRESET TARGET...: configured, and built without a word.
build() {
    cmake --log-level=NOTICE --preset "$1"
    cmake --build --preset "$1" --target "${@:2}" -- --quiet
}
# half [ALWAYS]: the lines that match, and every second one of the others, in turns by the number of commits.
half() { awk -v turn="$turn" -v always="${1:-^$}" '$0 ~ always || (n++ + turn) % 2'; }
# preset NAME [FLAG...]: its tests, built and run.
preset() {
    build "$1" tests
    run_ctest "build/$1/ctest.txt" --preset "$@"
}
# half_preset NAME [FLAG...]: of its tests fuzzers, those of touched folders, and half of the others.
half_preset() {
    local tests
    build "$1" tests
    tests=$(ctest --preset "$1" -N "${@:2}" | sed -n 's/^ *Test *#[0-9]*: //p' |
        half "^fuzz_${touched:+|^($touched)[.]}" | paste -sd '|')
    run_ctest "build/$1/ctest.txt" --preset "$@" -R "^($tests)\$"
}
