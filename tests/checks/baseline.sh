#!/bin/sh
# scripts/baseline.py on results that are made up: what is as fast passes, what is slower, or below a floor, fails.
# Usage: baseline.sh SOURCE_FOLDER
set -eu
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
script=$1/scripts/baseline.py

# bench DECODE: the output of tern bench --json.
bench() {
    printf '{"cpu": "A", "model": "m i2_s", "parameters": 1000000000, "head": "f16", "activations": "int8",
    "kernel": null, "no_fusion": null, "adapters": 0, "prompt_tokens": 8, "machine": {"os": "B"}, "results": [{
    "threads": 2, "prefill_tokens_per_second": {"median": 100.0}, "decode_tokens_per_second": {"median": %s}}]}' "$1"
}
# expect STATUS WORDS ARGUMENTS
expect() {
    status=$1 words=$2
    shift 2
    got=0
    python3 "$script" --file record.json "$@" >out 2>&1 || got=$?
    if [ "$got" -ne "$status" ] || { [ -n "$words" ] && ! grep -qF -- "$words" out; }; then
        echo "baseline.py $*: status $got, $status and \"$words\" expected:" && cat out && exit 1
    fi
}
bench 20.0 >20.json
bench 17.9 >slow.json
bench 18.1 >near.json
echo '[' >broken.json
expect 0 'not in the record' 20.json
expect 0 '' --update 20.json
expect 0 'decode 20.00 tokens/s, 1.00 of 20.00' 20.json
expect 0 'ok' near.json
expect 1 'SLOWER  A, m i2_s 1.00 G, 2 threads: decode 17.90 tokens/s, 0.89 of 20.00' slow.json
expect 0 'ok' --bar 0.5 slow.json
expect 1 'at least 25 expected' --least 25 20.json
expect 2 '--bar 2.0' --bar 2 20.json
expect 2 'broken.json' broken.json
expect 0 '' --update slow.json
expect 1 'of 17.90' --bar 1 slow.json near.json --least 18
