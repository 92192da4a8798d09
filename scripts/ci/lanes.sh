# shellcheck shell=bash
# The two lanes of .ci/run, and the table at its end: sourced. A lane takes lines of steps from the file $queue.
# shellcheck disable=SC2154 # names of files and ci_warmth are of .ci/run and caches.sh

# Processor seconds of what has ended so far, to tell a slow step from a busy machine.
cpu_seconds() { awk -v hz="$(getconf CLK_TCK)" '{ print int(($16 + $17) / hz) }' "/proc/$$/stat"; }
# attempt COMMAND...: in a shell of its own, which ends at the first failure. $status says how it ended.
attempt() {
    set +e
    (set -e; "$@")
    status=$?
    set -e
}
# A step that fails is named in the file $failed, and the others go on: one run tells all that is wrong.
run_step() {
    local start=$SECONDS cpu status said=passed
    cpu=$(cpu_seconds)
    printf '\n=== %s\n' "$1"
    attempt "step_$1"
    mkdir -p build
    [ "$status" = 0 ] || { said=FAILED; echo "$1" >>"$failed"; }
    printf '%-12s %6d %10d\n' "$1" $((SECONDS - start)) $(($(cpu_seconds) - cpu)) | tee -a "$times" |
        awk -v said="$said" '{ printf "=== %s: %s in %d s, %d s of processor time\n", $1, said, $2, $3 }'
}
# Ends the run if a step has failed.
need_steps() { [ ! -s "$failed" ] || { echo "Failed: $(paste -sd ' ' "$failed")"; exit 1; }; }
run_lane() {
    local steps step
    while steps=$(flock "$queue.lock" sh -c 'head -n 1 "$1" && sed -i 1d "$1"' take "$queue") && [ -n "$steps" ]; do
        for step in $steps; do run_step "$step"; done
    done
}

# A second lane beside this one, as many steps keep one core busy; its lines come at the end.
start_lane() {
    # It is a group, which ends with this one.
    setsid .ci/run --lane >"$lane_log" 2>&1 &
    lane=$!
}
end_lane() {
    local status=0
    wait "$lane" || status=$?
    lane=
    cat "$lane_log"
    return "$status"
}
# The table of steps and the number of tests, also where a step has failed.
finish() {
    local status=$? said='All steps passed'
    [ "$status" = 0 ] || said='A step has failed'
    [ -z "${lane-}" ] || kill -- "-$lane" 2>/dev/null || true
    count 0 0 0 # at least one line
    printf '\n%-12s %6s %10s\n' step 'wall s' 'processor s'
    cat "$times" 2>/dev/null || true
    cp "$times" "$ci_cache/times" 2>/dev/null || true
    printf '\nCaches at the start:%s\n' "${ci_warmth-}"
    ccache -s 2>/dev/null | awk '/Hits:/ && !n++ { print "ccache has served " $2 " of " $4 " compilations" }' || true
    printf '%s in %d s, %d s of processor time\n' "$said" "$SECONDS" "$(cpu_seconds)"
    awk -v status="$status" '
        { p += $1; f += $2; s += $3 }
        END { printf "%d passed, %d failed, %d skipped\n", p, status && !f ? 1 : f, s }' "$counts"
}
