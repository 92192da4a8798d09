#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: what CUDA computes against the CPU, op by op, and under compute-sanitizer.
# Usage: scripts/gpu-check.sh TERN MODEL...   (GGUF files or Hugging Face folders; the first one is run under the tools)
set -euo pipefail
tern=$1
shift
[ $# -gt 0 ] || { echo "usage: scripts/gpu-check.sh TERN MODEL..." >&2; exit 2; }
status=0
said=$(mktemp)
trap 'rm -f "$said"' EXIT

check() {
    local name=$1
    shift
    if "$@" >"$said" 2>&1; then
        printf 'passed  %s\n' "$name"
    else
        printf 'FAILED  %s\n' "$name"
        tail -20 "$said"
        status=1
    fi
}

"$tern" devices --measure | sed -n '/^cuda/,/^vulkan/p'
for model in "$@"; do check "compare $model" "$tern" compare -m "$model" --backend cuda; done
for kv in q8_0 q4_0; do check "compare $1, caches in $kv" "$tern" compare -m "$1" --backend cuda --kv $kv; done
tests=$(dirname "$tern")/test_gpu # where it was built: ops against the CPU
if [ -x "$tests" ]; then
    for group in groups rope attention experts_gpu linear_ternary training_rows gradient varlen_attention update \
        recurrent_gpu hadamard_gpu recurrent_backward_gpu; do
        check "test_gpu $group" "$tests" --backend cuda "$group"
    done
    for case in products many_rows biases choices sums rows_of_experts; do
        check "test_gpu experts_backward_gpu $case" "$tests" --backend cuda --case "$case" experts_backward_gpu
    done
    for case in every_format wide_rows slices_and_small_devices rows_of_tables halves halves_of_parts; do
        check "test_gpu dense $case" "$tests" --backend cuda --case "$case" dense
    done
fi
rsr=$(dirname "$tern")/bench_rsr_cuda
[ ! -x "$rsr" ] || check "RSR against plain products" "$rsr" check
tests=$(dirname "$tern")/test_infer # sequences with adapters of their own in one step
for group in batch_adapters_gpu exact_head_gpu; do
    [ ! -x "$tests" ] || check "test_infer $group" "$tests" --backend cuda "$group"
done
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
[ -x "$sanitizer" ] || { echo "no compute-sanitizer: install the CUDA toolkit" >&2; exit 1; }
for tool in memcheck racecheck initcheck synccheck; do
    check "$tool" "$sanitizer" --tool "$tool" --error-exitcode 1 "$tern" compare -m "$1" --backend cuda
done
"$tern" bench -m "$1" --backend cuda
exit $status
