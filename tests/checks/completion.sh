#!/usr/bin/env bash
# What the scripts of `tern completion` complete: bash's is run; zsh's and fish's are read, where these are here.
# Usage: completion.sh TERN
set -eu
tern=$1
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder"
touch one.gguf two.txt
export HF_HUB_CACHE=$folder/hub
commit=0123456789abcdef0123456789abcdef01234567
mkdir -p hub/models--a--b/refs hub/models--a--b/snapshots/$commit
printf %s $commit > hub/models--a--b/refs/main
cp one.gguf hub/models--a--b/snapshots/$commit/one.gguf
tern() { "$tern" "$@"; }
# shellcheck source=/dev/null
source <("$tern" completion bash)

# completes LINE: what is offered where the cursor stands behind it, with blanks between
completes() {
    COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
    _tern
    echo "${COMPREPLY[*]}"
}
failed=
expect() { # LINE EXPECTED
    local found
    found=$(completes "$1")
    [ "$found" = "$2" ] || { echo "completion of \"$1\": \"$found\" found, \"$2\" expected"; failed=1; }
}
expect "tern fine" "finetune"
expect "tern help fine" "finetune"
expect "tern run --temp " ""
expect "tern run -n " ""
expect "tern run --seed o" ""
expect "tern run --prompt " ""
expect "tern run --backend v" "vulkan"
expect "tern run --backend=v" "vulkan"
expect "tern run --kv q" "q8_0 q4_0"
expect "tern run --kernel l" "lut"
expect "tern run --head ex" "exact"
expect "tern run --cpu-features s" "scalar sse4.1 simd128"
expect "tern run --top-" "--top-k --top-p --top-n-sigma"
expect "tern run -f tw" "two.txt"
expect "tern chat --template gem" "gemma"
expect "tern chat --template on" "one.gguf"
expect "tern synth --preset bitnet-t" "bitnet-tiny"
expect "tern convert one.gguf --type q4_k" "q4_k q4_k_s q4_k_m"
expect "tern convert o" "one.gguf"
expect "tern imatrix -f t" "two.txt"
expect "tern completion " "bash zsh fish"
expect "tern version " "--json --help --help-all"
expect "tern version --j" "--json"
expect "tern pull bitnet" "bitnet-2b-4t"
expect "tern run -m o" "one.gguf"
names=$("$tern" list --names)
expect "tern run -m ${names:0:4}" "${names#"${names%"${names##*:}"}"}"
expect "tern rm " "$names"

for shell in zsh fish; do
    "$tern" completion $shell > "$folder/script"
    if command -v $shell > /dev/null; then $shell -n "$folder/script" || failed=1; fi
done
[ -z "$failed" ]
