# shellcheck shell=bash
# Builds and runs tests for .ci/run, and counts them in the file $counts: sourced.
# shellcheck disable=SC2154 # counts, jobs, turn, touched and unreached are of .ci/run

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
# names_of FLAG...: the tests that CTest would run with these flags.
names_of() { ctest -N "$@" | sed -n 's/^ *Test *#[0-9]*: //p'; }
# taken N [ALWAYS]: the lines of this turn, by the number of commits: those that match, of tests of folders that call
# nothing of what has changed every fourth one, and of the others every Nth.
taken() {
    awk -v turn="$turn" -v every="$1" -v always="${2:-^$}" -v unreached="^(${unreached:-.^})[.]" '
        $0 ~ always { print; next }
        $0 ~ unreached { if ((rare++ + turn) % 4 == 0) print; next }
        (n++ + turn) % every == 0'
}
# Lines as a regular expression for CTest.
any_of() { printf '^(%s)$' "$(paste -sd '|')"; }
# preset NAME: its tests, built and run.
preset() {
    build "$1" tests
    run_ctest "build/$1/ctest.txt" --preset "$1" -R "$(names_of --preset "$1" | taken 1 | any_of)"
}
# half_preset NAME [FLAG...]: of its tests fuzzers, those of touched folders, and half of the others.
half_preset() {
    build "$1" tests
    run_ctest "build/$1/ctest.txt" --preset "$@" \
        -R "$(names_of --preset "$@" | taken 2 "^fuzz_${touched:+|^($touched)[.]}" | any_of)"
}
