#!/bin/sh
# Drivers of emulated GPUs, without which some tests are skipped. Under CI=true none may be missing.
# Usage: tools.sh SOURCE_FOLDER LAVAPIPE   (the driver's file, or a word that ends in NOTFOUND, or nothing)
set -eu
source=$1 lavapipe=$2
missing=
if [ ! -f "$lavapipe" ]; then missing="$missing lavapipe(mesa-vulkan-drivers)"; fi
if ! "$source/tests/checks/swiftshader.sh" > /dev/null 2>&1; then missing="$missing SwiftShader(chromium)"; fi
if [ -z "$missing" ]; then exit 0; fi
echo "Missing:$missing. Tests that need them are skipped."
if [ "${CI:-}" = true ]; then exit 1; fi
