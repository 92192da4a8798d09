#!/bin/sh
# A long context on a device with room for a part of its keys and values: decode beside a room for all of them, and
# whether the text is the same. Writes Llama 3 8B's shapes with random weights first, unless FILE is there.
#
#   bench/long-context.sh [TERN [FILE [POSITIONS [ROOM [FLAGS...]]]]]
#   bench/long-context.sh build/release/tern /tmp/8b.gguf 131072 2G --backend cuda
#
# 2G is what 16k positions of these shapes take in f16 (131,072 bytes a position).
set -eu

tern=${1:-build/release/tern}
file=${2:-/tmp/llama3-8b.gguf}
positions=${3:-131072}
room=${4:-2G}
[ $# -gt 4 ] && shift 4 || set -- --backend cuda
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

[ -e "$file" ] || "$tern" synth --preset llama3-8b --type q4_k --head q6_k --ctx "$positions" -o "$file"
depth=$((positions - 256))
for room_now in all "$room"; do
  echo "room for keys and values: $room_now"
  "$tern" bench -m "$file" -p 0 -n 32 --depth $depth -r 3 --kv f16 --kv-memory "$room_now" "$@"
done

# A text of a third of the positions, so that this part is quick: both rooms must choose the same tokens.
seq -s ' ' 1 $((positions / 12)) >"$work/prompt"
for room_now in all "$room"; do
  "$tern" run -m "$file" -c "$positions" -f "$work/prompt" -n 24 --greedy --ignore-eos --kv f16 --json \
    --kv-memory "$room_now" "$@" >"$work/$room_now.json"
done
python3 - "$work/all.json" "$work/$room.json" <<'PY'
import json, sys
texts = [json.load(open(path))["text"] for path in sys.argv[1:]]
print("the same text" if texts[0] == texts[1] else "other text: %r and %r" % tuple(texts))
sys.exit(texts[0] != texts[1])
PY
