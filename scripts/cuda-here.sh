#!/bin/sh
# After a build of the command: makes tern-cuda.so for the NVIDIA GPUs of this machine, where cmake has found some, and
# nvcc (cmake/cuda.cmake).
# Usage: cuda-here.sh BUILD_FOLDER
set -eu
build=$1
gpus=$(sed -n 's/^TERN_CUDA_GPUS:INTERNAL=//p' "$build/CMakeCache.txt")
[ -n "$gpus" ] || exit 0
[ -e "$build/tern-cuda.so" ] ||
    echo "An NVIDIA GPU is here ($gpus): making $build/tern-cuda.so for it, some minutes (Ctrl-C: not now)"
cmake --build "$build" --target tern_cuda
