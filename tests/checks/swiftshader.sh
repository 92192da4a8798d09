#!/bin/sh
# Runs a test on SwiftShader, the Vulkan driver that Chromium brings, wherever that lies now; without a command prints
# the file of the driver. Without a driver: 77, which CTest takes as skipped, and under CI=true 1.
# Usage: swiftshader.sh [COMMAND [ARGUMENT ...]]
set -eu
for folder in /usr/lib/chromium /opt/google/chrome; do
  driver=$folder/vk_swiftshader_icd.json
  if [ ! -f "$driver" ]; then continue; fi
  if [ $# -eq 0 ]; then
    echo "$driver"
    exit 0
  fi
  exec env VK_ICD_FILENAMES="$driver" VK_DRIVER_FILES="$driver" "$@"
done
echo "skipped: no SwiftShader found (package chromium)" >&2
if [ "${CI:-}" = true ]; then exit 1; fi
exit 77
